"""OffsetCommit (8): stores how far a group has read."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    MemberName,
    TopicPartition,
)
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.peers.group_router import router_of
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_UNKNOWN_GROUP_SINCE: Final = 9
"""The first version whose clients know that a group may not be there."""
_EPOCHS_SINCE: Final = 9
"""The first version that members of the consumer protocol may send."""
_ANY_BROKER: Final = 0
"""The version that clients send to any broker."""
_NOT_SAID: Final = -1
"""Stands for a time in messages."""


def offset_commit(call: "KafkaCall", body: memoryview) -> None:
    """Answers with a result for each partition, when the offsets are stored. Any number is an offset: some
    clients commit negative ones, and take them for their start at the beginning or the end.

    Version 0 is of a time when offsets were not a coordinator's: its clients ask any broker, which asks the
    coordinator for them."""
    request = OffsetCommitRequest.decode(body, call.version)

    def error_of(error: GroupError) -> KafkaError:
        if error is GroupError.STALE_MEMBER_EPOCH and call.version < _EPOCHS_SINCE:
            return KafkaError.UNSUPPORTED_VERSION
        return of_group(error)

    def done(results: Mapping[TopicPartition, GroupError]) -> None:
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(number, error_of(results[topic.name, number]))
                    for number in (each.partition_index for each in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
        failed = first_error(each for topic in topics for each in topic.partitions)
        call.answer(OffsetCommitResponse(topics=topics), outcome_of(failed))

    broker = call.session.broker
    now_ms = broker.clock.now_ms()
    kept_ms = request.retention_time_ms
    expire_ms = _NOT_SAID if kept_ms < 0 else now_ms + kept_ms
    offsets = {
        (topic.name, each.partition_index): _offset(each, now_ms, expire_ms)
        for topic in request.topics
        for each in topic.partitions
    }
    is_new = call.version >= _UNKNOWN_GROUP_SINCE
    commit = CommitRequest(
        MemberName(request.group_id, request.member_id, request.group_instance_id),
        request.generation_id_or_member_epoch,
        offsets,
        GroupError.UNKNOWN_GROUP if is_new else GroupError.ILLEGAL_GENERATION,
    )

    def here(results: Mapping[TopicPartition, GroupError]) -> None:
        if set(results.values()) == {GroupError.NOT_COORDINATOR}:
            router_of(broker).commit(commit, call.session, done)
        else:
            done(results)

    asks = call.version == _ANY_BROKER and broker.link.view.feature_level >= NATIVE_GROUPS
    groups_of(broker).commit(commit, here if asks else done)


def _offset(each: OffsetCommitRequestPartition, now_ms: int, expire_ms: int) -> CommittedOffset:
    said_ms = each.commit_timestamp
    return CommittedOffset(
        each.committed_offset,
        each.committed_leader_epoch,
        each.committed_metadata or "",
        now_ms if said_ms == _NOT_SAID else said_ms,
        expire_ms,
    )
