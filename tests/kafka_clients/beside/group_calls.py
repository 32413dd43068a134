"""The requests that scripts are made of, each as short as it can be said."""

from typing import Final

from tank_protos.generated.kafka import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tank_protos.generated.kafka.consumer_protocol_subscription import ConsumerProtocolSubscription
from tank_protos.generated.kafka.join_group_request import JoinGroupRequestProtocolCollection

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 9, 5, 4, 5, 9, 9
"""The newest versions of Kafka 4.1 that name topics, and not their ids."""
SESSION_MS, REBALANCE_MS = 20_000, 30_000
CONSUMER: Final = "consumer"
_SUBSCRIPTION: Final = 1
"""A version of what consumers say to each other."""


def subscription(said: bytes, *topics: str) -> bytes:
    """What a consumer says to others: its topics, and some data of its own."""
    message = ConsumerProtocolSubscription(list(topics), said)
    return _SUBSCRIPTION.to_bytes(2, "big") + b"".join(message.encode(_SUBSCRIPTION))


def join(
    group: str,
    member_id: str = "",
    *,
    said: bytes = b"a",
    topics: tuple[str, ...] = (),
    kind: str = CONSUMER,
    protocols: tuple[str, ...] = ("range",),
    instance: str | None = None,
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
) -> JoinGroupRequest:
    """A member joins, and says the same in each protocol."""
    metadata = subscription(said, *topics)
    known = [JoinGroupRequestProtocol(name, metadata) for name in protocols]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=JoinGroupRequestProtocolCollection(known),
    )


def sync(
    group: str,
    generation: int,
    member_id: str,
    given: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    kind: str | None = CONSUMER,
    protocol: str | None = "range",
) -> SyncGroupRequest:
    """A member asks for its assignment; given: those of all, by the leader."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(each, work) for each, work in (given or {}).items()],
    )


def heartbeat(group: str, generation: int, member_id: str, instance: str | None = None) -> HeartbeatRequest:
    """A member is alive."""
    return HeartbeatRequest(group, generation, member_id, instance)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    """Members leave, (member id, instance id), from version 3 on."""
    return LeaveGroupRequest(group, members=[MemberIdentity(*member) for member in members])


def leave_alone(group: str, member_id: str) -> LeaveGroupRequest:
    """A member leaves, up to version 2."""
    return LeaveGroupRequest(group, member_id)


def commit(
    group: str,
    topic: str,
    *offsets: int,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "",
    epoch: int = -1,
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    """Offsets of the topic's first partitions, in their order."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, epoch, committed_metadata=metadata)
        for number, offset in enumerate(offsets)
    ]
    topics = [OffsetCommitRequestTopic(topic, partitions)]
    return OffsetCommitRequest(group, generation, member_id, instance, retention_ms, topics)


def fetch(group: str, topic: str | None = None, *partitions: int) -> OffsetFetchRequest:
    """A group's offsets in some partitions, or all: up to version 7."""
    topics = None if topic is None else [OffsetFetchRequestTopic(topic, list(partitions))]
    return OffsetFetchRequest(group, topics)


def fetch_of(*groups: str, topic: str | None = None, partitions: tuple[int, ...] = ()) -> OffsetFetchRequest:
    """Several groups' offsets, from version 8 on."""
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                each, topics=None if topic is None else [OffsetFetchRequestTopics(topic, list(partitions))]
            )
            for each in groups
        ]
    )


def delete_groups(*groups: str) -> DeleteGroupsRequest:
    """Groups are deleted."""
    return DeleteGroupsRequest(list(groups))
