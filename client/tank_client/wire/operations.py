"""Requests and the reading of their answers, for each kind of broker; pure.

A `ClientOperation` is one call as data: how to make the request for the connected broker (FeatureMissing when
it lacks the feature), and how to read the answer (a value, or a TankError; `Redirected` when another broker
must be asked).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tank_client import errors
from tank_client.model import Address, Features, Route
from tank_client.wire.connection import OLD_DOCUMENT, OUR_OLDEST_VERSION, TankAnswer, TankRequest
from tank_protos.error_codes import ErrorCode

T = TypeVar("T")

_OLD_CLIENT = 0
_CPP_CLIENT = 2
_OUR_CLIENT = 3


class Redirected(errors.OtherLeader):
    """Another broker leads; `leader` None: the answer does not say which."""

    def __init__(self, leader: Address | None) -> None:
        super().__init__(
            f"another broker leads the partition: {leader if leader else 'it is not known which'}"
        )
        self.leader = leader


@dataclass(slots=True, frozen=True)
class ClientOperation(Generic[T]):
    """One call. `repeatable`: the request does no harm when it is carried out twice, so it is sent again when
    its outcome is unknown.
    """

    name: str
    build: Callable[[Features], TankRequest]
    answer: Callable[[Features], type[TankAnswer]]
    read: Callable[[Any, Features], T]
    route: Route | None = None
    repeatable: bool = True
    wait_ms: int = 0


def client_version(server: Features) -> int:
    """The version of TANK's own messages to use with this broker."""
    if server.version >= OUR_OLDEST_VERSION:
        return _OUR_CLIENT
    return _OLD_CLIENT if server.version == OLD_DOCUMENT else _CPP_CLIENT


def has(server: Features, message: str) -> bool:
    """Whether the broker knows one of Tank Cluster's own messages (its definition's name without
    `TankRequest`, in snake_case).
    """
    return server.version >= OUR_OLDEST_VERSION and message in server.features


def need(server: Features, message: str, feature: str, advice: str = "") -> None:
    """Raises FeatureMissing unless the broker knows the message. `feature`: its name in the error."""
    if not has(server, message):
        raise errors.FeatureMissing(feature, server.version, advice)


def need_newer_than_old_document(server: Features, feature: str, advice: str = "") -> None:
    """Raises FeatureMissing for a broker of the old document, which knows only ids 1 to 5."""
    if server.version == OLD_DOCUMENT:
        raise errors.FeatureMissing(feature, server.version, advice)


def address_of(ipv4: memoryview | bytes, port: int) -> Address | None:
    """Returns a leader's address as TANK sends it; None for zeros: the broker is stopping, and the next
    leader is not known."""
    raw = bytes(ipv4)
    if not port or not any(raw):
        return None
    return Address(".".join(map(str, raw)), port)


def error_of(code: int, topic: str, partition: int, message: str = "") -> errors.TankError | None:
    """The error for an error code of Tank Cluster's own answers or of ProduceResponse; None for 0. `message`:
    the broker's own words.
    """
    if code == ErrorCode.NONE:
        return None
    if code == ErrorCode.UNKNOWN_TOPIC:
        return errors.UnknownTopic(topic)
    if code == ErrorCode.UNKNOWN_PARTITION:
        return errors.UnknownPartition(topic, partition)
    if code == ErrorCode.TOPIC_EXISTS:
        return errors.TopicExists(topic)
    if code == ErrorCode.OTHER_LEADER:
        return Redirected(None)
    place = f"{topic}/{partition}" if partition >= 0 else (repr(topic) if topic else "the request")
    kind, text = _ERRORS.get(
        code, (errors.RequestRefused, "{place}: the broker answers with error {code:#04x}")
    )
    return kind(message or text.format(place=place, code=code))


