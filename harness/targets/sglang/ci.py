"""`make ci-sglang VERSION=0.5.12`: the tests of one release, where its wheel can be had.

A machine without a network, or with a mirror that is slow or lacks the wheel, says so in one line
and goes on. A release that is here and cannot be imported is a failure, as is a test that fails.
"""

import os
import subprocess
import sys
from pathlib import Path

from harness.targets.sglang.environment import ROOT, Unavailable, fetch

ONLY = "KVTORTURE_SGLANG"  # the release whose tests run; all that are here, where it is not set


def main(version: str, root: Path = ROOT) -> int:
    """0 when the tests passed or the wheel cannot be had, else what failed first."""
    try:
        fetch(version, root)
    except Unavailable as error:
        print(f"the tests of sglang {version} are left out: {error}")
        return 0
    for words in (
        ("harness.targets.sglang", version),
        ("pytest", "-q", "-n0", "-m", "sglang", "tests/harness/targets"),
    ):
        done = subprocess.run([sys.executable, "-m", *words], env={**os.environ, ONLY: version})
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
