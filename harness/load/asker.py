"""How a load speaks to its server: the body of a request, and lines to send it on."""

from harness.load.backends import body_of
from harness.load.ended import Exchanged, Kept
from harness.load.exchange import Line
from harness.load.settings import Loading
from workloads.tokens import synthesize


class Asker:
    """The same for every request of a run."""

    def __init__(self, loading: Loading, *, model: str, api_key: str) -> None:
        self.loading = loading
        self._model = model
        self._api_key = api_key

    def line(self, timeout_s: float | None = None) -> Line:
        """Reads on it wait as long as a request may, or `timeout_s`."""
        loading = self.loading
        patience_s = loading.request_s if timeout_s is None else timeout_s
        return Line(loading.base_url, api_key=self._api_key, timeout_s=patience_s)

    def body(self, exchanged: Exchanged) -> str:
        """What is sent for a request."""
        request = exchanged.request
        return self._body(
            exchanged.prompt, exchanged.max_tokens, request.namespace, request.priority
        )

    def body_again(self, kept: Kept) -> str:
        """The very same, of a request that was answered before."""
        prompt = synthesize(kept.prompt, self.loading.vocab_size).tolist()
        return self._body(prompt, kept.max_tokens, kept.namespace, kept.priority)

    def _body(self, prompt: list[int], max_tokens: int, namespace: str, priority: int) -> str:
        return body_of(
            self.loading.backend, self._model, prompt, max_tokens, salt=namespace, priority=priority
        )
