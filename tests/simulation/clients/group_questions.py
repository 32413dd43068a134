"""The requests of members of consumer groups, in the versions of their ages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_protos.generated.kafka import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupRequestProtocolCollection,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tank_protos.generated.kafka.offset_fetch_response import (
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from tank_protos.wire.buffer import Buffer
from tests.simulation.books.group_ages import NEWEST_MEMBER, GroupAge
from tests.simulation.clients.group_assignors import EAGER

CONSUMER = "consumer"
_COORDINATORS_SINCE = 4
"""The first version of FindCoordinator that names several groups."""
_REBALANCE_TIMES_SINCE = 1
_INSTANCES_IN_SYNC_SINCE = 3
_PROTOCOLS_IN_SYNC_SINCE = 5
_INSTANCES_IN_COMMITS_SINCE = 7
_SEVERAL_LEAVE_SINCE = 3
_ALL_SINCE = 2
"""The first version of OffsetFetch that can ask for all offsets of a group, and has an error for all."""
_GROUPS_SINCE = 8
"""And that names several groups."""


@dataclass(slots=True, frozen=True)
class Traits:
    """What doesn't change in the life of a member."""

    group_id: str
    places: tuple[TopicPartition, ...]
    """All partitions that its group reads."""
    age: GroupAge = NEWEST_MEMBER
    protocols: tuple[str, ...] = EAGER
    instance_id: str | None = None
    session_ms: int = 2000
    rebalance_ms: int = 3000

    @property
    def waits_ms(self) -> int:
        """How long the group waits for it to join again."""
        return self.rebalance_ms if self.age.join >= _REBALANCE_TIMES_SINCE else self.session_ms


def find(traits: Traits) -> FindCoordinatorRequest:
    """Where is the coordinator?"""
    if traits.age.find >= _COORDINATORS_SINCE:
        return FindCoordinatorRequest(coordinator_keys=[traits.group_id])
    return FindCoordinatorRequest(traits.group_id)


def join(traits: Traits, member_id: str, protocols: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
    """It wants to be in the next generation."""
    request = JoinGroupRequest(traits.group_id, traits.session_ms, member_id=member_id)
    if traits.age.join >= _REBALANCE_TIMES_SINCE:
        request.rebalance_timeout_ms = traits.rebalance_ms
    request.group_instance_id = traits.instance_id
    request.protocol_type = CONSUMER
    request.protocols = JoinGroupRequestProtocolCollection(
        [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
    )
    return request


def sync(
    traits: Traits, member_id: str, generation: int, protocol: str, given: Mapping[str, bytes]
) -> SyncGroupRequest:
    """What is it to read? The leader says what all are to read."""
    request = SyncGroupRequest(traits.group_id, generation, member_id)
    if traits.age.sync >= _INSTANCES_IN_SYNC_SINCE:
        request.group_instance_id = traits.instance_id
    if traits.age.sync >= _PROTOCOLS_IN_SYNC_SINCE:
        request.protocol_type, request.protocol_name = CONSUMER, protocol
    request.assignments = [SyncGroupRequestAssignment(name, data) for name, data in given.items()]
    return request


def heartbeat(traits: Traits, member_id: str, generation: int) -> HeartbeatRequest:
    """It lives."""
    return HeartbeatRequest(traits.group_id, generation, member_id, traits.instance_id)


def leave(traits: Traits, member_id: str) -> LeaveGroupRequest:
    """It goes."""
    if traits.age.leave >= _SEVERAL_LEAVE_SINCE:
        return LeaveGroupRequest(traits.group_id, members=[MemberIdentity(member_id, traits.instance_id)])
    return LeaveGroupRequest(traits.group_id, member_id)


def commit(
    traits: Traits, member_id: str, generation: int, positions: Mapping[TopicPartition, tuple[int, str]]
) -> OffsetCommitRequest:
    """It has read so far: an offset and a text for each partition."""
    request = OffsetCommitRequest(traits.group_id, generation, member_id)
    if traits.age.commit >= _INSTANCES_IN_COMMITS_SINCE:
        request.group_instance_id = traits.instance_id
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, number), (offset, text) in positions.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name))
        topic.partitions.append(OffsetCommitRequestPartition(number, offset, committed_metadata=text))
    request.topics = list(topics.values())
    return request


def fetch(traits: Traits, *, everything: bool) -> OffsetFetchRequest:
    """How far has the group read? everything: it doesn't name partitions, where its age knows that."""
    version, names = traits.age.fetch, _numbers(traits.places)
    everything = everything and version >= _ALL_SINCE
    if version >= _GROUPS_SINCE:
        topics = None if everything else [OffsetFetchRequestTopics(*each) for each in names.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(traits.group_id, topics=topics)])
    older = None if everything else [OffsetFetchRequestTopic(*each) for each in names.items()]
    return OffsetFetchRequest(traits.group_id, older)


def _numbers(places: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, number in places:
        found.setdefault(name, []).append(number)
    return found


_Fetched = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


def fetched(body: Buffer, version: int) -> tuple[int, dict[TopicPartition, tuple[int, str]]]:
    """The error of an answer to that, and the offsets and texts that are committed."""
    answer = OffsetFetchResponse.decode(body, version)
    parts: list[tuple[str, _Fetched]] = []
    error = answer.error_code
    if version >= _GROUPS_SINCE:
        (group,) = answer.groups
        error = group.error_code
        parts += [(topic.name, each) for topic in group.topics for each in topic.partitions]
    else:
        parts += [(topic.name, each) for topic in answer.topics for each in topic.partitions]
    found = {}
    for name, each in parts:
        error = error or each.error_code
        if each.committed_offset >= 0:
            found[name, each.partition_index] = each.committed_offset, each.metadata or ""
    return error, found
