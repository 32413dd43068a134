"""Serves the controller's HTTP API: runs the operations of `reads` and `changes`, within limits, and answers
errors.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from tank_controller import limits
from tank_controller.api.access import Access, is_local
from tank_controller.api.changes import Changes
from tank_controller.api.errors import ApiError, of_refusal, refused
from tank_controller.api.fields import read_body, read_path, read_query
from tank_controller.api.leader import Leader
from tank_controller.api.operations import OPERATIONS, PREFIX, ApiOperation, Name
from tank_controller.api.reads import ApiRequest, Reads
from tank_controller.leader.checks import CheckRefusedError
from tank_controller.leader.report import Json
from tank_protos.error_codes import ErrorCode

Handler = Callable[[ApiRequest], Awaitable[Json]]

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""The headers by which proxies mark a forwarded request."""

_log = logging.getLogger("tank.controller.api")


class HttpApi:
    """The HTTP API of one controller."""

    def __init__(self, leader: Leader, access: Access, now_ms: Callable[[], int]) -> None:
        reads = Reads(leader)
        self._handlers = handlers(reads, Changes(leader, reads, now_ms))
        self._access = access
        self._under_way = 0
        """The number of requests under way; at most limits.MAX_API_REQUESTS."""
        self.answers: Counter[tuple[str, str]] = Counter()
        """The number of answered requests, by the operation's name and the outcome (ok, or the error's
        code).
        """

    def add_to(self, app: web.Application) -> None:
        """Serves the API below PREFIX, where all errors are JSON."""
        api = web.Application(middlewares=[_typed])
        for operation in OPERATIONS.values():
            served = self._served(operation)
            api.router.add_route(operation.method, operation.path, served)
            if not operation.changes:
                api.router.add_route("HEAD", operation.path, served)
        app.add_subapp(PREFIX, api)

    def _served(self, operation: ApiOperation) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def serve(request: web.Request) -> web.Response:
            outcome = "failed"
            try:
                answer = await self._bounded(operation, request)
                outcome = "ok"
                return answer
            except ApiError as error:
                outcome = error.code
                raise
            except CheckRefusedError as error:
                outcome = error.error.name.lower()
                raise
            finally:
                self.answers[operation.name.value, outcome] += 1
                if operation.changes:
                    # The path as it came, with control characters escaped, so that it can't forge log lines.
                    path = request.raw_path[:200]
                    _log.info("%s %s by %s: %s", request.method, path, request.remote, outcome)

        return serve

    async def _bounded(self, operation: ApiOperation, request: web.Request) -> web.Response:
        if self._under_way >= limits.MAX_API_REQUESTS:
            message = f"{limits.MAX_API_REQUESTS} requests are under way here: ask again in a moment"
            raise refused(ErrorCode.OVERLOADED, message)
        self._under_way += 1
        try:
            async with asyncio.timeout(limits.API_ANSWER_S):
                return await self._answer(operation, request)
        except TimeoutError:
            if not operation.changes:
                message = (
                    f"It took more than {limits.API_ANSWER_S:.0f} seconds: ask for less, such as one topic."
                )
                raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too_slow", message) from None
            message = (
                f"it is not done after {limits.API_ANSWER_S:.0f} seconds: check whether the change was made"
            )
            raise refused(ErrorCode.TIMED_OUT, message) from None
        finally:
            self._under_way -= 1

    async def _answer(self, operation: ApiOperation, request: web.Request) -> web.Response:
        local = is_local(
            request.remote or "",
            request.headers.get("Host", ""),
            any(h in request.headers for h in _FORWARDED),
        )
        authorization = request.headers.get("Authorization")
        await self._access.check(changes=operation.changes, local=local, authorization=authorization)
        asked = ApiRequest(
            read_path(operation.in_path, request.match_info),
            read_query(operation.query, request.query.items()),
            read_body(operation.body, await _body_of(request)),
        )
        found = await self._handlers[operation.name](asked)
        headers = {}
        if operation.name is Name.CREATE_TOPIC:
            headers["Location"] = f"{PREFIX}/topics/{asked.body.text('topic')}"
        return _response(operation.status, found, headers)


def handlers(reads: Reads, changes: Changes) -> Mapping[Name, Handler]:
    """The handler of each operation."""
    return {
        Name.DESCRIBE: reads.description,
        Name.STATUS: reads.status,
        Name.LIST_CONTROLLERS: reads.controllers,
        Name.TRANSFER_LEADERSHIP: changes.transfer_leadership,
        Name.REMOVE_CONTROLLER: changes.remove_controller,
        Name.LIST_BROKERS: reads.brokers,
        Name.GET_BROKER: reads.broker,
        Name.DRAIN_BROKER: changes.drain,
        Name.UNDO_DRAIN: changes.undo_drain,
        Name.REMOVE_BROKER: changes.remove_broker,
        Name.BALANCE: changes.balance,
        Name.LIST_TOPICS: reads.topics,
        Name.GET_TOPIC: reads.topic,
        Name.CREATE_TOPIC: changes.create_topic,
        Name.ALTER_TOPIC: changes.alter_topic,
        Name.DELETE_TOPIC: changes.delete_topic,
        Name.LIST_PARTITIONS: reads.partitions,
        Name.GET_PARTITION: reads.partition,
        Name.ELECT_LEADER: changes.elect,
        Name.MOVE_PARTITION: changes.move,
        Name.CANCEL_MOVE: changes.cancel_move,
    }


@web.middleware
async def _typed(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Every answer is JSON, errors among them."""
    try:
        return await handler(request)
    except ApiError as error:
        return _response(error.status, error.json(), error.headers)
    except CheckRefusedError as error:
        known = of_refusal(error)
        return _response(known.status, known.json(), known.headers)
    except web.HTTPException as error:
        known = _of_http(error, request)
        return _response(known.status, known.json(), known.headers)
    except Exception:
        _log.exception(
            "a fault of this program ended a request: %s %s", request.method, request.raw_path[:200]
        )
        known = ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "internal",
            "A fault of the controller's; its log says more.",
        )
        return _response(known.status, known.json(), known.headers)


async def _body_of(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(limits.API_BODY_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        message = f"a body has at most {limits.MAX_API_BODY_BYTES:,} bytes"
        raise refused(ErrorCode.TOO_LARGE, message) from None
    except TimeoutError:
        message = f"The body did not come within {limits.API_BODY_S:.0f} seconds."
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", message) from None


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
    text = json.dumps(body, ensure_ascii=False) + "\n"
    return web.Response(
        status=status.value,
        body=text.encode(),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store", **headers},
    )
