"""What is committed and deleted of the offsets of one partition's groups."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.cluster.view import TopicView
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.group import Group
from tank_node.coordinators.group_log import GroupChange, GroupLog
from tank_node.coordinators.machine.committed_offset import NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommitRequest, TopicPartition
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.offsets.deletion import Deletion
from tank_node.coordinators.records.group_records import offset_record
from tank_node.metrics import OK, Metrics
from tank_protos.wire.errors import WireError

_PART: Final = 4_096
"""How many offsets of another store are taken over in one change."""

Committed = Callable[[Mapping[TopicPartition, GroupError]], None]


class _PendingCommit:
    """A client's commit, some of whose offsets are on their way. This and `_PendingOffsets` are classes,
    because compiled functions inside a function refer to themselves: only the garbage collector frees
    them."""

    __slots__ = ("_done", "_metrics", "_results", "_taken")

    def __init__(
        self,
        results: dict[TopicPartition, GroupError],
        taken: Mapping[TopicPartition, CommittedOffset | None],
        done: Committed,
        metrics: Metrics,
    ) -> None:
        """results: those of all offsets. taken: the offsets on their way."""
        self._results = results
        self._taken = taken
        self._done = done
        self._metrics = metrics

    def stored(self, error: GroupError) -> None:
        """Answers, with the outcome of the offsets that were on their way."""
        _count(self._metrics, error, len(self._taken))
        if error:
            self._results.update(dict.fromkeys(self._taken, error))
        self._done(self._results)


class _PendingOffsets:
    """A change of a group's offsets that is on its way."""

    __slots__ = ("_after", "_done", "_group", "_offsets")

    def __init__(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset | None],
        done: Callable[[GroupError], None],
        after: Callable[[Group], None],
    ) -> None:
        self._group = group
        self._offsets = offsets
        self._done = done
        self._after = after

    def ended(self, is_stored: bool) -> None:
        """See `GroupChange`."""
        self._group.offsets.end(self._offsets, is_stored=is_stored)

    def answered(self, error: GroupError) -> None:
        """Answers, and looks at the group."""
        try:
            self._done(error)
        finally:
            self._after(self._group)


