"""The device: streams run when they are told to, and events say what has run."""

from harness.targets.sglang.device import Copy, Device, Event, Stream, device_module


def stream(name: str = "d2h") -> Stream:
    made = Stream()
    made.name, made.deferred = name, True
    return made


def test_a_stream_runs_nothing_until_it_is_told() -> None:
    line, done = stream(), []
    line.issue("backup", lambda: done.append(1))
    assert done == []
    assert line.run_next() == "backup"
    assert done == [1]
    assert not line.behind


def test_work_runs_in_the_order_of_issue_one_piece_at_a_time() -> None:
    line, done = stream(), []
    for number in range(3):
        line.issue("work", lambda number=number: done.append(number))
    line.run_next()
    assert done == [0]
    line.run_next()
    line.run_next()
    assert done == [0, 1, 2]


def test_an_event_is_done_when_all_before_it_has_run() -> None:
    line, event = stream(), Event()
    line.issue("backup", lambda: None)
    event.record(line)
    line.issue("backup", lambda: None)
    assert not event.query()
    line.run_next()
    assert event.query()
    assert line.behind


def test_a_fresh_event_counts_as_done_as_on_cuda() -> None:
    assert Event().query()


def test_a_stream_waits_for_an_event_of_another() -> None:
    first, second, event = stream("fwd"), stream("h2d"), Event()
    first.issue("forward", lambda: None)
    event.record(first)
    second.wait_event(event)
    second.issue("load", lambda: None)
    assert not second.ready
    first.run_next()
    assert second.ready
    assert second.run_next() == "load"


def test_to_synchronize_runs_what_came_before_and_nothing_later() -> None:
    line, done, event = stream(), [], Event()
    line.issue("backup", lambda: done.append("before"))
    event.record(line)
    line.issue("backup", lambda: done.append("after"))
    event.synchronize()
    assert done == ["before"]


def test_what_the_default_stream_records_after_a_barrier_waits_for_it() -> None:
    forward, default, over, start = stream("fwd"), Stream(), Event(), Event()
    forward.issue("forward", lambda: None)
    over.record(forward)
    default.wait_event(over)
    start.record(default)
    assert not start.query()
    forward.run_next()
    assert start.query()


def test_work_goes_to_the_stream_that_is_current() -> None:
    line, module = stream(), device_module()
    with module.stream(line):
        Device.current.issue("backup", lambda: None, Copy("full", True, None, None))
    assert [copy.component for copy in line.copies] == ["full"]
    assert Device.current is Device.default
    line.run_next()
    assert line.copies == []
