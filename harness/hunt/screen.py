"""A finding on one screen: the oracle, the story as a table, who held what, the order that passes,
the command that replays it, and which known races have the same shape.
"""

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.explore.shrink import Measure, Neighbour
from harness.faults import FAULTS
from harness.hunt.story import Story


def finding_screen(
    story: Story,
    *,
    found: str,
    before: Measure,
    after: Measure,
    replays: int,
    stable: bool,
    neighbour: Neighbour | None,
    command: str,
) -> RenderableType:
    """`found` says who found it and when, `command` what to type to see it again."""
    verdict = story.verdict
    assert verdict is not None
    parts: list[RenderableType] = [
        Text(f"VIOLATION  {verdict.kind}", style="bold red"),
        Text(f"  {verdict.message}"),
        Text(f"  {found}", style="dim"),
        Text(f"minimal: {after} (from {before}; {replays} replays)"),
        _table(story),
    ]
    if story.end.locks:
        parts.append(Text("held at the end: " + "; ".join(story.end.locks)))
    if story.end.copies:
        parts.append(Text("in flight: " + "; ".join(story.end.copies)))
    parts.append(Text(str(neighbour) if neighbour else "no neighbouring order was seen to pass"))
    kin = same_shape(verdict.oracle)
    if kin:
        parts.append(Text("same oracle: " + "; ".join(kin), style="dim"))
    if not stable:
        parts.append(Text("its replays differ: do not trust it", style="bold red"))
    parts.append(Text(f"replay: {command}"))
    return Group(*parts)


def same_shape(oracle: str, limit: int = 4) -> list[str]:
    """Known upstream races that the same oracle is expected to name."""
    return [
        f"{fault.name} ({fault.reference})"
        for fault in FAULTS.values()
        if fault.oracles and fault.oracles[0] == oracle and fault.reference
    ][:limit]


def text_of(screen: RenderableType, width: int = 100) -> str:
    """The screen as plain text."""
    console = Console(width=width, color_system=None, force_terminal=False, record=False)
    with console.capture() as capture:
        console.print(screen)
    return capture.get()


def _table(story: Story) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("step", justify="right")
    table.add_column("task")
    table.add_column("point")
    table.add_column("tree: device host, locks by component")
    for step in story.steps:
        last = step.number == len(story.steps)
        point = " > ".join(dict.fromkeys((step.point, *step.inner)))
        touched = "\n".join(step.changes) or "-"
        style = "bold" if last else ""
        table.add_row(
            f"{'>> ' if last else ''}{step.number}", step.task, point, touched, style=style
        )
    return table
