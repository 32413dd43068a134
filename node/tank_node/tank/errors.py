"""The error codes in TANK's messages, and the metrics' names, for a partition's refusals."""

from typing import Final

from tank_node.metrics import OK
from tank_node.partition.refusal import Refusal
from tank_protos.error_codes import ErrorCode, ProduceError

_CODES: Final = {
    Refusal.NONE: ErrorCode.NONE,
    Refusal.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC,
    Refusal.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_PARTITION,
    Refusal.OTHER_LEADER: ErrorCode.OTHER_LEADER,
    Refusal.NO_LEADER: ErrorCode.NO_LEADER,
    Refusal.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_ENOUGH_REPLICAS,
    Refusal.NOT_ACKNOWLEDGED_IN_TIME: ErrorCode.NOT_ACKNOWLEDGED_IN_TIME,
    Refusal.STORAGE: ErrorCode.STORAGE,
    Refusal.DAMAGED: ErrorCode.DAMAGED,
    Refusal.INVALID_BATCH: ErrorCode.INVALID_BUNDLE,
    Refusal.TOO_LARGE: ErrorCode.TOO_LARGE,
    Refusal.NUMBER_TAKEN: ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END,
    Refusal.OUT_OF_ORDER_SEQUENCE: ErrorCode.OUT_OF_ORDER_SEQUENCE,
    Refusal.STALE_PRODUCER_EPOCH: ErrorCode.STALE_PRODUCER_EPOCH,
    Refusal.UNKNOWN_PRODUCER: ErrorCode.UNKNOWN_PRODUCER,
    Refusal.TOO_MANY_PRODUCERS: ErrorCode.TOO_MANY_PRODUCERS,
    Refusal.FORGOTTEN_PRODUCER: ErrorCode.UNKNOWN_PRODUCER,
    Refusal.OTHER_FORMAT: ErrorCode.OTHER_FORMAT,
    Refusal.INTERNAL_TOPIC: ErrorCode.READ_ONLY,
}
_FIRST_OWN_CODE: Final = 0x10
_FIRST_SHARED_CODE: Final = 0xFC


def error_code(refusal: Refusal) -> ErrorCode:
    """The error byte for a refusal, in our own messages (ids from 64 on)."""
    return _CODES[refusal]


def error_name(refusal: Refusal) -> str:
    """A refusal's name in the metrics."""
    return _CODES[refusal].name.lower()


def outcome_of(error: int) -> str:
    """The name in the metrics for a request that was answered with this error byte."""
    return ErrorCode(error).name.lower() if error else OK


def tank_error(refusal: Refusal, old: bool) -> int:
    """The result byte for a client of TANK's own messages. Codes that only our own messages have become 0x02,
    "not stored"; for a client of the old document (`old`) those about leaders, too. `ProduceReply.elsewhere`
    adds another leader's address."""
    error: int = _CODES[Refusal.NO_LEADER if refusal is Refusal.OTHER_LEADER else refusal]
    if old and error == ErrorCode.NO_LEADER:
        return ProduceError.STORAGE
    return ProduceError.STORAGE if _FIRST_OWN_CODE <= error < _FIRST_SHARED_CODE else error
