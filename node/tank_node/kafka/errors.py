"""Kafka's error codes, and the refusals of brokers, coordinators and controllers as such."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Protocol

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.metrics import OK
from tank_node.partition.refusal import Refusal
from tank_protos.error_codes import ErrorCode
from tank_protos.kafka.errors import RecordsFault


class KafkaError(IntEnum):
    """The error codes of Kafka's protocol that this broker answers with."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    SECURITY_DISABLED = 54
    STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    RESOURCE_NOT_FOUND = 91
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_REGULAR_EXPRESSION = 128


_REFUSALS: Final = {
    Refusal.NONE: KafkaError.NONE,
    Refusal.UNKNOWN_TOPIC: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    Refusal.UNKNOWN_PARTITION: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    Refusal.OTHER_LEADER: KafkaError.NOT_LEADER_OR_FOLLOWER,
    Refusal.NO_LEADER: KafkaError.NOT_LEADER_OR_FOLLOWER,
    Refusal.NOT_ENOUGH_REPLICAS: KafkaError.NOT_ENOUGH_REPLICAS,
    Refusal.NOT_ACKNOWLEDGED_IN_TIME: KafkaError.REQUEST_TIMED_OUT,
    Refusal.STORAGE: KafkaError.STORAGE_ERROR,
    Refusal.DAMAGED: KafkaError.STORAGE_ERROR,
    Refusal.INVALID_BATCH: KafkaError.INVALID_RECORD,
    Refusal.TOO_LARGE: KafkaError.MESSAGE_TOO_LARGE,
    Refusal.NUMBER_TAKEN: KafkaError.INVALID_RECORD,
    Refusal.OUT_OF_ORDER_SEQUENCE: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Refusal.STALE_PRODUCER_EPOCH: KafkaError.INVALID_PRODUCER_EPOCH,
    Refusal.UNKNOWN_PRODUCER: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Refusal.TOO_MANY_PRODUCERS: KafkaError.POLICY_VIOLATION,
    Refusal.FORGOTTEN_PRODUCER: KafkaError.UNKNOWN_PRODUCER_ID,
    Refusal.INTERNAL_TOPIC: KafkaError.INVALID_TOPIC,
    Refusal.OTHER_FORMAT: KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,  # no request of Kafka's gets it
}

_CONTROLLERS: Final = {
    ErrorCode.NONE: KafkaError.NONE,
    ErrorCode.UNKNOWN_TOPIC: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_PARTITION: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OTHER_LEADER: KafkaError.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NO_LEADER: KafkaError.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.TOPIC_EXISTS: KafkaError.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_NAME: KafkaError.INVALID_TOPIC,
    ErrorCode.INVALID_PARTITIONS: KafkaError.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR: KafkaError.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_SETTING: KafkaError.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST: KafkaError.INVALID_REQUEST,
    ErrorCode.TIMED_OUT: KafkaError.REQUEST_TIMED_OUT,
    ErrorCode.OVERLOADED: KafkaError.REQUEST_TIMED_OUT,
    ErrorCode.LIMIT_REACHED: KafkaError.POLICY_VIOLATION,
    ErrorCode.STORAGE: KafkaError.STORAGE_ERROR,
    ErrorCode.UNKNOWN_BROKER: KafkaError.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INELIGIBLE_REPLICA: KafkaError.INVALID_REPLICA_ASSIGNMENT,
}

_GROUPS: Final = {
    GroupError.NONE: KafkaError.NONE,
    GroupError.NOT_AVAILABLE: KafkaError.COORDINATOR_NOT_AVAILABLE,
    GroupError.NOT_COORDINATOR: KafkaError.NOT_COORDINATOR,
    GroupError.LOADING: KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    GroupError.INVALID_GROUP_ID: KafkaError.INVALID_GROUP_ID,
    GroupError.UNKNOWN_MEMBER: KafkaError.UNKNOWN_MEMBER_ID,
    GroupError.ILLEGAL_GENERATION: KafkaError.ILLEGAL_GENERATION,
    GroupError.REBALANCING: KafkaError.REBALANCE_IN_PROGRESS,
    GroupError.INCONSISTENT_PROTOCOL: KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    GroupError.INVALID_SESSION_TIMEOUT: KafkaError.INVALID_SESSION_TIMEOUT,
    GroupError.MEMBER_ID_REQUIRED: KafkaError.MEMBER_ID_REQUIRED,
    GroupError.FENCED_INSTANCE: KafkaError.FENCED_INSTANCE_ID,
    GroupError.GROUP_FULL: KafkaError.GROUP_MAX_SIZE_REACHED,
    GroupError.NOT_EMPTY: KafkaError.NON_EMPTY_GROUP,
    GroupError.UNKNOWN_GROUP: KafkaError.GROUP_ID_NOT_FOUND,
    GroupError.SUBSCRIBED: KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    GroupError.METADATA_TOO_LARGE: KafkaError.OFFSET_METADATA_TOO_LARGE,
    GroupError.TOO_LARGE: KafkaError.INVALID_COMMIT_OFFSET_SIZE,
    GroupError.UNKNOWN_TOPIC: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    GroupError.INVALID_REQUEST: KafkaError.INVALID_REQUEST,
    GroupError.UNRELEASED_INSTANCE_ID: KafkaError.UNRELEASED_INSTANCE_ID,
    GroupError.FENCED_MEMBER_EPOCH: KafkaError.FENCED_MEMBER_EPOCH,
    GroupError.STALE_MEMBER_EPOCH: KafkaError.STALE_MEMBER_EPOCH,
    GroupError.UNSUPPORTED_ASSIGNOR: KafkaError.UNSUPPORTED_ASSIGNOR,
    GroupError.INVALID_REGEX: KafkaError.INVALID_REGULAR_EXPRESSION,
}


def of_refusal(refusal: Refusal) -> KafkaError:
    """The error for a partition's refusal, in the newest version of each request."""
    return _REFUSALS[refusal]


def of_group(error: GroupError) -> KafkaError:
    """The error for a refusal of a group's coordinator."""
    return _GROUPS[error]


def of_controllers(code: int) -> KafkaError:
    """The error for an answer of the controllers. UNKNOWN_SERVER_ERROR for a code that no client of Kafka's
    could cause."""
    return _CONTROLLERS.get(ErrorCode(code), KafkaError.UNKNOWN_SERVER_ERROR)


def of_fault(fault: RecordsFault) -> KafkaError:
    """The error for records that a codec refused."""
    return KafkaError(fault)


class HasError(Protocol):
    """A part of an answer, with an error code of its own."""

    error_code: int


def first_error(results: Iterable[HasError]) -> int:
    """The first error code of these that is one; 0: there is none."""
    return next((result.error_code for result in results if result.error_code), 0)


def outcome_of(error: int) -> str:
    """The name in the metrics for an answer with this error code."""
    return KafkaError(error).name.lower() if error else OK
