"""The HTTP API's answers to requests that it refuses. Pure."""

from http import HTTPStatus

from tank_controller.leader.reports.checks import CheckRefusedError, error_code
from tank_protos.error_codes import ErrorCode
from tank_protos.http_api.errors import ApiError, api_error, sentence

_STATUS: dict[ErrorCode, HTTPStatus] = {
    ErrorCode.UNKNOWN_TOPIC: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_BROKER: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_STREAM: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_GROUP: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_USER: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_TOKEN: HTTPStatus.NOT_FOUND,
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


def refused(error: int, message: str) -> ApiError:
    """The answer for a rejection of the state machine. `message` may lack the capital and the full stop."""
    return of_refusal(CheckRefusedError(error_code(error), sentence(message)))


def of_refusal(refusal: CheckRefusedError) -> ApiError:
    """The answer for a refusal that is a sentence already."""
    status = _STATUS.get(refusal.error, HTTPStatus.CONFLICT)
    return api_error(status, refusal.error.name.lower(), refusal.message)
