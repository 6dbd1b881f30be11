"""What each component asks of a prefix; one file a component."""

from cache.components.base import Rule, Walk
from cache.components.full import FullRule
from cache.components.swa import SwaRule
from cache.config import CacheConfig

__all__ = ["FullRule", "Rule", "SwaRule", "Walk", "rules_for"]


def rules_for(config: CacheConfig) -> tuple[Rule, ...]:
    """The rules of a configuration's components, indexed by component."""
    rules: list[Rule] = [FullRule()]
    if config.swa is not None:
        rules.append(SwaRule(config.window, config.page_size))
    return tuple(rules)
