"""What the HTTP API answers when it doesn't do what it was asked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from tank_controller.leader.checks import RefusedError, error_code
from tank_controller.leader.report import Json
from tank_protos.error_codes import ErrorCode


@dataclass(slots=True)
class ApiError(Exception):
    """An answer that is an error."""

    status: HTTPStatus
    code: str
    """For programs: the name of an `ErrorCode`, or one of the API's own."""
    message: str
    """For people, in one sentence: why, and what to do."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def json(self) -> dict[str, Json]:
        """The answer's body."""
        return {"error": {"code": self.code, "message": self.message}}


_STATUS: dict[ErrorCode, HTTPStatus] = {
    ErrorCode.UNKNOWN_TOPIC: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_BROKER: HTTPStatus.NOT_FOUND,
    ErrorCode.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_NAME: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_SETTING: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_PARTITIONS: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_REPLICATION_FACTOR: HTTPStatus.BAD_REQUEST,
    ErrorCode.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NO_LEADER: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.STORAGE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
}
"""All others say that the cluster is not as the request needs it: a conflict."""

RETRY_AFTER_S = 1
"""What passes by itself, such as an election, takes about so long."""


def refused(error: int, message: str) -> ApiError:
    """The answer for an error of the state machine's. `message` may lack capital and full stop."""
    return of_refusal(RefusedError(error_code(error), sentence(message)))


def of_refusal(refusal: RefusedError) -> ApiError:
    """The same for one that is put in words."""
    status = _STATUS.get(refusal.error, HTTPStatus.CONFLICT)
    passes = status is HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": str(RETRY_AFTER_S)} if passes else {}
    return ApiError(status, refusal.error.name.lower(), refusal.message, headers)


def invalid(message: str) -> ApiError:
    """A request that makes no sense, whatever the cluster is like."""
    return refused(ErrorCode.INVALID_REQUEST, message)


def sentence(message: str) -> str:
    """A message of the state machine's as people read it."""
    return f"{message[:1].upper()}{message[1:]}{'' if message.endswith('.') else '.'}"
