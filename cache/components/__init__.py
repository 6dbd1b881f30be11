"""What each component asks of a prefix; one file a component."""

from cache.components.base import Rule, Rules, Walk
from cache.components.full import FullRule
from cache.components.mamba import MambaRule
from cache.components.swa import SwaRule
from cache.config import FULL, MAMBA, SWA, CacheConfig

__all__ = ["FullRule", "MambaRule", "Rule", "Rules", "SwaRule", "Walk", "rules_for"]


def rules_for(config: CacheConfig) -> Rules:
    """The rules of a configuration's components, FULL first."""
    rules: Rules = {FULL: FullRule()}
    if config.swa is not None:
        rules[SWA] = SwaRule(config.window, config.page_size)
    if config.mamba is not None:
        rules[MAMBA] = MambaRule(config.page_size)
    return rules
