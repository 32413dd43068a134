"""How the leader of a simulated group shares partitions, and how members say in bytes what they read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from struct import Struct

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_protos.generated.kafka import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tank_protos.generated.kafka import consumer_protocol_assignment as assignments
from tank_protos.generated.kafka import consumer_protocol_subscription as subscriptions

EAGER = ("range", "roundrobin")
"""Members of these give up all that they read before they join again."""
COOPERATIVE = ("cooperative-sticky",)
"""Members of this one keep what they read, and give up only what another member is to have."""

_VERSION = Struct(">h")
_OWNED_SINCE = 1


def subscription(topics: Iterable[str], owned: Collection[TopicPartition]) -> bytes:
    """What a member says: the topics that it reads, and what it reads of them."""
    said = ConsumerProtocolSubscription(sorted(topics))
    version = 0
    if owned:
        version = _OWNED_SINCE
        said.owned_partitions = subscriptions.TopicPartitionCollection(
            [subscriptions.TopicPartition(topic, numbers) for topic, numbers in _by_topic(owned)]
        )
    return _VERSION.pack(version) + b"".join(said.encode(version))


def owned_in(metadata: bytes) -> frozenset[TopicPartition]:
    """What a member reads, by what it says."""
    (version,) = _VERSION.unpack_from(metadata)
    said = ConsumerProtocolSubscription.decode(memoryview(metadata)[_VERSION.size :], version)
    return frozenset((each.topic, number) for each in said.owned_partitions for number in each.partitions)


def assignment(places: Collection[TopicPartition]) -> bytes:
    """What a leader gives a member."""
    given = ConsumerProtocolAssignment(
        assignments.TopicPartitionCollection(
            [assignments.TopicPartition(topic, numbers) for topic, numbers in _by_topic(places)]
        )
    )
    return _VERSION.pack(0) + b"".join(given.encode(0))


def places_in(data: bytes) -> frozenset[TopicPartition]:
    """What a member is given. Without any bytes: nothing."""
    if not data:
        return frozenset()
    (version,) = _VERSION.unpack_from(data)
    given = ConsumerProtocolAssignment.decode(memoryview(data)[_VERSION.size :], version)
    return frozenset((each.topic, number) for each in given.assigned_partitions for number in each.partitions)


def _by_topic(places: Collection[TopicPartition]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return list(found.items())


def shared(
    protocol: str, members: Mapping[str, frozenset[TopicPartition]], places: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """What each member is to read, by what the members read now. Under the cooperative protocol a partition
    that is to move is in no share until its present reader has given it up."""
    order = sorted(members)
    given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    if protocol not in COOPERATIVE:
        for at, place in enumerate(places):
            given[order[at % len(order)]].append(place)
        return given
    most = -(-len(places) // len(order))
    free: list[tuple[TopicPartition, list[str]]] = []
    for place in places:
        readers = [member_id for member_id in order if place in members[member_id]]
        if len(readers) == 1 and len(given[readers[0]]) < most:
            given[readers[0]].append(place)
        else:
            free.append((place, readers))
    for place, readers in free:
        least = min(order, key=lambda member_id: (len(given[member_id]), member_id))
        if not readers or readers == [least]:
            given[least].append(place)
    return given
