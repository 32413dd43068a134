"""The error codes in our own messages about groups, and their sentences for people, for a coordinator's
refusals."""

from typing import Final

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.error_codes import ErrorCode

_CODES: Final = {
    GroupError.NONE: ErrorCode.NONE,
    GroupError.NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    GroupError.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    GroupError.LOADING: ErrorCode.COORDINATOR_LOADING,
    GroupError.INVALID_GROUP_ID: ErrorCode.INVALID_NAME,
    GroupError.UNKNOWN_MEMBER: ErrorCode.UNKNOWN_MEMBER,
    GroupError.ILLEGAL_GENERATION: ErrorCode.STALE_MEMBER_EPOCH,
    GroupError.REBALANCING: ErrorCode.REBALANCING,
    GroupError.INCONSISTENT_PROTOCOL: ErrorCode.OTHER_GROUP_TYPE,
    GroupError.INVALID_SESSION_TIMEOUT: ErrorCode.INVALID_REQUEST,
    GroupError.MEMBER_ID_REQUIRED: ErrorCode.UNKNOWN_MEMBER,
    GroupError.FENCED_INSTANCE: ErrorCode.FENCED_INSTANCE,
    GroupError.GROUP_FULL: ErrorCode.GROUP_FULL,
    GroupError.NOT_EMPTY: ErrorCode.GROUP_NOT_EMPTY,
    GroupError.UNKNOWN_GROUP: ErrorCode.UNKNOWN_GROUP,
    GroupError.SUBSCRIBED: ErrorCode.SUBSCRIBED,
    GroupError.METADATA_TOO_LARGE: ErrorCode.TOO_LARGE,
    GroupError.TOO_LARGE: ErrorCode.TOO_LARGE,
    GroupError.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC,
    GroupError.INVALID_REQUEST: ErrorCode.INVALID_REQUEST,
    GroupError.UNRELEASED_INSTANCE_ID: ErrorCode.UNRELEASED_INSTANCE,
    GroupError.FENCED_MEMBER_EPOCH: ErrorCode.FENCED_MEMBER_EPOCH,
    GroupError.STALE_MEMBER_EPOCH: ErrorCode.STALE_MEMBER_EPOCH,
    GroupError.UNSUPPORTED_ASSIGNOR: ErrorCode.UNSUPPORTED_ASSIGNOR,
    GroupError.INVALID_REGEX: ErrorCode.INVALID_REQUEST,
}
_TELLING: Final = {
    GroupError.NOT_AVAILABLE: "no broker coordinates the group now, or it could not be reached or store the "
    "change in time: try again",
    GroupError.NOT_COORDINATOR: "another broker coordinates the group now: try again",
    GroupError.LOADING: "the group's coordinator reads what is stored: try again",
    GroupError.INVALID_GROUP_ID: "a group's name may not be empty",
    GroupError.UNKNOWN_MEMBER: "the group has no such member: join again; without a member, positions can be "
    "committed only while the group has none",
    GroupError.ILLEGAL_GENERATION: "the group has another epoch by now",
    GroupError.REBALANCING: "the group gathers its members: try again",
    GroupError.INCONSISTENT_PROTOCOL: "the group has members of another kind: use another group, or end them",
    GroupError.FENCED_INSTANCE: "another member took the place of this static member",
    GroupError.GROUP_FULL: "the group has as many members as it may",
    GroupError.NOT_EMPTY: "the group has members: end them first",
    GroupError.UNKNOWN_GROUP: "there is no such group",
    GroupError.SUBSCRIBED: "a member of the group reads the topic",
    GroupError.METADATA_TOO_LARGE: "the text beside a position is too long",
    GroupError.TOO_LARGE: "the change is too large: send it in parts",
    GroupError.UNRELEASED_INSTANCE_ID: "another member has this instance id: end that one first",
    GroupError.FENCED_MEMBER_EPOCH: "the group went on without the member: give all partitions up, and join",
    GroupError.STALE_MEMBER_EPOCH: "the member has another epoch by now: send a heartbeat first",
    GroupError.UNSUPPORTED_ASSIGNOR: "the broker knows no such way of assigning partitions",
}
OF_ALL: Final = frozenset(GroupError) - {
    GroupError.NONE,
    GroupError.METADATA_TOO_LARGE,
    GroupError.UNKNOWN_TOPIC,
    GroupError.INVALID_REQUEST,
    GroupError.SUBSCRIBED,
}
"""The errors that concern a whole request; others are those of single positions."""


def error_code(error: GroupError) -> ErrorCode:
    """The error byte for a refusal."""
    return _CODES[error]


def telling(error: GroupError) -> str:
    """What to do about a refusal, in one sentence; empty for NONE."""
    return _TELLING.get(error, "" if not error else error.name.lower().replace("_", " "))


_ERRORS: Final[dict[int, GroupError]] = {code: error for error, code in reversed(_CODES.items())}


def group_error(code: int) -> GroupError:
    """The refusal that another broker's error byte stands for; NOT_AVAILABLE for one of its other reasons,
    after which a client tries again."""
    if code == ErrorCode.UNKNOWN_PARTITION:
        return GroupError.UNKNOWN_TOPIC
    return _ERRORS.get(code, GroupError.NOT_AVAILABLE)
