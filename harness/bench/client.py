"""The client of `load` against a null server, as `load --calibrate` measures it.

In a process of its own: Locust patches the standard library of whoever imports it.
"""

import json
import subprocess
import sys
from pathlib import Path

from harness.bench.sheet import Sheet
from harness.load.calibrate import Floor, sheet_of

ROOT = Path(__file__).resolve().parents[2]


def measure(*flags: str) -> Sheet:
    """`flags` are those of `load`, such as a rate and a duration."""
    command = [sys.executable, "-m", "bench", "load", "--calibrate", "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = json.loads(done.stdout.splitlines()[-1])["floors"]
    for page in pages:
        del page["holds"]
    return sheet_of([Floor(**page) for page in pages], processes=1)