class OffsetChanges:
    """Appends the changes of groups' offsets, and makes them when the high-water mark has passed them."""

    __slots__ = ("_after", "_begin_work", "_broker", "_deletions", "_log", "_settings")

    def __init__(
        self,
        broker: Broker,
        settings: GroupSettings,
        log: GroupLog,
        after: Callable[[Group], None],
        begin_work: Callable[[Iterator[None]], None],
    ) -> None:
        """after: called with a group when a change of it has ended. begin_work: has steps done in slices."""
        self._broker = broker
        self._settings = settings
        self._log = log
        self._after = after
        self._begin_work = begin_work
        self._deletions: dict[Deletion, Group] = {}
        """Those that have not ended."""

    def commit(self, group: Group, request: CommitRequest, done: Committed) -> None:
        """See `Groups.commit`."""
        error = group.members.check_commit(self._broker.tick.monotonic_ms, request)
        results = dict.fromkeys(request.offsets, error)
        metrics = self._broker.metrics
        if error:
            _count(metrics, error, len(results))
        taken: dict[TopicPartition, CommittedOffset | None] = {}
        records: list[StoredRecord] = []
        topic_ids: list[int] = []
        topic: TopicView | None = None
        for place, offset in () if error else request.offsets.items():
            if topic is None or topic.name != place[0]:
                topic = self._broker.link.view.topic(place[0])
            refusal = self._add_record(group.group_id, topic, place, offset, records)
            if refusal:
                results[place] = refusal
                _count(metrics, refusal, 1)
                continue
            # Another topic may have the name later: what is stored says which one it was.
            topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
            taken[place] = offset.of_topic(topic_id)
            topic_ids.append(topic_id)
        if not taken:
            done(results)
            self._after(group)
            return
        for deletion, its_group in self._deletions.items():
            if its_group is group:
                for place in taken:
                    deletion.spare(place)
        self._change(group, taken, records, _PendingCommit(results, taken, done, metrics).stored, topic_ids)

    def _add_record(
        self,
        group_id: str,
        topic: TopicView | None,
        place: TopicPartition,
        offset: CommittedOffset,
        records: list[StoredRecord],
    ) -> GroupError:
        """Adds the record of an offset, or returns why it can't be committed."""
        name, number = place
        if topic is None or not 0 <= number < len(topic.partitions):
            return GroupError.UNKNOWN_TOPIC
        if len(offset.metadata) > self._settings.offset_metadata_length:
            return GroupError.METADATA_TOO_LARGE
        try:
            records.append(offset_record(group_id, name, number, offset))
        except WireError:  # a number or a name that its field can't hold
            return GroupError.INVALID_REQUEST
        return GroupError.NONE

    def store(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        done: Callable[[GroupError], None],
    ) -> None:
        """Stores offsets that records can hold, in changes of a bounded size. done: called once, with the
        first error."""
        places = list(offsets)
        parts = [places[at : at + _PART] for at in range(0, len(places), _PART)]
        missing, first = len(parts), GroupError.NONE

        def part_done(error: GroupError) -> None:
            nonlocal missing, first
            missing -= 1
            first = first or error
            if not missing:
                done(first)

        if not parts:
            done(GroupError.NONE)
        for part in parts:
            changes = {place: self._of_topic(place[0], offsets[place]) for place in part}
            records = [offset_record(group.group_id, *place, offset) for place, offset in changes.items()]
            self._change(group, changes, records, part_done, [each.topic_id for each in changes.values()])

    def _of_topic(self, name: str, offset: CommittedOffset) -> CommittedOffset:
        """An offset with its topic's id: it has one, or is of the topic of this name that there is now."""
        topic = self._broker.link.view.topic(name)
        return offset if offset.topic_id or topic is None else offset.of_topic(topic.topic_id)

    def delete(
        self,
        group: Group,
        places: Iterable[TopicPartition],
        done: Callable[[GroupError], None],
        last: Callable[[Callable[[GroupError], None]], None] | None = None,
    ) -> None:
        """Deletes offsets of a group, in slices if they are many. As `Deletion`."""

        def ended(error: GroupError) -> None:
            self._deletions.pop(deletion, None)
            done(error)

        deletion = Deletion(places, partial(self._delete_part, group), ended, last)
        self._deletions[deletion] = group
        if deletion.is_short:
            for _ in deletion.steps():
                pass
        else:
            self._begin_work(deletion.steps())

    def forget(self, group: Group, places: Sequence[TopicPartition]) -> None:
        """Deletes a bounded number of a group's offsets, for no client: a later sweep tries again."""
        self._delete_part(group, places, _ignore)

    def _delete_part(
        self, group: Group, places: Sequence[TopicPartition], done: Callable[[GroupError], None]
    ) -> None:
        records = [offset_record(group.group_id, name, number, None) for name, number in places]
        self._change(group, dict.fromkeys(places), records, done)

    def _change(
        self,
        group: Group,
        changes: Mapping[TopicPartition, CommittedOffset | None],
        records: Sequence[StoredRecord],
        done: Callable[[GroupError], None],
        topic_ids: Sequence[int] = (),
    ) -> None:
        """Appends changes of a group's offsets; None deletes one."""
        change = _PendingOffsets(group, changes, done, self._after)
        group.offsets.begin(changes)
        self._log.append(GroupChange(records, change.ended, change.answered, topic_ids))

    def refuse(self, error: GroupError) -> None:
        """Answers the deletions that have not ended with this error: the coordination has."""
        deletions, self._deletions = self._deletions, {}
        for deletion in deletions:
            try:
                deletion.refuse(error)
            except Exception:
                report_bug(self._broker.metrics, "a client is not answered")


def _count(metrics: Metrics, error: GroupError, offsets: int) -> None:
    metrics.group_commits[error.name.lower() if error else OK] += offsets


def _ignore(error: GroupError) -> None:
    """Takes the outcome of a change that no request asked for."""
