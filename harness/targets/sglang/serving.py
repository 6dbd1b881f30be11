"""Requests that come and go before the story begins.

Invariant: they are served by the same passes of the same loop as all others.
"""

from collections.abc import Awaitable, Callable, Sequence

from harness.targets.sglang.broken import Broken
from harness.targets.sglang.prompts import Prompt

SPINS = 3  # passes without a batch before the loop waits for something to change
PASSES_ALONE = 1_000  # of one request with nobody beside it


async def serve(
    prompts: Sequence[Prompt],
    post: Callable[[Prompt], None],
    turn: Callable[[], Awaitable[bool]],
) -> None:
    """One request after the other, with nobody beside it, each until the loop has nothing to do."""
    for prompt in prompts:
        post(prompt)
        idle = passes = 0
        while idle <= SPINS:
            idle = 0 if await turn() else idle + 1
            passes += 1
            if passes > PASSES_ALONE:
                raise Broken("P1", "a request that is alone never ends", prompt.rid, "no end")
