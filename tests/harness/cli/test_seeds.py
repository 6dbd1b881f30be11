"""Seeds: a number is itself, a commit has one of its own, a tree without one says why not."""

import subprocess
from pathlib import Path

import click
import pytest

from harness.cli.seeds import FALLBACK, Seed, commit_seed


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", "-C", root, *who, *words], capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(root: Path, text: str) -> str:
    (root / "file").write_text(text)
    git(root, "add", "file")
    git(root, "commit", "-q", "-m", text)
    return git(root, "rev-parse", "HEAD")


def test_every_commit_has_a_seed_that_can_be_typed_again(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    seeds = []
    for text in ("one", "two"):
        head = commit(tmp_path, text)
        found = commit_seed(tmp_path)
        assert found.origin == f"commit {head[:12]}"
        assert Seed().convert(str(found.seed), None, None) == found.seed == int(head[:12], 16)
        seeds.append(found.seed)
    assert seeds[0] != seeds[1]


def test_a_tree_without_a_commit_of_its_own_gets_a_fixed_seed_and_says_why(tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    exported.mkdir()
    bare = commit_seed(exported)
    git(tmp_path, "init", "-q")
    commit(tmp_path, "somebody else's")
    inside = commit_seed(exported)
    assert bare == inside == (FALLBACK, "this tree is no checkout, so it has no commit")


def test_without_git_there_is_a_seed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = commit_seed(tmp_path)
    assert found.seed == FALLBACK
    assert "no git" in found.origin


def test_what_is_no_seed_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="use a whole number, or commit"):
        Seed().convert("tuesday", None, None)
