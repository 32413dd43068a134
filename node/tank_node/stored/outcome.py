"""The outcomes of requests for stored batches, and the error bytes that stand for them between brokers."""

from enum import IntEnum
from typing import ClassVar, Final

from tank_node.partition.refusal import Refusal
from tank_protos.error_codes import ErrorCode
from tank_protos.wire.errors import WireError


class StoredOutcome(IntEnum):
    """An outcome; only DONE is false. Nothing was stored or changed unless it is DONE or MAYBE_STORED."""

    DONE = 0
    UNKNOWN_TOPIC = 1
    """The topic was deleted, or made anew under another id."""
    UNKNOWN_PARTITION = 2
    NO_LEADER = 3
    """No broker leads that could be reached in time. The request may be repeated."""
    TOO_FEW_IN_SYNC = 4
    """Fewer replicas are in sync than the topic demands."""
    MAYBE_STORED = 5
    """The request was written or sent, and it isn't known whether it is done."""
    STORAGE = 6
    """The leader's disk refused, or the log is damaged."""
    TOO_LARGE = 7
    """The batch is larger than brokers store."""
    REFUSED = 8
    """The batch, or the request, is not one that the topic takes."""


class UnknownOutcome(WireError):
    """An error byte that no leader sends in answers about stored batches."""

    reason: ClassVar[str] = "unexpected_answer"


_OF_REFUSALS: Final = {
    Refusal.NONE: StoredOutcome.DONE,
    Refusal.UNKNOWN_TOPIC: StoredOutcome.UNKNOWN_TOPIC,
    Refusal.UNKNOWN_PARTITION: StoredOutcome.UNKNOWN_PARTITION,
    Refusal.OTHER_LEADER: StoredOutcome.NO_LEADER,
    Refusal.NO_LEADER: StoredOutcome.NO_LEADER,
    Refusal.NOT_ENOUGH_REPLICAS: StoredOutcome.TOO_FEW_IN_SYNC,
    Refusal.NOT_ACKNOWLEDGED_IN_TIME: StoredOutcome.MAYBE_STORED,
    Refusal.STORAGE: StoredOutcome.STORAGE,
    Refusal.DAMAGED: StoredOutcome.STORAGE,
    Refusal.TOO_LARGE: StoredOutcome.TOO_LARGE,
}
"""A refusal that isn't here is about the batch."""
_CODES: Final = {
    StoredOutcome.DONE: ErrorCode.NONE,
    StoredOutcome.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC,
    StoredOutcome.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_PARTITION,
    StoredOutcome.NO_LEADER: ErrorCode.NO_LEADER,
    StoredOutcome.TOO_FEW_IN_SYNC: ErrorCode.NOT_ENOUGH_REPLICAS,
    StoredOutcome.MAYBE_STORED: ErrorCode.NOT_ACKNOWLEDGED_IN_TIME,
    StoredOutcome.STORAGE: ErrorCode.STORAGE,
    StoredOutcome.TOO_LARGE: ErrorCode.TOO_LARGE,
    StoredOutcome.REFUSED: ErrorCode.INVALID_REQUEST,
}
_BY_CODE: Final[dict[int, StoredOutcome]] = {code: outcome for outcome, code in _CODES.items()}


def of_refusal(refusal: Refusal) -> StoredOutcome:
    """The outcome that a partition's refusal leads to."""
    return _OF_REFUSALS.get(refusal, StoredOutcome.REFUSED)


def code_of(outcome: StoredOutcome) -> ErrorCode:
    """The error byte of an outcome."""
    return _CODES[outcome]


def outcome_of_code(code: int) -> StoredOutcome:
    """The outcome that an error byte stands for. Raises UnknownOutcome."""
    outcome = _BY_CODE.get(code)
    if outcome is None:
        raise UnknownOutcome(f"error {code:#x} in an answer about stored batches")
    return outcome
