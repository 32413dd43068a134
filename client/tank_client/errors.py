"""The errors of the client. Each message says what happened and what to do about it.

Every class derives from `TankError`. `retriable` says whether the same request can succeed later; the client
itself has repeated such a request until its deadline before it raises the error.
"""

from typing import ClassVar, Final


class TankError(Exception):
    """The base class of all errors that this package raises."""

    retriable: ClassVar[bool] = False


class InvalidArgument(TankError, ValueError):
    """The caller passed an invalid argument; nothing was sent."""


class UnsupportedByFormat(TankError):
    """The topic's stored format has no place for a part of the message: TANK's bundles hold neither headers
    nor null values. Nothing was stored."""

    def __init__(self, topic: str, what: str) -> None:
        super().__init__(
            f"topic {topic!r} stores TANK's bundles, which have no {what}: leave them out, or create a topic "
            "that keeps them with `tank topic create NAME --format kafka`"
        )
        self.topic = topic


class FormatChanged(TankError):
    """The topic was deleted and made anew with another stored format while messages were on their way.
    Nothing was stored."""


class Closed(TankError):
    """The client, producer or consumer was closed before or during the call."""


class ServerUnreachable(TankError):
    """None of the servers accepted a connection within the deadline."""

    retriable = True

    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(
            f"no broker answers at {servers} ({reason}): start one with `tank serve`, "
            "or name the right one with --servers HOST:PORT or TANK_SERVERS"
        )
        self.servers = servers
        self.reason = reason


class ConnectionLost(TankError):
    """The connection broke while a request waited for its answer; the request may have been carried out."""

    retriable = True


class RequestTimedOut(TankError):
    """No answer came within the deadline; the request may have been carried out."""

    retriable = True

    def __init__(self, operation: str, timeout_ms: int, reason: str = "") -> None:
        because = f"; the last reason: {reason}" if reason else ""
        super().__init__(
            f"{operation} was not answered within {timeout_ms} ms{because}: "
            "look at the broker with `tank status`, or allow more time"
        )
        self.operation = operation
        self.timeout_ms = timeout_ms


class ProtocolViolation(TankError):
    """The server sent bytes that are not an answer in TANK's protocol; the connection was closed."""


class FeatureMissing(TankError):
    """The broker does not have the feature. `server_version`: 0 for a broker of the old document, 400 for the
    C++ broker."""

    def __init__(self, feature: str, server_version: int, advice: str = "") -> None:
        what = {0: "a broker of the old TANK document (no Status)", 400: "the C++ broker"}.get(
            server_version, "a broker"
        )
        super().__init__(
            f"the server does not have {feature}: it is {what}, version {server_version}"
            f"{'; ' + advice if advice else '; use a newer broker (`tank serve`) for it'}"
        )
        self.feature = feature
        self.server_version = server_version


class UnknownTopic(TankError):
    """There is no such topic; the client does not create topics by itself."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}: create it with `tank topic create {topic}`")
        self.topic = topic


class UnknownPartition(TankError):
    """The topic has no such partition."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"topic {topic!r} has no partition {partition}: "
            f"`tank topic describe {topic}` lists those it has, "
            f"`tank topic alter {topic} --partitions N` adds some"
        )
        self.topic = topic
        self.partition = partition


class ViewBehind(TankError):
    """A broker does not know a topic, a partition or messages that other brokers know: it learns of them
    later than others, or it is cut off from the cluster.
    """

    retriable = True


class OutOfBounds(TankError):
    """The number asked for is not in the partition: expired, or beyond its end."""

    def __init__(
        self, topic: str, partition: int, number: int, first_available: int, high_water_mark: int
    ) -> None:
        super().__init__(
            f"{topic}/{partition} holds the numbers {first_available} to {high_water_mark}, not {number}: "
            "begin within them, or choose out_of_bounds='earliest' or 'latest'"
        )
        self.topic = topic
        self.partition = partition
        self.number = number
        self.first_available = first_available
        self.high_water_mark = high_water_mark


class NoLeader(TankError):
    """The partition has no leader at the moment, or the broker cannot reach it."""

    retriable = True


class OtherLeader(TankError):
    """Another broker leads the partition. The client asks that one by itself, and raises this error only when
    brokers name each other in a circle.
    """

    retriable = True


class NotEnoughReplicas(TankError):
    """Too few replicas are in sync; nothing was stored."""

    retriable = True


class NotAcknowledgedInTime(TankError):
    """The replicas did not confirm in time; the bundle may be stored."""

    retriable = True


class StorageFailure(TankError):
    """The broker could not read or write its disk."""

    retriable = True


class Overloaded(TankError):
    """The broker has too much to do and refused the request before it did anything."""

    retriable = True


class Damaged(TankError):
    """The broker's copy of the partition is damaged and takes no writes."""


class ReadOnly(TankError):
    """The broker takes no writes."""


