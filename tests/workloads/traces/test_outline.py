"""The outline of a trace has the counts that were made of it by other means."""

from tests.workloads.traces.reading import DATA, read, whole
from workloads.traces.outline import outline


def test_the_ci_trace_has_its_published_counts():
    found = outline(read(DATA / "ci_mooncake.jsonl"), 64)
    assert (found.requests, found.sessions, found.closed_loop) == (64, 27, 0)
    assert round(found.ideal_block_hit_rate, 4) == 0.4789
    assert found.prompt_tokens.total == 72_704


def test_a_trace_without_ids_has_no_block_hits():
    found = outline(read(DATA / "azure_conv_300.csv"), 64)
    assert found.ideal_block_hit_rate is None
    assert found.ideal_token_hit_rate == 0
    assert found.output_tokens.max == 649


def test_a_closed_loop_is_counted():
    found = outline(read(DATA / "tracelab_replay.csv"), 64)
    assert (found.sessions, found.closed_loop, found.turns_max) == (48, 303 - 48, 9)


def test_the_conversation_trace_has_its_published_counts():
    found = outline(read(whole("mooncake/conversation_trace.jsonl")), 512)
    lengths = found.prompt_tokens
    assert round(found.ideal_block_hit_rate, 4) == 0.3664
    assert (round(lengths.mean, 1), found.span_s) == (12_035.1, 3_536.999)
    assert (lengths.p50, round(lengths.p90), round(lengths.p99)) == (6_909, 27_367, 85_400)
    assert lengths.max == 126_195


def test_the_synthetic_trace_has_its_published_counts():
    found = outline(read(whole("mooncake/synthetic_trace.jsonl")), 512)
    assert round(found.ideal_block_hit_rate, 4) == 0.6396
    assert (round(found.prompt_tokens.mean, 1), found.span_s) == (15_325.5, 1_022.025)
