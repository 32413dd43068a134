"""The HTTP API's answers to requests that brokers refuse. Pure."""

from http import HTTPStatus
from typing import Final

from tank_protos.error_codes import ErrorCode
from tank_protos.http_api.errors import ApiError, api_error

_STATUS: Final[dict[int, HTTPStatus]] = {
    ErrorCode.UNKNOWN_TOPIC: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_GROUP: HTTPStatus.NOT_FOUND,
    ErrorCode.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_NAME: HTTPStatus.BAD_REQUEST,
    ErrorCode.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NO_LEADER: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.STORAGE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.COORDINATOR_LOADING: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.REBALANCING: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
    ErrorCode.NOT_ACKNOWLEDGED_IN_TIME: HTTPStatus.GATEWAY_TIMEOUT,
}
"""All other errors are conflicts: the state of the group or of the cluster doesn't allow the request."""


def refused(code: int, message: str) -> ApiError:
    """The answer for an error code of a message. `message` may lack the capital and the full stop."""
    try:
        name = ErrorCode(code).name.lower()
    except ValueError:  # of a broker of a newer version
        name = f"error_{code:#04x}"
    return api_error(_STATUS.get(code, HTTPStatus.CONFLICT), name, message or f"the broker answers: {name}")


def overloaded(message: str) -> ApiError:
    """The answer while something lacks room or time."""
    return refused(ErrorCode.OVERLOADED, f"{message}: ask again in a moment")


def starting() -> ApiError:
    """The answer of a broker that does not serve yet."""
    return api_error(HTTPStatus.SERVICE_UNAVAILABLE, "starting", "the broker is starting: ask again")
