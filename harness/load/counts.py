"""Both sides of a load must have counted the same: requests, tokens, hits by tier."""

from typing import NamedTuple

from harness.load.tally import Tally
from harness.load.watcher import Watcher

OURS = "violations"  # only our own server tells the violations of its oracles


class Differs(NamedTuple):
    """What was counted here and there."""

    what: str
    here: str
    there: str


def compare_counts(tally: Tally, watcher: Watcher) -> list[Differs]:
    """What differs, of requests of all phases. Nothing for other servers than ours, and only when
    every request was answered: what one side gave up may count on the other."""
    if watcher.grown(OURS) is None or watcher.restarted:
        return []
    mine = {
        "completed": tally.completed,
        "prompt": tally.prompt_tokens,
        "output": tally.output_tokens,
        **{f"cached_{tier}": tokens for tier, tokens in tally.cached.items()},
    }
    found = []
    for what, count in mine.items():
        theirs = watcher.grown(what)
        if theirs is not None and theirs != count:
            found.append(Differs(what, f"{what} {count:,}", f"{theirs:,.0f} by the server's count"))
    return found
