"""The reasons why a group's coordinator refuses a request. Each protocol has a table of its own answers for
them."""

from enum import IntEnum


class GroupError(IntEnum):
    """A reason; only NONE is false."""

    NONE = 0
    NOT_AVAILABLE = 1
    """No broker coordinates the group now, or the change was not stored in time. The client tries again."""
    NOT_COORDINATOR = 2
    """Another broker coordinates the group. The client looks for it."""
    LOADING = 3
    """This broker reads the group's partition, and can't answer yet. The client tries again."""
    INVALID_GROUP_ID = 4
    """The group's name is empty where it may not be."""
    UNKNOWN_MEMBER = 5
    """The group has no such member: the client joins anew, without a member id."""
    ILLEGAL_GENERATION = 6
    """The member's generation is not the group's."""
    REBALANCING = 7
    """The group gathers its members: the client joins again, with its member id."""
    INCONSISTENT_PROTOCOL = 8
    """The member's protocol type, or all its protocols, are unknown to another member."""
    INVALID_SESSION_TIMEOUT = 9
    MEMBER_ID_REQUIRED = 10
    """The answer names a member id: the client joins again with it."""
    FENCED_INSTANCE = 11
    """Another member took the place of this static member."""
    GROUP_FULL = 12
    NOT_EMPTY = 13
    """The group has members, and the request is for groups without."""
    UNKNOWN_GROUP = 14
    SUBSCRIBED = 15
    """A member of the group reads the topic whose positions were to be deleted."""
    METADATA_TOO_LARGE = 16
    """The text beside a committed offset is longer than `GroupSettings.offset_metadata_length`."""
    TOO_LARGE = 17
    """The change is larger than the group's partition takes in one batch."""
    UNKNOWN_TOPIC = 18
    """There is no such topic or partition to commit an offset of."""
    INVALID_REQUEST = 19
    UNRELEASED_INSTANCE_ID = 20
    """Another member lives under the instance id that a static member wants to join with."""
    FENCED_MEMBER_EPOCH = 21
    """The member's epoch is not the coordinator's: the member gives up what it has, and joins again."""
    STALE_MEMBER_EPOCH = 22
    """The member's epoch is not the coordinator's, in a request about offsets: the client sends a heartbeat,
    and tries again."""
    UNSUPPORTED_ASSIGNOR = 23
    """The coordinator has no assignor of this name."""
    INVALID_REGEX = 24
    """The regular expression of topics can't be read, or is one that the coordinator refuses."""
