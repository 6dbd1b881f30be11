"""The routes of the server; whatever goes wrong is answered in OpenAI's form of an error."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness.engine.job import token_bytes
from harness.serve.asked import Asked, Model, parse
from harness.serve.connections import Connections
from harness.serve.engine import Engine
from harness.serve.errors import Refused, error_response
from harness.serve.limits import ServeLimits
from harness.serve.meters import Snapshot
from harness.serve.metrics import exposition
from harness.serve.postbox import Postbox
from harness.serve.received import Received, Ticket
from harness.serve.replies import Reply
from harness.serve.stream import Answer
from workloads.tokens import Span

OPEN_PATHS = ("/health", "/metrics")  # to those who watch a server and have no key
ASK_S = 5.0  # an engine that does not answer for so long is not healthy
LONGEST_FLUSH_S = 60.0
T = TypeVar("T")


@dataclass(slots=True)
class Service:
    """What the routes share. `boot` makes request ids differ between two lives of a server."""

    engine: Engine
    postbox: Postbox
    connections: Connections
    limits: ServeLimits
    info: dict[str, object]
    api_key: str = ""
    started: float = field(default_factory=time.time)
    boot: str = field(default_factory=lambda: secrets.token_hex(4))
    numbered: int = 0

    @property
    def model(self) -> Model:
        plan = self.engine.plan
        return Model(
            name=plan.shape.name,
            vocab_size=plan.shape.vocab_size,
            context_length=plan.limits.context_length,
            default_max_tokens=self.limits.default_max_tokens,
        )

    def app(self) -> ASGIApp:
        """The ASGI application."""
        routes = [
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.one_model),
            Route("/health", self.health),
            Route("/get_server_info", self.server_info),
            Route("/server_info", self.server_info),
            Route("/flush_cache", self.flush_cache, methods=["GET", "POST"]),
            Route("/metrics", self.metrics),
        ]
        handlers = {Refused: _refused, HTTPException: _http_error, Exception: _failed}
        guarded = [_keyed(route, self._check_key) for route in routes]
        return Starlette(routes=guarded, exception_handlers=handlers)

    # -- answers -------------------------------------------------------------------------------

    async def completions(self, request: Request) -> Answer:
        return await self._answer(request, chat=False)

    async def chat(self, request: Request) -> Answer:
        return await self._answer(request, chat=True)

    async def _answer(self, request: Request, *, chat: bool) -> Answer:
        if not self.engine.alive:
            raise Refused(503, "the engine has stopped")
        if self.postbox.listeners >= self.limits.max_open_requests:
            most = self.limits.max_open_requests
            raise Refused(429, f"{most} requests are open, no more are taken", code="too_many")
        body = await self._body(request)
        arrived = time.monotonic()
        asked = parse(body, self.model, chat=chat)
        ticket = Ticket(self._received(asked, arrived), self.postbox.post)
        reply = Reply(asked, ticket, self.model.name, int(time.time()))
        return Answer(reply, self.engine, self.postbox, self.connections, self.limits)

    async def _body(self, request: Request) -> bytes:
        limit, parts, size = self.limits.max_body_bytes, list[bytes](), 0
        too_long = Refused(413, f"the body is longer than {limit} bytes")
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > limit:
            raise too_long
        try:
            async with asyncio.timeout(self.limits.idle_s):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise too_long
                    parts.append(part)
        except TimeoutError:
            raise Refused(408, f"the body did not come within {self.limits.idle_s:g} s") from None
        except ClientDisconnect:
            raise Refused(400, "the client went away") from None
        return b"".join(parts)

    def _received(self, asked: Asked, arrived: float) -> Received:
        self.numbered += 1
        name = f"{'chatcmpl' if asked.chat else 'cmpl'}-{self.boot}-{self.numbered}"
        return Received(
            request_id=name,
            session_id=name,
            turn=0,
            prompt=(Span(0, 0, len(asked.prompt)),),
            output=(Span(0, 0, asked.max_tokens),),
            arrival_s=0.0,
            priority=asked.priority,
            namespace=asked.namespace,
            tenant=asked.namespace,
            data=token_bytes(np.array(asked.prompt, np.int32)),
            arrived=arrived,
        )

    # -- about the server ----------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def one_model(self, request: Request) -> Response:
        if request.path_params["name"] != self.model.name:
            raise Refused(404, "no such model", param="model", code="model_not_found")
        return JSONResponse(self._card())

    def _card(self) -> dict[str, object]:
        return {
            "id": self.model.name,
            "object": "model",
            "created": int(self.started),
            "owned_by": "kvtorture",
            "max_model_len": self.model.context_length,
        }

    async def health(self, request: Request) -> Response:
        """200 while the engine answers."""
        await self._snapshot()
        return PlainTextResponse("ok\n")

    async def server_info(self, request: Request) -> Response:
        at = await self._snapshot()
        state = {
            "now_s": at.now_s,
            "running": at.running,
            "queued": at.queued,
            "open": at.open,
            "violations": at.violations,
            "copies_in_flight": at.copies_in_flight,
            "pools": {
                f"{tier.name.lower()}_{component.name.lower()}": {
                    "total_pages": pool.total,
                    "used_pages": pool.used,
                    "evictable_pages": pool.evictable,
                    "free_pages": pool.free,
                }
                for (tier, component), pool in at.pools.items()
            },
        }
        return JSONResponse({**self.info, "boot": self.boot, "internal_states": [state]})

    async def flush_cache(self, request: Request) -> Response:
        """Forget what is cached, at once or within `?timeout=` seconds; 400 while it cannot be."""
        text = request.query_params.get("timeout", "0")
        try:
            patience = min(max(0.0, float(text)), LONGEST_FLUSH_S)
        except ValueError:
            raise Refused(400, "timeout must be a number of seconds", param="timeout") from None
        flush = self.engine.flush()
        try:
            await self._snapshot()  # by then it has been tried once
            await asyncio.wait_for(asyncio.wrap_future(flush), patience)
        except TimeoutError:
            raise Refused(400, "requests are open or copies in flight: not flushed") from None
        except RuntimeError as stopped:
            raise Refused(503, str(stopped)) from None
        return PlainTextResponse("Cache flushed.\n")

    async def metrics(self, request: Request) -> Response:
        text = exposition(
            await self._snapshot(),
            self.engine.latencies,
            model_name=self.model.name,
            storage=self.engine.plan.storage is not None,
        )
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _snapshot(self) -> Snapshot:
        return await _within(self.engine.snapshot())

    def _check_key(self, request: Request) -> None:
        if not self.api_key or request.url.path in OPEN_PATHS:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), self.api_key.encode()):
            raise Refused(401, "the API key is missing or wrong", code="invalid_api_key")


async def _within(future: "Future[T]") -> T:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), ASK_S)
    except TimeoutError:
        raise Refused(503, f"the engine has not answered for {ASK_S:g} s") from None
    except RuntimeError as stopped:
        raise Refused(503, str(stopped)) from None


def _keyed(route: Route, check: Callable[[Request], None]) -> Route:
    """The same route, with the key looked at first."""
    serve: Callable[[Request], Awaitable[Response]] = route.endpoint

    async def endpoint(request: Request) -> Response:
        check(request)
        return await serve(request)

    return Route(route.path, endpoint, methods=list(route.methods or ()))


async def _refused(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return error_response(refused)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(Refused(error.status_code, f"{request.url.path}: {error.detail}"))


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(Refused(500, f"{type(error).__name__} in the server"))
