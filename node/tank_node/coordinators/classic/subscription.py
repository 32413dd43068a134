"""What consumers of the classic protocol say in their metadata, and get as their assignment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tank_node.coordinators.classic.member import Member
from tank_protos.generated.kafka.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
    TopicPartitionCollection,
)
from tank_protos.generated.kafka.consumer_protocol_subscription import ConsumerProtocolSubscription
from tank_protos.wire.errors import WireError

CONSUMER = "consumer"
"""The protocol type of groups whose members are consumers; others say nothing of topics."""
_VERSION_BYTES = 2


@dataclass(slots=True, frozen=True)
class ConsumerSubscription:
    """What one consumer says."""

    topics: frozenset[str]
    owned: Mapping[str, tuple[int, ...]]
    """The partitions that it has; consumers that give up everything before they join have none."""
    rack_id: str | None


def subscribed_topics(members: Iterable[Member], protocol: str | None) -> frozenset[str] | None:
    """The topics that the members named in this protocol; None where one said what can't be parsed."""
    found: set[str] = set()
    for member in members:
        topics = topics_in(member.metadata(protocol))
        if topics is None:
            return None
        found |= topics
    return frozenset(found)


def topics_in(metadata: bytes) -> frozenset[str] | None:
    """The topics of one consumer's metadata; None when it can't be parsed."""
    subscription = read_subscription(metadata)
    return None if subscription is None else subscription.topics


def read_subscription(metadata: bytes) -> ConsumerSubscription | None:
    """What a consumer says in its metadata; None when it can't be parsed.

    Its version stands before it. Later versions only add fields at the end, so what follows the fields of the
    highest known version is not looked at.
    """
    version = _version_of(metadata)
    if version is None:
        return None
    try:
        known = min(version, ConsumerProtocolSubscription.VERSIONS[1])
        said, _ = ConsumerProtocolSubscription.read(memoryview(metadata)[_VERSION_BYTES:], 0, known)
        owned = {each.topic: tuple(each.partitions) for each in said.owned_partitions}
        return ConsumerSubscription(frozenset(said.topics), owned, said.rack_id)
    except (WireError, UnicodeDecodeError):
        return None


def read_assignment(data: bytes) -> Mapping[str, tuple[int, ...]] | None:
    """The partitions in a consumer's assignment, by topic; None when it can't be parsed. Empty for no
    bytes."""
    if not data:
        return {}
    version = _version_of(data)
    if version is None:
        return None
    try:
        known = min(version, ConsumerProtocolAssignment.VERSIONS[1])
        said, _ = ConsumerProtocolAssignment.read(memoryview(data)[_VERSION_BYTES:], 0, known)
        return {each.topic: tuple(each.partitions) for each in said.assigned_partitions}
    except (WireError, UnicodeDecodeError):
        return None


def assignment_bytes(metadata: bytes, partitions: Mapping[str, tuple[int, ...]]) -> bytes:
    """An assignment as a consumer with this metadata understands it: in the version that it speaks."""
    version = min(_version_of(metadata) or 0, ConsumerProtocolAssignment.VERSIONS[1])
    topics = TopicPartitionCollection(
        TopicPartition(name, list(numbers)) for name, numbers in partitions.items()
    )
    said = ConsumerProtocolAssignment(topics).encode(version)
    return b"".join((version.to_bytes(_VERSION_BYTES, "big"), *said))


def _version_of(data: bytes) -> int | None:
    """The version at the beginning; None for data without one."""
    if len(data) < _VERSION_BYTES:
        return None
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return None if version < 0 else version
