"""The report: one HTML file that opens anywhere, with no network and nothing beside it.

It is made from the files of a run directory alone and can be made again from them; building it
twice gives the same bytes.
"""

from base64 import b64encode
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from harness.record.directory import RunDirectory, UsageError
from harness.report import server_tables, tables
from harness.report.files import RunFiles, read_run
from harness.report.headline import banner, clock_note, numbers
from harness.report.plots import Picture, of_server, pictures, server_pictures

REPORT_FILE = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"


def build_report(run_dir: Path) -> Path:
    """Write the plots and `report.html` into `run_dir` from its own files, and return the report.

    Raises `UsageError` when there is no readable run in it or it cannot be written to.
    """
    run = read_run(run_dir)
    drawn, server = pictures(run), server_pictures(run)
    directory = RunDirectory.open(run_dir)
    files: dict[str, str | bytes] = {
        f"{picture.name}.png": picture.png for picture in (*drawn, *server)
    }
    files[REPORT_FILE] = render(run, drawn, server)
    for name, content in files.items():
        lost = directory.write(name, content)
        if lost is not None:
            raise UsageError(f"{run_dir / name}: {lost.reason}; make room or report on a copy")
    return run_dir / REPORT_FILE


def render(run: RunFiles, drawn: list[Picture], server: list[Picture]) -> str:
    """Return the page as HTML; everything that came from the run is escaped."""
    return template("report.html").render(
        name=run.path.resolve().name,
        run=run.run,
        banner=banner(run),
        clock_note=clock_note(run),
        numbers=numbers(run.summary),
        violations=tables.violations(run),
        pictures=embedded(drawn),
        loaded=of_server(run),
        server_pictures=embedded(server),
        both_sides=server_tables.both_sides(run),
        moved=server_tables.moved(run.summary),
        server_settings=server_tables.server_settings(run),
        latencies=tables.latencies(run.summary),
        marks=tables.marks(run),
        marks_total=len(run.marks),
        never=[mark["mark"] for mark in run.marks if not mark["count"]],
        pools=tables.pools(run),
        tiers=tables.tiers(run.summary),
        ranks=tables.ranks(run),
        settings=tables.settings(run),
        origin=tables.origin(run),
        every_number=tables.every_number(run.summary),
    )


def template(name: str) -> Template:
    """Return a page that escapes what it is given and refuses what it is not."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def embedded(drawn: list[Picture]) -> list[tuple[Picture, str]]:
    """Return each picture with its bytes as a page holds them."""
    return [(picture, b64encode(picture.png).decode()) for picture in drawn]
