"""Seeds as people type them: a number, or `commit` for one that every commit has of its own."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parents[2]
FALLBACK = 42
DIGITS = 12  # of the commit's hash; what they stand for is exact in JSON


class Seed(click.ParamType[int]):
    """A whole number; `commit` is a number made of the checked-out commit, told on standard error
    so that it can be typed again."""

    name = "seed"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        if value == "commit":
            found = commit_seed(ROOT)
            click.echo(f"seed {found.seed}: {found.origin}", err=True)
            return found.seed
        try:
            return int(str(value))
        except ValueError:
            self.fail(f"{value!r} is no seed: use a whole number, or commit", param, context)


class CommitSeed(NamedTuple):
    """`origin` is the commit, or why there is none."""

    seed: int
    origin: str


def commit_seed(root: Path) -> CommitSeed:
    """The seed of the commit that is checked out in `root`; a fixed one if there is no such."""
    words = ["git", "-C", str(root), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        return CommitSeed(FALLBACK, f"there is no git to name the commit ({error.strerror})")
    top, _, commit = done.stdout.strip().partition("\n")
    if done.returncode or Path(top).resolve() != root.resolve():
        return CommitSeed(FALLBACK, "this tree is no checkout, so it has no commit")
    return CommitSeed(int(commit[:DIGITS], 16), f"commit {commit[:DIGITS]}")
