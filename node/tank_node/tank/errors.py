"""How the outcome of a request is called in the metrics."""

from tank_node.metrics import OK
from tank_protos.error_codes import ErrorCode


def error_name(error: int) -> str:
    """An error code as metrics name it."""
    return ErrorCode(error).name.lower()


def outcome_of(error: int) -> str:
    """The outcome of a request that was answered with this code."""
    return error_name(error) if error else OK
