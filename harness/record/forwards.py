"""What every forward of a run on the wall clock was, and how long it took."""

from collections.abc import Sequence
from pathlib import Path

from harness.record.directory import LostOutput
from harness.record.lines import LineFile

FILE = "forwards.csv"


class Forwards:
    """A line a forward: its amounts under `names`, and `seconds`."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._file = LineFile(folder / FILE, header=",".join([*names, "seconds"]))

    def add(self, amounts: Sequence[int], seconds: float) -> None:
        self._file.append(",".join([*map(str, amounts), f"{seconds:.9f}"]))

    def close(self) -> LostOutput | None:
        return self._file.close()


def read_forwards(folder: Path, names: Sequence[str]) -> list[tuple[list[int], float]]:
    """Those of a run directory. Raises `OSError`, or `ValueError` where it is no such file."""
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != ",".join([*names, "seconds"]):
        raise ValueError(f"{folder / FILE} does not begin as it should")
    rows = [line.split(",") for line in lines[1:]]
    return [([int(cell) for cell in row[:-1]], float(row[-1])) for row in rows]