_ERRORS: dict[int, tuple[type[errors.TankError], str]] = {
    ErrorCode.STORAGE: (
        errors.StorageFailure,
        "{place}: the broker cannot read or write its disk; look at its log and its free space",
    ),
    ErrorCode.NOT_ACKNOWLEDGED_IN_TIME: (
        errors.NotAcknowledgedInTime,
        "{place}: the replicas did not confirm in time; the bundle may be stored",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: (
        errors.NotEnoughReplicas,
        "{place}: fewer replicas are in sync than asked for; nothing was stored",
    ),
    ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END: (
        errors.SequenceNumberNotAboveEnd,
        "{place}: the bundle's own numbers are not above the partition's end",
    ),
    ErrorCode.INVALID_BUNDLE: (errors.BundleRefused, "{place}: the broker finds the bundle malformed"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE: (
        errors.OutOfOrderSequence,
        "{place}: the broker misses bundles that this producer sent before; nothing was stored",
    ),
    ErrorCode.STALE_PRODUCER_EPOCH: (
        errors.StaleProducer,
        "{place}: a newer producer has taken over this producer's id; this one must stop",
    ),
    ErrorCode.UNKNOWN_PRODUCER: (
        errors.UnknownProducer,
        "{place}: the broker has forgotten this producer; ask for a new producer id",
    ),
    ErrorCode.TOO_LARGE: (
        errors.MessageTooLarge,
        "{place}: the bundle is larger than the broker takes; send smaller messages or a smaller batch_bytes",
    ),
    ErrorCode.INVALID_REQUEST: (errors.RequestRefused, "{place}: the broker finds the request wrong"),
    ErrorCode.INVALID_NAME: (
        errors.RequestRefused,
        "{place}: a name has 1 to 249 of A-Z a-z 0-9 . _ - (1 to 64, and no dot, while brokers of an older "
        "version are there)",
    ),
    ErrorCode.INVALID_SETTING: (errors.RequestRefused, "{place}: a setting is wrong"),
    ErrorCode.INVALID_PARTITIONS: (errors.RequestRefused, "{place}: the number of partitions is wrong"),
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        errors.RequestRefused,
        "{place}: the replication factor is wrong: at most as many as there are brokers",
    ),
    ErrorCode.UNKNOWN_GROUP: (errors.UnknownGroup, "there is no such group"),
    ErrorCode.UNKNOWN_MEMBER: (
        errors.UnknownMember,
        "the group doesn't count this member, or takes no commits from outside while it has members",
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: (errors.UnknownMember, "the group went on without this member"),
    ErrorCode.STALE_MEMBER_EPOCH: (errors.StaleMember, "the member has another epoch by now"),
    ErrorCode.UNRELEASED_INSTANCE: (
        errors.InstanceTaken,
        "another member has this instance id: end that one first, or wait until its session is over",
    ),
    ErrorCode.FENCED_INSTANCE: (
        errors.InstanceFenced,
        "another member of the same instance id took this one's place: give each program its own instance_id",
    ),
    ErrorCode.GROUP_NOT_EMPTY: (errors.GroupNotEmpty, "the group has members: end them first"),
    ErrorCode.SUBSCRIBED: (
        errors.GroupNotEmpty,
        "{place}: a member of the group reads the topic: end it first",
    ),
    ErrorCode.GROUP_FULL: (errors.GroupRefused, "the group has as many members as it may"),
    ErrorCode.OTHER_GROUP_TYPE: (
        errors.GroupRefused,
        "the group has members of another kind: use another group, or end them first",
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: (
        errors.GroupRefused,
        "the broker knows no such way of assigning partitions: leave `assignor` out",
    ),
    ErrorCode.REBALANCING: (errors.GroupBusy, "the group gathers its members"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (errors.GroupBusy, "no broker coordinates the group now"),
    ErrorCode.COORDINATOR_LOADING: (errors.GroupBusy, "the group's coordinator reads what is stored"),
    ErrorCode.LEVEL_TOO_LOW: (
        errors.LevelTooLow,
        "the cluster's feature level doesn't allow this yet: upgrade all brokers and controllers",
    ),
    ErrorCode.TIMED_OUT: (errors.Overloaded, "{place}: the broker did not finish the request in time"),
    ErrorCode.OVERLOADED: (errors.Overloaded, "{place}: the broker has too much to do"),
    ErrorCode.TOO_MANY_PRODUCERS: (
        errors.Overloaded,
        "{place}: the partition remembers as many producers as it may, and all of them wrote within the last "
        "minute; have fewer producers write to it, or keep each for longer",
    ),
    ErrorCode.OTHER_FORMAT: (
        errors.FormatChanged,
        "{place}: the topic was made anew, and stores TANK's bundles now: send the messages again",
    ),
    ErrorCode.LIMIT_REACHED: (errors.RequestRefused, "{place}: the cluster's limit is reached"),
    ErrorCode.DAMAGED: (errors.Damaged, "{place}: the broker's copy is damaged; `tank status` says more"),
    ErrorCode.NO_LEADER: (errors.NoLeader, "{place}: the partition has no leader now"),
    ErrorCode.READ_ONLY: (errors.ReadOnly, "{place}: the broker takes no writes"),
}
