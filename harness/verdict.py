"""What a run may conclude, and the exit codes by which scripts read it."""

from enum import Enum, IntEnum


class Verdict(Enum):
    PASS = "pass"
    VIOLATION = "violation"
    DECAY = "decay"
    INCONCLUSIVE = "inconclusive"


class Exit(IntEnum):
    PASS = 0
    RUN_FAILED = 1
    USAGE = 2
    VIOLATION = 3
    THRESHOLD = 4
    INCONCLUSIVE = 5
    NONDETERMINISM = 6
    INTERRUPTED = 130


EXIT_OF = {
    Verdict.PASS: Exit.PASS,
    Verdict.VIOLATION: Exit.VIOLATION,
    Verdict.DECAY: Exit.THRESHOLD,
    Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE,
}
