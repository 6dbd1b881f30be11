"""What ends a hunt."""

import pytest

from harness.hunt.workers import NONDETERMINISM, Search, campaign_of

D1 = "D1.a load-back runs before a batch"


@pytest.mark.parametrize(
    ("search", "kinds", "over"),
    [
        (Search(), [], False),
        (Search(), ["L2.kind"], True),
        (Search(keep_going=True), ["L2.kind"], False),
        (Search(until="D1"), ["L2.kind", "D12.kind"], False),
        (Search(until="D1"), ["L2.kind", D1], True),
        (Search(until=D1), [D1], True),
        (Search(until=D1), [f"{D1}, one request at a time"], False),
        (Search(until=D1), [f"{D1} (swa)"], True),
        (Search(until=f"{D1} (full)"), [f"{D1} (swa)"], False),
        (Search(until="D1", keep_going=True), [D1], True),
        (Search(until="D1"), [NONDETERMINISM], True),
    ],
)
def test_a_hunt_ends_with_what_it_searches_for(
    search: Search, kinds: list[str], over: bool
) -> None:
    assert search.ends_with(kinds) == over


def test_a_hunt_goes_on_past_other_kinds_until_the_one_it_is_told() -> None:
    search = Search(fault="canary", until="no such kind")
    report = campaign_of(search, 0).run(
        elapsed=lambda: 0.0,
        budget_s=1.0,
        schedule_limit=40,
        enough=lambda r: search.ends_with(r.findings),
    )
    assert report.schedules == 40
    (kind, *_) = report.findings
    found = Search(fault="canary", until=kind)
    report = campaign_of(found, 0).run(
        elapsed=lambda: 0.0,
        budget_s=1.0,
        schedule_limit=40,
        enough=lambda r: found.ends_with(r.findings),
    )
    assert kind in report.findings
    assert report.schedules < 40