class CorruptBundle(TankError):
    """The partition holds a bundle that cannot be read. All messages before it were handed out; each further
    read raises the error again.

    `number`, `last`: the numbers of the bundle's messages, as far as they were asked for; `last` is None when
    its head cannot be read either. Reading goes on after a `seek` to `last` + 1, or with `damaged="skip"`.
    """

    def __init__(
        self, topic: str, partition: int, number: int, reason: str, *, last: int | None = None
    ) -> None:
        if last is None:
            what, behind = f"the bundle at or behind number {number}", "behind it"
        else:
            what = f"the bundle with number{'s' if last > number else ''} {number}"
            what += f" to {last}" if last > number else ""
            behind = f"to {last + 1}"
        super().__init__(
            f"{topic}/{partition}: {what} cannot be read ({reason}); seek {behind} or read with "
            "damaged='skip' (`tank consume --skip-damaged`) to go on, and look at the broker's log with "
            "`tank log verify --contents`"
        )
        self.topic = topic
        self.partition = partition
        self.number = number
        self.last = last


class NoPosition(TankError):
    """The group has committed no position for a partition, and out_of_bounds='error' allows no other
    start."""


class SequenceNumberNotAboveEnd(TankError):
    """The explicit numbers of a bundle are not above the partition's end."""


class TopicExists(TankError):
    """A topic of that name is there already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} exists already: `tank topic describe {topic}` shows it")
        self.topic = topic


class RequestRefused(TankError):
    """The request itself is wrong: a name, a setting, a count. The message is the broker's."""


class MessageTooLarge(TankError):
    """A bundle is larger than the broker takes."""


class BundleRefused(TankError):
    """The broker found the bundle malformed."""


class OutOfOrderSequence(TankError):
    """The broker misses bundles that this producer sent before; nothing was stored."""


class StaleProducer(TankError):
    """Another producer took over this producer's id with a newer epoch, or the id was ended."""


class UnknownProducer(TankError):
    """The broker has forgotten this producer (silent for 7 days), so the broker cannot tell a repeated bundle
    from a new one.
    """


class UnknownGroup(TankError):
    """There is no such consumer group."""


class NotAssigned(TankError):
    """The group has not assigned the partition to this consumer, or has taken it back."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"{topic}/{partition} is not assigned to this consumer: its group shares the partitions out; "
            "`consumer.assignment` has those that this consumer reads"
        )
        self.topic = topic
        self.partition = partition


class PartitionsLost(TankError):
    """The group gave this consumer's partitions to others, because it was not heard in time or another
    program took its place. Nothing was committed; other members begin at the last committed positions. The
    next read joins the group again.

    `partitions`: (topic, partition) of those that were lost.
    """

    def __init__(self, group: str, partitions: tuple[tuple[str, int], ...]) -> None:
        names = ", ".join(f"{topic}/{partition}" for topic, partition in partitions[:8])
        more = f" and {len(partitions) - 8} more" if len(partitions) > 8 else ""
        super().__init__(
            f"group {group!r} gave this consumer's partitions to others ({names or 'all'}{more}): nothing "
            "was committed, and others read on from the last commit; read on to join again"
        )
        self.group = group
        self.partitions = partitions


class PollTooLate(TankError):
    """The program did not read for `max_poll_interval_ms`, and so the consumer left its group: others got its
    partitions, from the last committed positions on. The next read joins the group again.
    """

    retriable = True

    def __init__(self, interval_ms: int) -> None:
        super().__init__(
            f"no read for {interval_ms} ms: this consumer has left its group, and others read its partitions "
            "from the last commit on; read on to join again, read more often, or raise max_poll_interval_ms"
        )
        self.interval_ms = interval_ms


class InstanceTaken(TankError):
    """Another consumer of the group has the same `instance_id`, or one that ended without leaving had it, and
    its session is not over.
    """

    retriable = True


class InstanceFenced(TankError):
    """Another consumer of the same `instance_id` took this one's place: this one must stop."""


class UnknownMember(TankError):
    """The group doesn't count the member that asks; or it has members, and takes no commits from outside."""


class StaleMember(TankError):
    """The member's epoch is not the group's any more."""


class GroupNotEmpty(TankError):
    """The group has members: end them first."""


class GroupRefused(TankError):
    """The group doesn't take this member: it is full, its members are of another kind, or the broker knows no
    such assignor."""


class GroupBusy(TankError):
    """No broker coordinates the group at the moment, its coordinator still reads what is stored, or the group
    gathers its members."""

    retriable = True


class LevelTooLow(TankError):
    """The cluster's feature level doesn't allow the request yet: some processes have an older version."""


class BufferFull(TankError):
    """The producer's memory stayed full for `max_block_ms`: the broker is slower than the program."""

    retriable = True


class DeliveryTimedOut(TankError):
    """A bundle could not be delivered within `delivery_timeout_ms`. `maybe_stored`: whether it may be in
    the log."""

    def __init__(
        self, topic: str, partition: int, timeout_ms: int, *, maybe_stored: bool, reason: str
    ) -> None:
        super().__init__(
            f"a bundle for {topic}/{partition} was not acknowledged within {timeout_ms} ms "
            f"({'it may be stored' if maybe_stored else 'it is not stored'}; the last reason: {reason})"
        )
        self.topic = topic
        self.partition = partition
        self.maybe_stored = maybe_stored


class OutcomeUnknown(TankError):
    """A bundle was sent and no answer came; it may be stored, and sending it again could store it twice."""


class WrongProcess(TankError):
    """A synchronous client is used in another process than the one that made it (after a fork)."""


MAYBE_CARRIED_OUT: Final = (ConnectionLost, ProtocolViolation, NotAcknowledgedInTime, StorageFailure)
"""After these errors the request may have been carried out, wholly or in part."""
