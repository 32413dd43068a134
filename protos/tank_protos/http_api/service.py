"""Serves an HTTP API: reads requests by its table of operations, runs them within limits, answers errors."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from tank_protos.http_api.access import Access, is_local
from tank_protos.http_api.errors import ApiError, Json, api_error
from tank_protos.http_api.fields import read_body, read_path, read_query
from tank_protos.http_api.operations import PREFIX, ApiOperation, ApiRequest
from tank_protos.wire.names import readable

Handler = Callable[[ApiRequest], Awaitable[Json]]
HttpHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""The headers by which proxies mark a forwarded request."""
_SHOWN: Final = 200
"""The most characters of a path in a line of the log."""


@dataclass(slots=True, frozen=True)
class ServiceLimits:
    """The bounds of an API."""

    requests: int
    """How many are handled at a time; further ones are refused."""
    answer_s: float
    """How long an answer may take."""
    body_s: float
    """How long a client may take to send its body."""
    body_bytes: int
    """The size of a body, which the application refuses; for the message."""


class HttpService:
    """An HTTP API. Handlers raise ApiError, or errors that `known` makes one of."""

    def __init__(
        self,
        operations: Iterable[ApiOperation[Any]],
        handlers: Mapping[Any, Handler],
        access: Access,
        limits: Callable[[], ServiceLimits],
        log: logging.Logger,
        known: Callable[[Exception], ApiError | None] = lambda error: None,
    ) -> None:
        self._operations = list(operations)
        self._handlers = handlers
        self._access = access
        self._limits = limits
        self._log = log
        self._known = known
        self._under_way = 0
        """The number of requests under way; at most `ServiceLimits.requests`."""
        self.answers: Counter[tuple[str, str]] = Counter()
        """The number of answered requests, by the operation's name and the outcome (ok, or the error's
        code).
        """

    def add_to(self, app: web.Application) -> None:
        """Serves the API below PREFIX, where all errors are JSON."""

        @web.middleware
        async def typed(request: web.Request, handler: HttpHandler) -> web.StreamResponse:
            return await self._typed(request, handler)

        api = web.Application(middlewares=[typed])
        for operation in self._operations:
            served = self._served(operation)
            api.router.add_route(operation.method, operation.path, served)
            if not operation.changes:
                api.router.add_route("HEAD", operation.path, served)
        app.add_subapp(PREFIX, api)

    def headers_of(self, operation: ApiOperation[Any], asked: ApiRequest) -> Mapping[str, str]:
        """Further headers of an answer."""
        return {}

    def _served(self, operation: ApiOperation[Any]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def serve(request: web.Request) -> web.Response:
            outcome = "failed"
            try:
                answer = await self._bounded(operation, request)
                outcome = "ok"
                return answer
            except Exception as error:
                refusal = error if isinstance(error, ApiError) else self._known(error)
                if refusal is not None:
                    outcome = refusal.code
                raise
            finally:
                self.answers[operation.name.value, outcome] += 1
                if operation.changes:
                    # The path as it came, with control characters escaped, so that it can't forge log lines.
                    path = request.raw_path[:_SHOWN]
                    self._log.info("%s %s by %s: %s", request.method, path, request.remote, outcome)

        return serve

    async def _bounded(self, operation: ApiOperation[Any], request: web.Request) -> web.Response:
        limits = self._limits()
        if self._under_way >= limits.requests:
            message = f"{limits.requests} requests are under way here: ask again in a moment"
            raise api_error(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", message)
        self._under_way += 1
        try:
            async with asyncio.timeout(limits.answer_s):
                return await self._answer(operation, request)
        except TimeoutError:
            if not operation.changes:
                message = f"It took more than {limits.answer_s:.0f} seconds: ask for less, such as one topic."
                raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too_slow", message) from None
            message = f"it is not done after {limits.answer_s:.0f} seconds: check whether the change was made"
            raise api_error(HTTPStatus.GATEWAY_TIMEOUT, "timed_out", message) from None
        finally:
            self._under_way -= 1

    async def _answer(self, operation: ApiOperation[Any], request: web.Request) -> web.Response:
        local = is_local(
            request.remote or "",
            request.headers.get("Host", ""),
            any(header in request.headers for header in _FORWARDED),
        )
        authorization = request.headers.get("Authorization")
        await self._access.check(changes=operation.changes, local=local, authorization=authorization)
        asked = ApiRequest(
            read_path(operation.in_path, request.match_info),
            read_query(operation.query, request.query.items()),
            read_body(operation.body, await self._body_of(request)),
        )
        found = await self._handlers[operation.name](asked)
        return _response(operation.status, found, self.headers_of(operation, asked))

    async def _body_of(self, request: web.Request) -> bytes:
        limits = self._limits()
        try:
            async with asyncio.timeout(limits.body_s):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"a body has at most {limits.body_bytes:,} bytes"
            raise api_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", message) from None
        except TimeoutError:
            message = f"The body did not come within {limits.body_s:.0f} seconds."
            raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", message) from None

    async def _typed(self, request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        """Every answer is JSON, errors among them."""
        try:
            return await handler(request)
        except web.HTTPException as error:
            refusal = _of_http(error, request)
        except Exception as error:
            found = error if isinstance(error, ApiError) else self._known(error)
            refusal = found or self._fault(request)
        return _response(refusal.status, refusal.json(), refusal.headers)

    def _fault(self, request: web.Request) -> ApiError:
        """Logs the exception that is being handled, a bug. Returns the answer."""
        self._log.exception(
            "a fault of this program ended a request: %s %s", request.method, request.raw_path[:_SHOWN]
        )
        message = "A fault of this program's; its log says more."
        return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message)


def _of_http(error: web.HTTPException, request: web.Request) -> ApiError:
    """The ApiError for a request that aiohttp refuses."""
    if isinstance(error, web.HTTPNotFound):
        message = f"There is nothing at {request.raw_path[:80]}: see {PREFIX}/openapi.json."
        return ApiError(HTTPStatus.NOT_FOUND, "unknown_path", message)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.raw_path[:80]} takes {allowed}, not {error.method}."
        return ApiError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", message, {"Allow": allowed})
    return ApiError(HTTPStatus(error.status), "refused", f"{error.reason}.")


def _response(status: HTTPStatus, body: Json, headers: Mapping[str, str]) -> web.Response:
    """The answer as JSON in UTF-8. Names that clients chose may have bytes that are not UTF-8: each is shown
    as U+FFFD, because many JSON readers refuse the escape of a lone surrogate."""
    text = readable(json.dumps(body, ensure_ascii=False)) + "\n"
    return web.Response(
        status=status.value,
        body=text.encode(),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store", **headers},
    )
