"""The service: its paths, and the way of a request through them."""

import asyncio
import base64
import hashlib
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.service.answers import explanation_fields, translation_fields
from pipeline.service.batching import Full, Queue, Search
from pipeline.service.connections import impatient
from pipeline.service.limits import Limits
from pipeline.service.measures import CONTENT_TYPE, Measures
from pipeline.service.models import Model
from pipeline.service.requests import RequestError, TranslationRequest, parse

_PAGE = Path(__file__).with_name("page.html")


class Server(uvicorn.Server):
    """Serves some models on a socket. Its end does not wait for a search."""

    def __init__(self, service: "_Service", limits: Limits) -> None:
        super().__init__(uvicorn.Config(
            _make_app(service), http=impatient(limits.patience), ws="none", lifespan="on", log_config=None,
            access_log=False, server_header=False, timeout_keep_alive=math.ceil(limits.patience),
            timeout_graceful_shutdown=math.ceil(limits.patience)))
        self._service = service

    @property
    def is_searching(self) -> bool:
        """Whether a batch is being searched."""
        return any(queue.is_searching for queue in self._service.queues.values())


def make_server(models: Sequence[Model], limits: Limits) -> Server:
    """A server, to be run on a socket.

    Args:
        models: with different names; the first is the default.
        limits: of requests and queues.
    """
    return Server(_Service(models, limits), limits)


def _make_app(service: "_Service") -> Starlette:
    """A service as an ASGI application."""
    routes = [
        Route("/", service.page), Route("/models", service.models), Route("/health", service.health),
        Route("/metrics", service.metrics), Route("/translate", service.translate, methods=["POST"]),
        Route("/explain", service.explain, methods=["POST"])]
    app = Starlette(
        routes=routes, lifespan=service.run_queues,
        middleware=[Middleware(_Measured, measures=service.measures, paths={route.path for route in routes})],
        exception_handlers={HTTPException: _plain_refusal, RequestError: _refusal, ClientDisconnect: _nobody_listens,
                            Exception: _failure})
    app.router.redirect_slashes = False  # a redirect leads to the Host that the client names
    return app


class _Service:
    def __init__(self, models: Sequence[Model], limits: Limits) -> None:
        self.measures = Measures()
        self._limits = limits
        self.queues = {model.name: Queue(model, limits, self.measures.batch) for model in models}
        self._decoders = {model.name: list(model.decoders) for model in models}
        self._models = [{"name": model.name, "languages": model.languages, "decoders": self._decoders[model.name]}
                        for model in models]
        for name, queue in self.queues.items():
            self.measures.watch(name, queue)
        self._page = _PAGE.read_bytes()
        self._page_headers = {"Content-Security-Policy": _policy(self._page.decode()), "Cache-Control": "no-cache"}

    @asynccontextmanager
    async def run_queues(self, _: Starlette) -> AsyncIterator[None]:
        """Search what waits, until the service is stopped."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(queue.run()) for queue in self.queues.values()]
            yield
            for task in tasks:
                task.cancel()

    async def page(self, _: Request) -> Response:
        return Response(self._page, media_type="text/html", headers=self._page_headers)

    async def models(self, _: Request) -> Response:
        return JSONResponse({"models": self._models})

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": {name: len(queue) for name, queue in self.queues.items()}})

    async def metrics(self, _: Request) -> Response:
        return Response(self.measures.text(), headers={"Content-Type": CONTENT_TYPE})

    async def translate(self, request: Request) -> Response:
        asked = await self._parsed(request)
        found = await self._search(request, asked, Search(asked.decoder))
        return JSONResponse({"model": asked.model, "decoder": asked.decoder,
                             "translations": [translation_fields(one) for one in found]})

    async def explain(self, request: Request) -> Response:
        asked = await self._parsed(request)
        found = await self._search(request, asked, Search(asked.decoder, explained=True))
        return JSONResponse({"model": asked.model, "decoder": asked.decoder,
                             "explanations": [explanation_fields(one) for one in found]})

    async def _parsed(self, request: Request) -> TranslationRequest:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await _read(request, self._limits)
        if kind != "application/json":  # which pages of other sites cannot send
            raise RequestError(415, "send the body as Content-Type: application/json")
        return parse(body, self._decoders, self._limits)

    async def _search(self, request: Request, asked: TranslationRequest, search: Search) -> list[Any]:
        """The results for all lines.

        Raises:
            RequestError: too many lines wait, or the service is stopped and waits no longer.
            ClientDisconnect: the client has gone away; what has not begun is dropped.
        """
        queue = self.queues[asked.model]
        try:
            found = queue.put(search, asked.lines)
        except Full as full:
            raise RequestError(503, f"too many lines wait for {asked.model}; try again in {full.seconds} s",
                               {"Retry-After": str(full.seconds)}) from None
        everything, gone = asyncio.gather(*found), asyncio.create_task(_until_gone(request))
        everything.add_done_callback(_retrieve)
        first: set[asyncio.Future[Any]] = {everything, gone}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not everything.done():
                raise ClientDisconnect
            return everything.result()
        except asyncio.CancelledError:
            raise RequestError(503, "the service is stopping") from None
        finally:
            gone.cancel()
            queue.withdraw(found)


async def _read(request: Request, limits: Limits) -> bytes:
    """The body of a request.

    One that is too large is read to its end and forgotten: few clients read an answer before they have sent everything.
    """
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(limits.patience):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limits.max_body:
                    body += chunk
    except TimeoutError:
        raise RequestError(408, f"the body has not arrived within {limits.patience:g} s") from None
    if size > limits.max_body:
        raise RequestError(413, f"the body has {size} bytes, and at most {limits.max_body} are read")
    return bytes(body)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _retrieve(done: asyncio.Future[Any]) -> None:
    """Look at the exception of lines that nobody waits for any more, which asyncio would otherwise log as forgotten."""
    if not done.cancelled():
        done.exception()


def _policy(page: str) -> str:
    """A Content-Security-Policy that lets the page use its own script and style, ask this service, and nothing else."""
    def digest(element: str) -> str:
        [content] = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    return (f"default-src 'none'; script-src '{digest('script')}'; style-src '{digest('style')}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _refusal(_: Request, error: Any) -> Response:
    return _error(error.status, str(error), error.headers)


async def _plain_refusal(request: Request, error: Any) -> Response:
    """404 or 405."""
    return _error(error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers)


async def _failure(_: Request, error: Exception) -> Response:
    """A bug; its traceback goes to standard error."""
    return _error(500, "this request has failed; the service's log has the reason")


async def _nobody_listens(_: Request, error: Exception) -> Response:
    return Response(status_code=499)  # for the metrics only


class _Measured:
    """Counts requests and the time of their answers."""

    def __init__(self, app: ASGIApp, measures: Measures, paths: set[str]) -> None:
        self._app, self._measures, self._paths = app, measures, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, started = 500, perf_counter()

        async def notice(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, notice)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._measures.request(path, status, perf_counter() - started)
