"""Runs the steps, each as a process of its own, and judges what came of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.smoke.plan import Step
from harness.verdict import Exit

STEP_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One step: `complaints` is empty when it went as it must. `crashed` when it has no summary."""

    step: Step
    seconds: float
    code: int
    summary: Mapping[str, Any]
    complaints: tuple[str, ...]
    crashed: bool
    said: str

    @property
    def passed(self) -> bool:
        return not self.complaints


def run_plan(
    steps: tuple[Step, ...], output_dir: Path, told: Callable[[Result], None]
) -> list[Result]:
    """One after the other, whatever becomes of those before; `told` of each as it ends."""
    results = []
    for step in steps:
        results.append(run_step(step, output_dir))
        told(results[-1])
    return results


def exit_code(results: list[Result]) -> Exit:
    """The worst: a step that crashed, a finding where there should be none, a threshold."""
    failed = [result for result in results if not result.passed]
    if any(result.crashed for result in failed):
        return Exit.RUN_FAILED
    if any(r.code == Exit.VIOLATION and Exit.VIOLATION not in r.step.exits for r in failed):
        return Exit.VIOLATION
    return Exit.THRESHOLD if failed else Exit.PASS


def run_step(step: Step, output_dir: Path) -> Result:
    """Its server, if it needs one, is started before and stopped after it."""
    started = time.monotonic()
    try:
        with _server(step, output_dir) as url:
            words = [word.replace("{url}", url) for word in step.command]
            done = subprocess.run(
                [*_bench(words[0], output_dir), *words[1:]],
                capture_output=True, text=True, timeout=STEP_S, env=_environment(),
            )  # fmt: skip
        code, out, said = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, said = Exit.RUN_FAILED, "", f"not over after {STEP_S:g} s"
    except (OSError, ValueError, LookupError) as error:
        code, out, said = Exit.RUN_FAILED, "", f"the server did not start: {error}"
    summary = _summary(out)
    complaints = [] if code in step.exits else [f"exit code {int(code)}, not {list(step.exits)}"]
    complaints += [text for check in step.checks if (text := check.complaint(summary))]
    return Result(
        step=step,
        seconds=time.monotonic() - started,
        code=code,
        summary=summary,
        complaints=tuple(complaints),
        crashed=not summary,
        said=said[-2000:],
    )


@contextmanager
def _server(step: Step, output_dir: Path) -> Iterator[str]:
    if step.serve is None:
        yield ""
        return
    command = [*_bench("serve", output_dir), "--port", "0", *step.serve]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    assert process.stdout is not None
    try:
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=STEP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _bench(command: str, output_dir: Path) -> list[str]:
    where = ["--output-dir", str(output_dir), "--tag", f"smoke-{command}", "--json"]
    return [sys.executable, "-m", "bench", command, *where]


def _environment() -> dict[str, str]:
    """The command line is found from anywhere."""
    known = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), known)))}


def _summary(out: str) -> dict[str, Any]:
    lines = [line for line in out.splitlines() if line.startswith("{")]
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
