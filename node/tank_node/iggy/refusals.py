"""What partitions, coordinators and controllers refuse, as the faults that Iggy's clients are told of."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from tank_node.stored.outcome import StoredOutcome
from tank_protos.error_codes import ErrorCode
from tank_protos.iggy.errors import IggyError, IggyRefusal, IggyTrouble

IggyFault: TypeAlias = IggyError | IggyTrouble
"""What an answer's error is made of."""

_STORED: Final[Mapping[StoredOutcome, IggyFault]] = {
    StoredOutcome.UNKNOWN_TOPIC: IggyError.TOPIC_ID_NOT_FOUND,
    StoredOutcome.UNKNOWN_PARTITION: IggyError.PARTITION_NOT_FOUND,
    StoredOutcome.NO_LEADER: IggyTrouble.LEADER_UNKNOWN,
    StoredOutcome.TOO_FEW_IN_SYNC: IggyTrouble.TOO_FEW_IN_SYNC,
    StoredOutcome.MAYBE_STORED: IggyTrouble.NOT_ACKNOWLEDGED,
    StoredOutcome.STORAGE: IggyTrouble.DISK,
    StoredOutcome.TOO_LARGE: IggyError.TOO_BIG_MESSAGE_PAYLOAD,
    StoredOutcome.REFUSED: IggyError.CANNOT_APPEND_MESSAGE,
}
_CODES: Final[Mapping[ErrorCode, IggyFault]] = {
    ErrorCode.UNKNOWN_TOPIC: IggyError.TOPIC_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_PARTITION: IggyError.PARTITION_NOT_FOUND,
    ErrorCode.UNKNOWN_STREAM: IggyError.STREAM_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_GROUP: IggyError.CONSUMER_GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_EXISTS: IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
    ErrorCode.STREAM_EXISTS: IggyError.STREAM_NAME_ALREADY_EXISTS,
    ErrorCode.TOPIC_EXISTS: IggyError.TOPIC_NAME_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_MEMBER: IggyError.CONSUMER_GROUP_MEMBER_NOT_FOUND,
    ErrorCode.INVALID_REPLICATION_FACTOR: IggyError.INVALID_REPLICATION_FACTOR,
    ErrorCode.OFFSET_ABOVE_END: IggyError.INVALID_OFFSET,
    ErrorCode.LEVEL_TOO_LOW: IggyError.FEATURE_UNAVAILABLE,
    ErrorCode.OTHER_LEADER: IggyTrouble.LEADER_UNKNOWN,
    ErrorCode.NO_LEADER: IggyTrouble.LEADER_UNKNOWN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: IggyTrouble.LEADER_UNKNOWN,
    ErrorCode.COORDINATOR_LOADING: IggyTrouble.LEADER_UNKNOWN,
    ErrorCode.NOT_ENOUGH_REPLICAS: IggyTrouble.TOO_FEW_IN_SYNC,
    ErrorCode.OVERLOADED: IggyTrouble.OVERLOADED,
    ErrorCode.LIMIT_REACHED: IggyTrouble.OVERLOADED,
    ErrorCode.GROUP_FULL: IggyTrouble.OVERLOADED,
    ErrorCode.TIMED_OUT: IggyTrouble.NOT_ACKNOWLEDGED,
    ErrorCode.STORAGE: IggyTrouble.DISK,
}


def refusal(error: IggyError) -> IggyRefusal:
    """The exception for a request that is refused with this error."""
    return IggyRefusal(error, error.name.lower().replace("_", " "))


def of_stored(outcome: StoredOutcome) -> IggyFault:
    """What a partition's outcome, which is not DONE, is for Iggy's clients."""
    return _STORED.get(outcome, IggyError.ERROR)


def of_code(code: ErrorCode) -> IggyFault:
    """What the error of a coordinator or of the controllers is for Iggy's clients."""
    return _CODES.get(code, IggyError.ERROR)
