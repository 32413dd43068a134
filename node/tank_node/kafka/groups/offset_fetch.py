"""OffsetFetch (9): says how far groups have read."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_memory import text_bytes
from tank_node.coordinators.machine.group_requests import CommittedOffset, TopicPartition
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.limits import FETCHED_NOTE_BYTES, FETCHED_OFFSETS
from tank_node.peers.group_router import router_of
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.kafka import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_FIRST: Final = 0
"""The version in which a partition without a committed offset has an error."""
_ERROR_OF_ALL_SINCE: Final = 2
"""The first version with an error for the whole request."""
_SEVERAL_SINCE: Final = 8
"""The first version that names several groups."""
_NOBODY: Final = ("", -1)
"""The member and the epoch of a request that comes from no member of the consumer protocol."""
_NO_OFFSET: Final = CommittedOffset(-1)
"""Stands for a partition for which nothing was committed, which is no error."""

_Topics: TypeAlias = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None
"""The partitions that are asked for; None: all."""


def offset_fetch(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once; in version 0, which any broker takes, when the coordinator has answered. An unknown
    topic has nothing committed, and neither has an unknown group. There are no transactions, so every offset
    is stable."""
    request = OffsetFetchRequest.decode(body, call.version)
    lookup = FetchedOffsets(call)
    if call.version >= _SEVERAL_SINCE:
        by_name = {group.group_id: group for group in request.groups}
        groups = [_group(lookup, group) for group in by_name.values()]
        call.answer(OffsetFetchResponse(groups=groups), outcome_of(first_error(groups)))
        return
    code, committed = lookup.committed(request.group_id, request.topics)
    broker = call.session.broker
    knows_more = broker.link.view.feature_level >= NATIVE_GROUPS
    if call.version == _FIRST and code is KafkaError.NOT_COORDINATOR and knows_more:
        router_of(broker).committed(
            request.group_id,
            _wanted(request.topics),
            call.session,
            partial(_answer_first, call, request, lookup),
        )
        return
    _answer(call, request, code, committed)


def _answer_first(
    call: "KafkaCall",
    request: OffsetFetchRequest,
    lookup: "FetchedOffsets",
    error: GroupError,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> None:
    code, committed = lookup.bounded(error, _wanted(request.topics), committed)
    _answer(call, request, code, committed)


def _answer(
    call: "KafkaCall",
    request: OffsetFetchRequest,
    code: KafkaError,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> None:
    """Answers a request of a version that names one group. An error stands at each partition in all of these
    versions: aiokafka 0.14 reads none of the whole request, takes a partition that is missing in the answer
    for one without a committed offset, and begins it anew (docs/decisions/0107)."""
    error_of_all = code if call.version >= _ERROR_OF_ALL_SINCE else KafkaError.NONE
    missing = code
    if not code and call.version == _FIRST:
        missing = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        OffsetFetchResponseTopic(name, [_partition(number, offset, missing) for number, offset in offsets])
        for name, offsets in _named(request.topics, committed)
    ]
    outcome = outcome_of(code or first_error(each for topic in topics for each in topic.partitions))
    call.answer(OffsetFetchResponse(topics=topics, error_code=error_of_all), outcome)


class FetchedOffsets:
    """The offsets for one request. Its groups share two bounds: one for clients' notes, and one for the
    offsets of groups that are asked for all that they have, because a request needs few bytes for those."""

    __slots__ = ("_groups", "_note_bytes", "_room")

    def __init__(self, call: "KafkaCall") -> None:
        self._groups = groups_of(call.session.broker)
        self._room = FETCHED_OFFSETS
        self._note_bytes = FETCHED_NOTE_BYTES

    def committed(
        self, group_id: str, topics: _Topics, reader: tuple[str, int] = _NOBODY
    ) -> tuple[KafkaError, Mapping[TopicPartition, CommittedOffset]]:
        """A group's offsets in these topics, or in all (None); or why it has none here. reader: the member
        of the consumer protocol that asks, and its epoch."""
        wanted = _wanted(topics)
        if wanted is None and self._groups.count_offsets(group_id) > self._room:
            return KafkaError.POLICY_VIOLATION, {}
        if reader != _NOBODY:
            error = self._groups.check_fetch(group_id, *reader)
            if error:
                return of_group(error), {}
        error, committed = self._groups.committed(group_id, wanted)
        return self.bounded(error, wanted, committed)

    def bounded(
        self,
        error: GroupError,
        wanted: Sequence[TopicPartition] | None,
        committed: Mapping[TopicPartition, CommittedOffset],
    ) -> tuple[KafkaError, Mapping[TopicPartition, CommittedOffset]]:
        """A group's offsets, or why there are none: an error of its coordinator's, or too little room."""
        if error:
            return of_group(error), {}
        # A partition that is named several times is answered as often.
        found = committed.values() if wanted is None else filter(None, map(committed.get, wanted))
        note_bytes = sum(text_bytes(offset.metadata) for offset in found if offset.metadata)
        if note_bytes > self._note_bytes:
            return KafkaError.POLICY_VIOLATION, {}
        self._note_bytes -= note_bytes
        if wanted is None:
            self._room -= len(committed)
        return KafkaError.NONE, committed


def _partition(number: int, offset: CommittedOffset, missing: KafkaError) -> OffsetFetchResponsePartition:
    error = missing if offset is _NO_OFFSET else KafkaError.NONE
    return OffsetFetchResponsePartition(number, offset.offset, offset.leader_epoch, offset.metadata, error)


def _group(lookup: FetchedOffsets, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    reader = (group.member_id or "", group.member_epoch)
    error, committed = lookup.committed(group.group_id, group.topics, reader)
    if error:
        return OffsetFetchResponseGroup(group.group_id, error_code=error)
    topics = [
        OffsetFetchResponseTopics(
            name,
            [
                OffsetFetchResponsePartitions(number, each.offset, each.leader_epoch, each.metadata)
                for number, each in offsets
            ],
        )
        for name, offsets in _named(group.topics, committed)
    ]
    return OffsetFetchResponseGroup(group.group_id, topics)


def _wanted(topics: _Topics) -> list[TopicPartition] | None:
    """The partitions of these topics; None: all."""
    if topics is None:
        return None
    return [(topic.name, number) for topic in topics for number in topic.partition_indexes]


def _named(
    topics: _Topics, committed: Mapping[TopicPartition, CommittedOffset]
) -> list[tuple[str, list[tuple[int, CommittedOffset]]]]:
    """The offsets by topic, in the request's order; if it wants all, in the order of their names."""
    if topics is not None:
        return [
            (topic.name, [(n, committed.get((topic.name, n), _NO_OFFSET)) for n in topic.partition_indexes])
            for topic in topics
        ]
    found: defaultdict[str, list[tuple[int, CommittedOffset]]] = defaultdict(list)
    for name, number in sorted(committed):
        found[name].append((number, committed[name, number]))
    return list(found.items())
