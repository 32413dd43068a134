"""The HTTP API's answers to requests that it refuses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from tank_controller.leader.checks import CheckRefusedError, error_code
from tank_controller.leader.report import Json
from tank_protos.error_codes import ErrorCode


@dataclass(slots=True)
class ApiError(Exception):
    """An error answer."""

    status: HTTPStatus
    code: str
    """For programs: the name of an `ErrorCode`, or one of the API's own."""
    message: str
    """One sentence for operators: what happened, and what to do."""
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
"""All other errors are conflicts: the cluster's state doesn't allow the request."""

RETRY_AFTER_S = 1
"""The Retry-After of temporary errors: an election takes about so long."""


def refused(error: int, message: str) -> ApiError:
    """The answer for a rejection of the state machine. `message` may lack the capital and the full stop."""
    return of_refusal(CheckRefusedError(error_code(error), sentence(message)))


def of_refusal(refusal: CheckRefusedError) -> ApiError:
    """The answer for a refusal that is a sentence already."""
    status = _STATUS.get(refusal.error, HTTPStatus.CONFLICT)
    passes = status is HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": str(RETRY_AFTER_S)} if passes else {}
    return ApiError(status, refusal.error.name.lower(), refusal.message, headers)


def invalid(message: str) -> ApiError:
    """The answer to a request that is invalid in any state of the cluster."""
    return refused(ErrorCode.INVALID_REQUEST, message)


def sentence(message: str) -> str:
    """The message with a capital and a full stop."""
    return f"{message[:1].upper()}{message[1:]}{'' if message.endswith('.') else '.'}"
