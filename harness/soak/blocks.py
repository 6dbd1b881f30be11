"""Golden numbers of a trace: block hits and evictions through the real cache.

Touch order: a prompt's pages are touched leaf first, so its root is the most recent (see
`harness.engine.block_replay`).
"""

from itertools import islice

from cache.audit import audit
from cache.config import CacheConfig
from cache.unified import UnifiedCache
from harness.engine.block_replay import replay_blocks
from workloads.traces.recorded import RecordedTrace


def count_blocks(
    config: CacheConfig, trace: RecordedTrace, *, limit: int | None
) -> dict[str, float | int | str]:
    """The counts, under the summary's names; audited at the end."""
    cache = UnifiedCache(config)
    counted = replay_blocks(cache, islice(trace.rows(), limit))
    findings = audit(cache)
    return {
        "requests": counted.prompts,
        "prompt_pages": counted.pages,
        "hit_pages": counted.hit_pages,
        "prefix_block_hit_rate": counted.prefix_block_hit_rate,
        "evicted_pages": counted.evicted_pages,
        "device_pages": config.full.device,
        "touch_order": "leaf first",
        "violations": len(findings),
        "verdict": "violation" if findings else "pass",
    }
