"""What workers report arrives as it was, and merges to what one process would have counted."""

import msgpack

from harness.load.ended import Ended, Kept
from harness.load.health import Health
from harness.load.messages import Report
from harness.load.plan import WorkPlan
from harness.load.settings import Loading
from harness.load.tally import Tally
from harness.record.directory import RunDirectory
from harness.record.histogram import Histogram
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.settings import Traffic
from workloads.tokens import Span

SPANS = (Span(2**64 - 1, 0, 40), Span(7, 3, 25))


def _sent(report):
    return Report.unpacked(msgpack.loads(msgpack.dumps(report.packed()), strict_map_key=False))


def _ended(number, error=""):
    return Ended(
        f"r{number}", f"s{number}", 0, "tenant", "", SPANS, number, number + 5, number + 90,
        number + 900, 200, error, 65, 3, 16, 32, 0, -1,
    )  # fmt: skip


def _report(number, gaps_s):
    report = Report(number=number, ended=[_ended(number), _ended(number + 50)], open_ns={"r": 4})
    report.kept = [Kept("r1", "salt", 2, SPANS, 3, " a b")]
    for gap_s in gaps_s:
        report.gaps.add(gap_s)
        report.health.sent(gap_s, gap_s / 2)
    report.health.dropped = 3
    return report


def test_a_report_arrives_as_it_was():
    report = _report(4, [0.001, 0.02, 0.5])
    arrived = _sent(report)
    assert (arrived.number, arrived.ended, arrived.kept) == (4, report.ended, report.kept)
    assert (arrived.open_ns, arrived.done, arrived.error) == ({"r": 4}, False, "")
    assert arrived.gaps.packed() == report.gaps.packed()
    assert arrived.health.lags.packed() == report.health.lags.packed()
    assert (arrived.health.late, arrived.health.dropped) == (2, 3)


def test_reports_of_two_workers_add_up(tmp_path):
    gaps = [[0.001 * n for n in range(1, 60)], [0.0003 * n for n in range(1, 90)]]
    alone, merged = Histogram(), Health()
    manifest = Manifest(command="load", clock="wall", seed=0, settings={}, workload={})
    with Recorder(RunDirectory.create(tmp_path, "load"), manifest) as recorder:
        tally = Tally(recorder, page_size=16, warmup_requests=1)
        for worker, gaps_s in enumerate(gaps):
            arrived = _sent(_report(worker, gaps_s))
            tally.gaps(arrived.gaps)
            merged.merge(arrived.health)
            for ended in arrived.ended:
                tally.add(ended)
            for gap_s in gaps_s:
                alone.add(gap_s)
        assert recorder.itl_s.count == alone.count == sum(len(g) for g in gaps)
        assert recorder.itl_s.packed()[:2] == alone.packed()[:2]
        assert merged.delays.count == merged.lags.count == merged.waits.count == alone.count
        assert (tally.ended, tally.completed, tally.prompt_tokens) == (4, 4, 260)
        assert recorder.columns.warmup == 1
        assert recorder.columns.statuses["completed"] == 3
        recorder.finish(recorder.summary())


def test_an_empty_histogram_arrives_empty():
    arrived = Histogram.unpacked(msgpack.loads(msgpack.dumps(Histogram().packed())))
    assert (arrived.count, arrived.percentile(50)) == (0, 0.0)


def test_a_plan_arrives_as_it_was():
    plan = WorkPlan(
        traffic=Traffic(workload="chat", set=(("num_clients", "3"),), request_rate=2.0),
        loading=Loading(users=3),
        model="m",
        digest="d",
        worker=1,
        workers=2,
    )
    assert WorkPlan.unpacked(msgpack.loads(msgpack.dumps(plan.packed()))) == plan
