"""An HTTP API's answers to requests that it refuses. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

RETRY_AFTER_S: Final = 1
"""The Retry-After of temporary errors: an election takes about so long."""


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


def api_error(status: HTTPStatus, code: str, message: str) -> ApiError:
    """The answer of this status, whose message may lack the capital and the full stop; with Retry-After if it
    is temporary."""
    passes = status is HTTPStatus.SERVICE_UNAVAILABLE
    return ApiError(status, code, sentence(message), {"Retry-After": str(RETRY_AFTER_S)} if passes else {})


def invalid(message: str) -> ApiError:
    """The answer to a request that is invalid in any state of the cluster."""
    return api_error(HTTPStatus.BAD_REQUEST, "invalid_request", message)


def sentence(message: str) -> str:
    """The message with a capital and a full stop."""
    return f"{message[:1].upper()}{message[1:]}{'' if message.endswith('.') else '.'}"
