"""Iggy's error codes by name, and what they are in each era.

`IggyError` has the numbers, as newer servers use them; `IggyTrouble` what happens to a request here, for
which eras have different numbers. `code_of` is the one place that knows the differences.
"""

from enum import Enum, IntEnum, auto
from typing import ClassVar, Final

from tank_protos.iggy.eras import SEED, Era, Framing
from tank_protos.wire.errors import WireError


class IggyError(IntEnum):
    """What is wrong with a request."""

    ERROR = 1
    INVALID_CONFIGURATION = 2
    INVALID_COMMAND = 3
    INVALID_FORMAT = 4
    FEATURE_UNAVAILABLE = 5
    INVALID_IDENTIFIER = 6
    INVALID_VERSION = 7
    DISCONNECTED = 8
    RESOURCE_NOT_FOUND = 20
    STALE_CLIENT = 30
    UNAUTHENTICATED = 40
    UNAUTHORIZED = 41
    INVALID_CREDENTIALS = 42
    INVALID_USERNAME = 43
    INVALID_PASSWORD = 44
    INVALID_USER_STATUS = 45
    USER_ALREADY_EXISTS = 46
    USER_INACTIVE = 47
    CANNOT_DELETE_USER = 48
    CANNOT_CHANGE_PERMISSIONS = 49
    INVALID_TOKEN_NAME = 50
    TOKEN_ALREADY_EXISTS = 51
    TOKENS_LIMIT_REACHED = 52
    INVALID_TOKEN = 53
    TOKEN_EXPIRED = 54
    USERS_LIMIT_REACHED = 55
    TRANSIENT_NOT_COMMITTED = 57
    """The client sends the same request again on the same connection."""
    TRANSIENT_NOT_ACCEPTED = 58
    """The client sends the request again, and looks for the leader then."""
    REQUEST_ALREADY_APPLIED = 59
    CLIENT_NOT_FOUND = 100
    INVALID_CLIENT_ID = 101
    STREAM_ID_NOT_FOUND = 1009
    STREAM_NAME_NOT_FOUND = 1010
    STREAM_ID_ALREADY_EXISTS = 1011
    STREAM_NAME_ALREADY_EXISTS = 1012
    INVALID_STREAM_NAME = 1013
    INVALID_STREAM_ID = 1014
    INVALID_TOPIC_SIZE = 1019
    TOO_MANY_STREAMS = 1020
    TOPIC_ID_NOT_FOUND = 2010
    TOPIC_NAME_NOT_FOUND = 2011
    TOPIC_ID_ALREADY_EXISTS = 2012
    TOPIC_NAME_ALREADY_EXISTS = 2013
    INVALID_TOPIC_NAME = 2014
    TOO_MANY_PARTITIONS = 2015
    INVALID_TOPIC_ID = 2016
    INVALID_REPLICATION_FACTOR = 2018
    INVALID_PARTITIONS_COUNT = 2019
    TOO_MANY_TOPICS = 2021
    PARTITION_NOT_FOUND = 3007
    NO_PARTITIONS = 3008
    TOPIC_FULL = 3009
    CONSUMER_OFFSET_NOT_FOUND = 3021
    SEGMENT_NOT_FOUND = 4000
    INVALID_MESSAGES_COUNT = 4009
    CANNOT_APPEND_MESSAGE = 4010
    TOO_BIG_HEADERS = 4017
    INVALID_HEADER_KEY = 4018
    INVALID_HEADER_VALUE = 4019
    TOO_BIG_MESSAGE_PAYLOAD = 4022
    TOO_MANY_MESSAGES = 4023
    EMPTY_MESSAGE_PAYLOAD = 4024
    INVALID_MESSAGE_PAYLOAD_LENGTH = 4025
    INVALID_MESSAGE_CHECKSUM = 4027
    INVALID_KEY_VALUE_LENGTH = 4028
    INVALID_SEGMENTS_COUNT = 4030
    NON_ZERO_OFFSET = 4031
    NON_ZERO_TIMESTAMP = 4032
    MISSING_INDEX = 4033
    INVALID_INDEXES_BYTES = 4034
    INVALID_INDEXES_COUNT = 4035
    INVALID_MESSAGES_BYTES = 4036
    TOO_SMALL_MESSAGE = 4037
    INVALID_TIMESTAMP_DELTA = 4038
    INVALID_BATCH_CHECKSUM = 4039
    INVALID_HEADER_KIND = 4040
    UNKNOWN_OPTION = 4041
    INVALID_OPTION = 4042
    INVALID_OFFSET = 4100
    INVALID_RESERVED_FIELD = 4101
    CONSUMER_GROUP_ID_NOT_FOUND = 5000
    CONSUMER_GROUP_ID_ALREADY_EXISTS = 5001
    INVALID_CONSUMER_GROUP_ID = 5002
    CONSUMER_GROUP_NAME_NOT_FOUND = 5003
    CONSUMER_GROUP_NAME_ALREADY_EXISTS = 5004
    INVALID_CONSUMER_GROUP_NAME = 5005
    CONSUMER_GROUP_MEMBER_NOT_FOUND = 5006
    PARTITION_NOT_OWNED = 5009
    CANNOT_CREATE_SNAPSHOT = 9000
    CANNOT_WRITE_FILE = 10003
    ALREADY_AUTHENTICATED = 14000
    INVALID_SESSION = 14001
    INCOMPATIBLE_PROTOCOL = 14003


