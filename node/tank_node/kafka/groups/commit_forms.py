"""Learned OffsetCommit requests: a member commits again and again, and its requests differ in correlation id,
offsets and leader epochs alone."""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.group_requests import CommitRequest, TopicPartition
from tank_node.kafka.learned_forms import LearnedForm, forms_of, head_of
from tank_node.kafka.session import KafkaCall, KafkaSession
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_LEARNED_SINCE: Final = 8
"""The first version whose requests are learned: that of clients of the last years."""
_ENTRY: Final = Struct(">qi")
"""A partition's offset and leader epoch, in the order of the message."""
_ENTRY_BYTES: Final = _ENTRY.size
_STAND_IN: Final = 0x6B61_666B
"""Stands for both fields, to find their places."""

Topics: TypeAlias = list[OffsetCommitRequestTopic]
CarryOut: TypeAlias = Callable[[KafkaCall, CommitRequest, Topics, bytes], None]
"""A handler's part behind the decoder. It takes the call, the commit, what the request names in its order,
and the body of the answer that says that all is stored; empty: it is not made."""


class CommitForm(LearnedForm):
    """What requests of one form have in common."""

    __slots__ = ("_carry_out", "_commit", "_entries", "_stored", "_topics")

    def __init__(
        self,
        call: KafkaCall,
        carry_out: CarryOut,
        request: OffsetCommitRequest,
        commit: CommitRequest,
        frame: bytes,
        places: list[int],
    ) -> None:
        """frame: one of them. places: where in it each partition's offset begins."""
        super().__init__(call, frame, [(at, at + _ENTRY_BYTES) for at in places])
        self._carry_out = carry_out
        self._commit = commit
        self._topics: Topics = request.topics
        named = [(topic.name, each) for topic in request.topics for each in topic.partitions]
        self._entries: list[tuple[int, TopicPartition, str]] = [
            (at, (name, each.partition_index), each.committed_metadata or "")
            for at, (name, each) in zip(places, named, strict=True)
        ]
        """Where each partition's fields begin, the partition, and the client's note."""
        topics = [
            OffsetCommitResponseTopic(
                topic.name, [OffsetCommitResponsePartition(each.partition_index) for each in topic.partitions]
            )
            for topic in request.topics
        ]
        self._stored = b"".join(OffsetCommitResponse(topics=topics).encode(call.version))

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        call = self.begun(session, frame)
        if call is None:
            return False
        now_ms = session.broker.clock.now_ms()
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for at, place, note in self._entries:
            offset, epoch = _ENTRY.unpack_from(frame, at)
            offsets[place] = CommittedOffset(offset, epoch, note, now_ms)
        like = self._commit
        commit = CommitRequest(like.member, like.generation, offsets, like.unknown_group)
        self._carry_out(call, commit, self._topics, self._stored)
        return True


def learn(
    call: KafkaCall,
    body: memoryview,
    request: OffsetCommitRequest,
    commit: CommitRequest,
    carry_out: CarryOut,
) -> None:
    """Learns the form of a request, if it may be learned. commit: what the request asks for."""
    if call.version < _LEARNED_SINCE:
        return
    learned, head = forms_of(call), head_of(call)
    length = len(head) + len(body)
    if not learned.wants(length):
        return
    frame = head + bytes(body)
    places = _places(request, call.version, frame, len(head))
    form = None if places is None else CommitForm(call, carry_out, request, commit, frame, places)
    learned.add(length, form)


def _places(request: OffsetCommitRequest, version: int, frame: bytes, body_at: int) -> list[int] | None:
    """Where each partition's offset begins in a frame; None where the request is laid out in another way than
    the encoder's: it has tagged fields, for example."""
    if any(each.committed_offset == _STAND_IN for topic in request.topics for each in topic.partitions):
        return None  # a place that is not an offset's could pass for one
    marked = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                topic.name,
                [
                    OffsetCommitRequestPartition(
                        each.partition_index,
                        _STAND_IN,
                        committed_leader_epoch=_STAND_IN,
                        committed_metadata=each.committed_metadata,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    made = bytearray(b"".join(marked.encode(version)))
    if len(made) != len(frame) - body_at:
        return None
    entry, places, at = _ENTRY.pack(_STAND_IN, _STAND_IN), [], 0
    for _ in range(sum(len(topic.partitions) for topic in request.topics)):
        at = made.find(entry, at)
        if at < 0:
            return None
        made[at : at + _ENTRY_BYTES] = frame[body_at + at : body_at + at + _ENTRY_BYTES]
        places.append(body_at + at)
        at += _ENTRY_BYTES
    return places if made == frame[body_at:] else None
