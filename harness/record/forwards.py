"""What every forward of a run on the wall clock was, and how long it took: the scheduler's turn
before it, and itself."""

from collections.abc import Sequence
from pathlib import Path

from harness.record.directory import LostOutput
from harness.record.lines import LineFile

FILE = "forwards.csv"


class Forwards:
    """A line a forward: its amounts under `names`, `turn_s` and `seconds`."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._file = LineFile(folder / FILE, header=_header(names))

    def add(self, amounts: Sequence[int], turn_s: float, seconds: float) -> None:
        self._file.append(",".join([*map(str, amounts), f"{turn_s:.9f}", f"{seconds:.9f}"]))

    def close(self) -> LostOutput | None:
        return self._file.close()


def read_forwards(folder: Path, names: Sequence[str]) -> list[tuple[list[int], float, float]]:
    """Those of a run directory: amounts, `turn_s` and `seconds`. Raises `OSError`, or `ValueError`
    where it is no such file."""
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != _header(names):
        raise ValueError(f"{folder / FILE} does not begin as it should")
    rows = [line.split(",") for line in lines[1:]]
    return [([int(cell) for cell in row[:-2]], float(row[-2]), float(row[-1])) for row in rows]


def _header(names: Sequence[str]) -> str:
    return ",".join([*names, "turn_s", "seconds"])
