"""One request that has ended, in plain values: what a worker tells the master of it.

Times are nanoseconds since the load began, on the clock of the process that sent the request; -1 is
a moment that never came.
"""

from typing import Any, NamedTuple

from harness.load.backends import hits_of
from harness.load.exchange import Outcome
from workloads.request import Request
from workloads.tokens import Span


class Exchanged(NamedTuple):
    """A request, what was sent and what came back. Nanoseconds of the monotonic clock; `due_ns` is
    when a user could first have sent it, later than scheduled if all users were taken."""

    request: Request
    prompt: list[int]
    max_tokens: int
    scheduled_ns: int
    due_ns: int
    outcome: Outcome


class Ended(NamedTuple):
    """Everything that its row needs. `prompt` is the workload's, as spans."""

    request_id: str
    session_id: str
    turn: int
    tenant: str
    namespace: str
    prompt: tuple[Span, ...]
    scheduled_ns: int
    sent_ns: int
    first_ns: int
    end_ns: int
    http_status: int
    error: str
    prompt_tokens: int
    output_tokens: int
    device: int
    host: int
    storage: int
    server_ttft_ns: int  # by the server's own record, which only a null server sends; else -1

    @classmethod
    def unpacked(cls, fields: list[Any]) -> "Ended":
        """From the list that a message makes of it."""
        ended = cls(*fields)
        return ended._replace(prompt=tuple(Span(*span) for span in ended.prompt))

    @property
    def refused(self) -> bool:
        return 400 <= self.http_status < 500


class Kept(NamedTuple):
    """A request that was answered, and its answer, so that it can be asked again."""

    request_id: str
    namespace: str
    priority: int
    prompt: tuple[Span, ...]
    max_tokens: int
    text: str

    @classmethod
    def unpacked(cls, fields: list[Any]) -> "Kept":
        """From the list that a message makes of it."""
        kept = cls(*fields)
        return kept._replace(prompt=tuple(Span(*span) for span in kept.prompt))


def kept_of(exchanged: Exchanged) -> Kept:
    request = exchanged.request
    return Kept(
        request.request_id,
        request.namespace,
        request.priority,
        request.prompt,
        exchanged.max_tokens,
        exchanged.outcome.text,
    )


def ended_of(exchanged: Exchanged, start_ns: int) -> Ended:
    """`start_ns` is when the load began, on the clock of `exchanged`."""
    request, outcome = exchanged.request, exchanged.outcome
    hits = hits_of(outcome)

    def since(moment_ns: int) -> int:
        return moment_ns - start_ns if moment_ns >= 0 else -1

    return Ended(
        request_id=request.request_id,
        session_id=request.session_id,
        turn=request.turn,
        tenant=request.tenant,
        namespace=request.namespace,
        prompt=request.prompt,
        scheduled_ns=since(exchanged.scheduled_ns),
        sent_ns=since(outcome.sent_ns),
        first_ns=since(outcome.first_ns),
        end_ns=since(outcome.end_ns),
        http_status=outcome.status,
        error=outcome.error,
        prompt_tokens=int(outcome.usage.get("prompt_tokens") or len(exchanged.prompt)),
        output_tokens=int(outcome.usage.get("completion_tokens") or len(outcome.texts)),
        device=hits.device,
        host=hits.host,
        storage=hits.storage,
        server_ttft_ns=int(outcome.usage.get("server_ttft_ns", -1)),
    )
