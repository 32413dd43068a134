"""OffsetCommit (8): stores how far a group has read."""

from collections.abc import Mapping
from typing import Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    MemberName,
    TopicPartition,
)
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.kafka.groups.commit_forms import Topics, learn
from tank_node.kafka.session import KafkaCall
from tank_node.peers.group_router import router_of
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_UNKNOWN_GROUP_SINCE: Final = 9
"""The first version whose clients know that a group may not be there."""
_EPOCHS_SINCE: Final = 9
"""The first version that members of the consumer protocol may send."""
_ANY_BROKER: Final = 0
"""The version that clients send to any broker."""
_NOT_SAID: Final = -1
"""Stands for a time in messages."""


class _OffsetCommit:
    """A request, until it is answered."""

    __slots__ = ("_call", "_commit", "_stored", "_topics")

    def __init__(self, call: KafkaCall, commit: CommitRequest, topics: Topics, stored: bytes) -> None:
        """As `CarryOut`."""
        self._call = call
        self._commit = commit
        self._topics = topics
        self._stored = stored

    def done(self, results: Mapping[TopicPartition, GroupError]) -> None:
        """Answers with the result of each partition."""
        call = self._call
        if self._stored and not any(results.values()):
            call.answer_frame(call.frame_of(self._stored))
            return
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(number, self._error_of(results[topic.name, number]))
                    for number in [each.partition_index for each in topic.partitions]
                ],
            )
            for topic in self._topics
        ]
        failed = first_error(each for topic in topics for each in topic.partitions)
        call.answer(OffsetCommitResponse(topics=topics), outcome_of(failed))

    def here(self, results: Mapping[TopicPartition, GroupError]) -> None:
        """As `done`, but asks the group's coordinator if this broker isn't it."""
        if set(results.values()) == {GroupError.NOT_COORDINATOR}:
            session = self._call.session
            router_of(session.broker).commit(self._commit, session, self.done)
        else:
            self.done(results)

    def _error_of(self, error: GroupError) -> KafkaError:
        if error is GroupError.STALE_MEMBER_EPOCH and self._call.version < _EPOCHS_SINCE:
            return KafkaError.UNSUPPORTED_VERSION
        return of_group(error)


def offset_commit(call: KafkaCall, body: memoryview) -> None:
    """Answers with a result for each partition, when the offsets are stored. Any number is an offset: some
    clients commit negative ones, and take them for their start at the beginning or the end.

    Version 0 is of a time when offsets were not a coordinator's: its clients ask any broker, which asks the
    coordinator for them."""
    request = OffsetCommitRequest.decode(body, call.version)
    now_ms = call.session.broker.clock.now_ms()
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
    learn(call, body, request, commit, _carry_out)
    _carry_out(call, commit, request.topics, b"")


def _carry_out(call: KafkaCall, commit: CommitRequest, topics: Topics, stored: bytes) -> None:
    """As `CarryOut`."""
    broker = call.session.broker
    waiting = _OffsetCommit(call, commit, topics, stored)
    asks = call.version == _ANY_BROKER and broker.link.view.feature_level >= NATIVE_GROUPS
    groups_of(broker).commit(commit, waiting.here if asks else waiting.done)


def _offset(each: OffsetCommitRequestPartition, now_ms: int, expire_ms: int) -> CommittedOffset:
    said_ms = each.commit_timestamp
    return CommittedOffset(
        each.committed_offset,
        each.committed_leader_epoch,
        each.committed_metadata or "",
        now_ms if said_ms == _NOT_SAID else said_ms,
        expire_ms,
    )
