"""How TANK's messages and the metrics name the outcome of a request."""

from typing import Final

from tank_node.metrics import OK
from tank_protos.error_codes import ErrorCode, ProduceError

_FIRST_OWN_CODE: Final = 0x10
_FIRST_SHARED_CODE: Final = 0xFC


def error_name(error: int) -> str:
    """An error code as metrics name it."""
    return ErrorCode(error).name.lower()


def outcome_of(error: int) -> str:
    """The outcome of a request that was answered with this code."""
    return error_name(error) if error else OK


def tank_error(error: int, old: bool) -> int:
    """The result byte for a TANK client: codes that only our own messages have become 0x02, "not stored",
    and for a client of the old document those too that tell of leaders. Where another leader is, is not said
    here: see `produce.ProduceReply.elsewhere`."""
    if error == ErrorCode.OTHER_LEADER:
        error = ErrorCode.NO_LEADER
    if old and error == ErrorCode.NO_LEADER:
        return ProduceError.STORAGE
    return ProduceError.STORAGE if _FIRST_OWN_CODE <= error < _FIRST_SHARED_CODE else error