class IggyTrouble(Enum):
    """What happened to a request for a reason of the cluster's, not of the request's."""

    LEADER_UNKNOWN = auto()
    """The leader is unknown or moving, or this broker is not registered. Nothing was stored."""
    NO_USERS = auto()
    """The cluster has no users yet, so that no login can be judged."""
    TOO_FEW_IN_SYNC = auto()
    """Nothing was stored, because too few replicas are in sync."""
    NOT_ACKNOWLEDGED = auto()
    """Too few replicas have confirmed in time; it may be stored."""
    DISK = auto()
    """A disk is full, or a log damaged."""
    MALFORMED = auto()
    """The bytes follow no layout of the era."""
    OVERLOADED = auto()
    """A limit, or the controllers, refuse more at the moment."""
    UNKNOWN_COMMAND = auto()
    """The era has no command of this code."""


class IggyRefusal(WireError):
    """A request that was understood, and is refused with an error of Iggy's."""

    reason: ClassVar[str] = "iggy_refused"

    def __init__(self, error: IggyError, sentence: str, index: int | None = None) -> None:
        super().__init__(sentence)
        self.error = error
        self.index = index
        """The message's place in its send, from 0; None: the request as a whole is refused."""


_SEED: Final = {
    IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS: IggyError.CONSUMER_GROUP_ID_ALREADY_EXISTS,
    IggyError.CONSUMER_GROUP_NAME_NOT_FOUND: IggyError.CONSUMER_GROUP_ID_NOT_FOUND,
    IggyError.CONSUMER_GROUP_MEMBER_NOT_FOUND: IggyError.INVALID_CONSUMER_GROUP_ID,
}
"""The seed's groups have no names, and one error less."""

_TROUBLES: Final = {
    IggyTrouble.LEADER_UNKNOWN: (IggyError.ERROR, IggyError.DISCONNECTED, IggyError.TRANSIENT_NOT_ACCEPTED),
    IggyTrouble.NO_USERS: (IggyError.ERROR, IggyError.DISCONNECTED, IggyError.TRANSIENT_NOT_ACCEPTED),
    IggyTrouble.TOO_FEW_IN_SYNC: (IggyError.ERROR, IggyError.DISCONNECTED, IggyError.TRANSIENT_NOT_COMMITTED),
    IggyTrouble.NOT_ACKNOWLEDGED: (IggyError.ERROR, IggyError.DISCONNECTED, IggyError.ERROR),
    IggyTrouble.DISK: (IggyError.ERROR, IggyError.CANNOT_WRITE_FILE, IggyError.ERROR),
    IggyTrouble.MALFORMED: (IggyError.INVALID_COMMAND, IggyError.INVALID_COMMAND, IggyError.INVALID_FORMAT),
    IggyTrouble.OVERLOADED: (
        IggyError.ERROR,
        IggyError.FEATURE_UNAVAILABLE,
        IggyError.TRANSIENT_NOT_ACCEPTED,
    ),
    IggyTrouble.UNKNOWN_COMMAND: (
        IggyError.INVALID_COMMAND,
        IggyError.INVALID_COMMAND,
        IggyError.INVALID_COMMAND,
    ),
}
"""In S and A, in B, and in VSR."""


def code_of(fault: IggyError | IggyTrouble, era: Era) -> IggyError:
    """Returns the code by which clients of this era know a fault."""
    if isinstance(fault, IggyTrouble):
        old, classic, vsr = _TROUBLES[fault]
        if era.framing is Framing.VSR:
            return vsr
        return old if era.is_old else classic
    return _SEED.get(fault, fault) if era is SEED else fault


def closes(fault: IggyError | IggyTrouble, era: Era) -> bool:
    """Whether the connection ends at this fault: without an answer in S and A (`MALFORMED`) and in VSR
    (`NOT_ACKNOWLEDGED`), behind the answer in B, and in S for a command that it doesn't have."""
    if fault is IggyTrouble.NOT_ACKNOWLEDGED:
        return not era.is_old
    if fault is IggyTrouble.MALFORMED:
        return era.is_old
    return fault is IggyTrouble.UNKNOWN_COMMAND and era is SEED
