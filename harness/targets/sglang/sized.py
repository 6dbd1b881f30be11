"""The sizes of a release's server in a soak, from the flags that size the reference's."""

from cache.config import Component, ConfigError, Tier
from harness.soak.plan import ServerPlan
from harness.soak.settings import Serving
from harness.targets.sglang.eras import Era
from harness.targets.sglang.shape import Shape

PREFILL_CHUNKS = 2  # what one batch may prefill, in chunks
SPARE_PAGES = 4


def sized(server: ServerPlan, serving: Serving, era: Era) -> Shape:
    """Raises `ConfigError` in one line that says what to type.

    The context is cut where a longer request would not fit into the empty pools beside a chunk and
    a window, so whoever waits for ever waits for something that was lost.
    """
    config, page = server.config, serving.page_size
    if Component.MAMBA in config.components:
        raise ConfigError(
            "a soak of a release has no recurrent states: add --components full or full,swa"
        )
    if serving.chunked_prefill_size % page:
        raise ConfigError(
            f"--chunked-prefill-size {serving.chunked_prefill_size} is not of whole pages:"
            f" use a multiple of {page}"
        )
    ratio = serving.hicache_ratio if serving.hierarchical else 0.0
    if 0 < ratio < 1 and not era.small_host:
        raise ConfigError(
            f"sglang {era.version} refuses a host pool smaller than the device's:"
            " use --hicache-ratio 1 or more"
        )
    windowed = Component.SWA in config.components
    full = config.pools(Component.FULL)[Tier.DEVICE] * page
    swa = config.pools(Component.SWA)[Tier.DEVICE] * page if windowed else 0
    window = config.window if windowed else 0
    chunk = serving.chunked_prefill_size
    room = (min(full, swa) if windowed else full) - chunk - window - SPARE_PAGES * page
    if room <= chunk:
        raise ConfigError(
            f"the device pools hold {min(full, swa or full):,} tokens, too few for chunks of"
            f" {chunk:,} and a window of {window:,}: raise --device-pages, or lower"
            " --chunked-prefill-size"
        )
    return Shape(
        page_size=page,
        full=full,
        swa=swa,
        window=window,
        states=0,
        ratio=ratio,
        policy=serving.hicache_write_policy,
        chunk=chunk,
        prefill=PREFILL_CHUNKS * chunk,
        running=serving.max_running_requests,
        context=min(serving.context_length, room),
        overlap=True,
        mixed=False,
        schedule_policy="fcfs",
    )
