"""The report is one honest, self-contained page."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from harness.record.directory import LostOutput, RunDirectory, UsageError
from harness.record.manifest import Mark
from harness.record.run import Recorder
from harness.report.files import read_run
from harness.report.headline import banner
from harness.report.page import build_report
from harness.report.tables import MARKS_SHOWN, VIOLATIONS_SHOWN
from tests.harness.record.feed import MANIFEST, VIOLATION, counters, feed, record

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Collects a page's text, headings and links, and refuses tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += " " if tag in ("td", "th", "p", "h2") else ""

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    directory = record(tmp_path_factory.mktemp("clean"), number=300, samples=60)
    return build_report(directory.path)


def recorded(tmp_path, *, found=(), marks=(), summary=None, manifest=MANIFEST):
    directory = RunDirectory.create(tmp_path, "x")
    with Recorder(directory, manifest) as recorder:
        feed(recorder, number=60, samples=5)
        for record_ in found:
            recorder.violation(record_)
        recorder.marks(marks)
        recorder.finish(recorder.summary({**counters(len(found)), **(summary or {})}))
    return directory.path


def test_the_page_is_well_formed_html(clean):
    html = clean.read_text()
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert page.seen.count("h1") == 1
    assert page.seen.count("img") == 6


def test_the_page_needs_nothing_beside_it(clean):
    html = clean.read_text()
    assert all(link.startswith("data:image/png;base64,") for link in Page(html).links)
    assert not re.search(r"https?:|@import|url\(|<script|<link", html)


def test_the_verdict_comes_first_then_what_was_simulated(clean):
    text = Page(clean.read_text()).text
    order = ["Pass", "Simulated on the virtual clock", "Headline numbers", "Marks", "Run it again"]
    places = [text.index(words, text.index("kvtorture report")) for words in order]
    assert places == sorted(places)


def test_headline_numbers_carry_their_denominators(clean):
    text = Page(clean.read_text()).text
    summary = json.loads((clean.parent / "summary.json").read_text())
    cached = summary["cached_tokens_device"] + summary["cached_tokens_host"]
    assert f"{cached:,} of {summary['total_input_tokens']:,} prompt tokens" in text
    assert f"over {summary['completed']:,} completed requests" in text


def test_marks_never_reached_are_listed_first(clean):
    text = Page(clean.read_text()).text
    assert "Never reached: 1 of 3. revived-under-lock" in " ".join(text.split())
    names = ("revived-under-lock", "split-while-copying", "host-full")
    table = text[text.index("what it means") :]
    assert [table.index(name) for name in names] == sorted(table.index(name) for name in names)


def test_notes_ignored_flags_settings_and_command_are_there(clean):
    text = " ".join(Page(clean.read_text()).text.split())
    for words in (
        "TP 2: one rank is simulated",
        "--chat-template, --log-level info",
        "hicache_ratio 2",
        "workload digest c0ffee",
        MANIFEST.command,
    ):
        assert words in text


def test_a_report_can_be_made_again_and_is_the_same(clean, tmp_path):
    copy = tmp_path / clean.parent.name
    shutil.copytree(clean.parent, copy, ignore=shutil.ignore_patterns("*.png", "report.html"))
    assert build_report(copy).read_bytes() == clean.read_bytes()


def test_a_violation_is_the_verdict_and_its_story_is_shown(tmp_path):
    path = recorded(tmp_path, found=[VIOLATION])
    text = " ".join(Page(build_report(path).read_text()).text.split())
    assert "Violation: 1 finding" in text
    for key in ("oracle", "signature"):
        assert VIOLATION[key] in text
    assert '{"node": 12, "count": 2} {"node": 12, "count": 1} 4711 31.5' in text


def test_what_came_from_the_run_is_escaped(tmp_path):
    nasty = "<script>alert('x')</script>"
    found = [{**VIOLATION, "signature": nasty, "seen": {nasty: nasty}}]
    html = build_report(recorded(tmp_path, found=found, marks=[Mark(nasty, 0)])).read_text()
    assert "<script" not in html
    assert nasty in Page(html).text


def test_tables_do_not_grow_with_the_run(tmp_path):
    found = [{**VIOLATION, "step": step, "seen": "x" * 10_000} for step in range(300)]
    marks = [Mark(f"mark-{number}", number) for number in range(200)]
    html = build_report(recorded(tmp_path, found=found, marks=marks)).read_text()
    assert f"{300 - VIOLATIONS_SHOWN:,} more in violations.jsonl" in html
    assert f"{200 - MARKS_SHOWN:,} more in marks.json" in html
    assert len(re.sub(r"base64,[^\"]*", "", html)) < 100_000


@pytest.mark.parametrize(
    ("summary", "status", "kind"),
    [
        ({"verdict": "pass"}, "finished", "pass"),
        ({"verdict": "pass"}, "interrupted", "inconclusive"),
        ({"verdict": "inconclusive"}, "finished", "inconclusive"),
        ({"verdict": "violation"}, "interrupted", "violation"),
        ({"verdict": "pass", "violations": 1}, "finished", "violation"),
        ({"verdict": "nonsense"}, "finished", "inconclusive"),
        ({}, "finished", "inconclusive"),
    ],
)
def test_only_a_finished_run_without_findings_passes(clean, summary, status, kind):
    run = read_run(clean.parent)
    changed = type(run)(
        path=run.path,
        run={**run.run, "status": status},
        summary=summary,
        marks=(),
        violations=(),
        requests=run.requests,
        series=run.series,
        everything=run.everything,
    )
    assert banner(changed).kind == kind


def test_required_marks_that_were_missed_are_named_in_the_banner(tmp_path):
    marks = [Mark("load-back-overlap", 0, required=True), Mark("other", 0)]
    run = read_run(recorded(tmp_path, marks=marks, summary={"verdict": "inconclusive"}))
    assert "required marks never reached: load-back-overlap" in banner(run).reasons


def test_what_could_not_be_written_is_named_in_the_banner(clean):
    run = read_run(clean.parent)
    run.run["lost"].append(LostOutput("requests.csv", 5, "disk full")._asdict())
    assert "5 rows of requests.csv could not be written: disk full" in banner(run).reasons


def test_a_torn_last_line_is_left_out(tmp_path):
    path = recorded(tmp_path, found=[VIOLATION, VIOLATION])
    whole = read_run(path)
    for name in ("requests.csv", "timeseries.csv", "violations.jsonl"):
        data = (path / name).read_bytes()
        (path / name).write_bytes(data[:-7])
    (path / "summary.json").unlink()
    torn = read_run(path)
    assert len(torn.requests) == len(whole.requests) - 1
    assert len(torn.violations) == torn.summary["violations"] == 1
    assert torn.summary["median_ttft_ms"] > 0
    build_report(path)


def test_a_run_with_only_its_first_file_has_a_report(tmp_path):
    directory = RunDirectory.create(tmp_path, "x")
    text = Page(build_report(directory.path).read_text()).text
    assert "Inconclusive" in text
    assert "there is nothing to draw" in text


@pytest.mark.parametrize("content", ["not json", '{"status"', "[1]", "{}"])
def test_a_directory_that_is_no_run_is_a_usage_error(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match="run directory"):
        build_report(tmp_path)


def test_a_table_that_is_no_table_is_a_usage_error(tmp_path):
    path = recorded(tmp_path)
    (path / "requests.csv").write_text("some,other,table\n1,2,3\n")
    with pytest.raises(UsageError, match="run directory"):
        build_report(path)
