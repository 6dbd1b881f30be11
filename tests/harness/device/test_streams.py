"""Streams: order within one, order between two by events only, and what a broken job leaves."""

import threading

import pytest

from harness.device.streams import Event, Job, Stream, so_far


@pytest.fixture
def gate():
    """Closed until the test opens it; opened at the end, whatever happened."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def streams(gate):
    """Two streams that end with the test. The gate opens first, so that they can."""
    one, two = Stream("one"), Stream("two")
    yield one, two
    gate.set()
    one.close()
    two.close()


def test_a_stream_does_one_job_after_another(streams):
    one, _ = streams
    seen: list[int] = []
    for number in range(20):
        one.submit([lambda n=number: seen.append(n), lambda n=number: seen.append(-n)])
    assert one.record().wait()
    assert seen == [sign * number for number in range(20) for sign in (1, -1)]


def test_work_behind_an_event_of_another_stream_waits_for_it(streams, gate):
    one, two = streams
    seen: list[str] = []
    written = one.submit([gate.wait, lambda: seen.append("written")]).end
    copied = two.submit([lambda: seen.append("copied")], after=[written]).end
    two.submit([lambda: seen.append("behind it in the same stream")])
    assert not written.done
    assert not copied.done
    assert seen == []
    gate.set()
    assert two.record().wait()
    assert seen == ["written", "copied", "behind it in the same stream"]


def test_work_without_an_event_does_not_wait(streams, gate):
    one, two = streams
    seen: list[str] = []
    one.submit([gate.wait, lambda: seen.append("written")])
    assert two.submit([lambda: seen.append("copied")]).end.wait()
    assert seen == ["copied"]


def test_a_step_is_over_before_those_behind_it_begin(streams, gate):
    one, two = streams
    seen: list[str] = []
    load = one.submit([lambda: None, gate.wait])

    def compute() -> None:
        for layer, event in enumerate(load.events):
            assert event.wait()
            seen.append(f"layer {layer}")
            if not layer:
                first.set()

    first = threading.Event()
    two.submit([compute])
    assert first.wait(60)
    assert load.events[0].done
    assert not load.end.done
    gate.set()
    assert two.record().wait()
    assert seen == ["layer 0", "layer 1"]


def test_an_event_may_be_waited_for_before_its_step_is_begun(streams, gate):
    one, two = streams
    seen: list[str] = []
    one.submit([gate.wait])
    late = one.submit([lambda: seen.append("late")])
    two.submit([lambda: seen.append(f"came: {late.end.wait()}")])
    gate.set()
    assert two.record().wait()
    assert seen == ["late", "came: True"]


def test_a_step_that_raises_breaks_the_rest_of_its_job_and_nothing_else(streams):
    one, _ = streams
    seen: list[str] = []
    ended: list[Job] = []

    def raises() -> None:
        raise RuntimeError("no room")

    job = one.submit(
        [lambda: seen.append("first"), raises, lambda: seen.append("third")], on_end=ended.append
    )
    assert one.submit([lambda: seen.append("next job")]).end.synchronize()
    assert [event.wait() for event in job.events] == [True, False, False]
    assert [event.broken for event in job.events] == [False, True, True]
    assert str(job.error) == "no room"
    assert seen == ["first", "next job"]
    assert ended == [job]


def test_the_end_is_told_once_the_last_step_is_over(streams, gate):
    one, two = streams
    ended: list[Job] = []
    job = one.submit([gate.wait], on_end=ended.append)
    assert two.submit([lambda: None]).end.wait()
    assert ended == []
    gate.set()
    one.submit([lambda: None]).end.wait()
    assert ended == [job]
    assert job.error is None


def test_closing_finishes_what_was_submitted():
    seen: list[int] = []
    with Stream("short") as stream:
        for number in range(5):
            stream.submit([lambda n=number: seen.append(n)])
    assert seen == list(range(5))


def test_nobody_waits_for_what_was_never_submitted():
    with Stream("idle") as stream:
        assert stream.record().done
    assert Event.past().wait()
    assert so_far("cpu").done


@pytest.mark.gpu
def test_on_a_gpu_work_behind_an_event_sees_the_bytes_before_it(gate):
    import torch

    with Stream("one", "cuda") as one, Stream("two", "cuda") as two:
        written = torch.zeros(1 << 24, device="cuda")
        copied = torch.empty(1 << 24, pin_memory=True)
        torch.cuda.synchronize()
        first = one.submit([gate.wait, lambda: written.add_(1)]).end
        second = two.submit([lambda: copied.copy_(written, non_blocking=True)], after=[first]).end
        assert not second.done
        gate.set()
        assert second.synchronize()
        assert bool((copied == 1).all())
        later = one.submit([lambda: written.zero_()], after=[so_far("cuda")]).end
        assert later.wait()
        assert float(written.sum()) == 0.0, "the calling thread's stream is behind it"


@pytest.mark.gpu
def test_on_a_gpu_the_end_is_told_once_the_bytes_are_there():
    import torch

    with Stream("copies", "cuda") as stream:
        source = torch.full((1 << 24,), 7, device="cuda")
        target = torch.zeros(1 << 24, dtype=source.dtype, pin_memory=True)
        torch.cuda.synchronize()
        seen, told = [], threading.Event()

        def end(job: Job) -> None:
            seen.append(int(target[-1]))
            told.set()

        stream.submit([lambda: target.copy_(source, non_blocking=True)], on_end=end)
        assert told.wait(60)
        assert seen == [7]
