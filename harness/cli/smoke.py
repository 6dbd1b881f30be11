"""`bench.py smoke`: a minute of everything; exit code, JUnit XML and Markdown for CI."""

import os
from pathlib import Path
from typing import Any

import click

from harness.cli.errors import UserError
from harness.smoke.pages import junit, markdown
from harness.smoke.plan import SHIPPED, PlanError, read_plan
from harness.smoke.run import Result, exit_code, run_plan


def run(flags: dict[str, Any]) -> int:
    """Run the plan, write the pages, tell. Returns the exit code."""
    path = Path(flags["plan"]) if flags["plan"] else SHIPPED
    folder = Path(flags["output_dir"])
    try:
        steps = read_plan(path)
        folder.mkdir(parents=True, exist_ok=True)
    except PlanError as error:
        raise UserError(f"--plan {error}") from None
    except OSError as error:
        raise UserError(f"--output-dir {folder}: {error.strerror}") from None
    results = run_plan(steps, folder, _tell)
    page = markdown(results)
    (folder / "smoke.xml").write_text(junit(results))
    (folder / "smoke.md").write_text(page)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(page)
    return exit_code(results)


def _tell(result: Result) -> None:
    word = "pass" if result.passed else "FAIL"
    click.echo(f"{word}  {result.seconds:5.1f} s  {result.step.name}")
    for complaint in result.complaints:
        click.echo(f"                {complaint}")
