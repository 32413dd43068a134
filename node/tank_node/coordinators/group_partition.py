"""One partition of the internal topic that this broker leads, with its groups in memory."""

import heapq
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.classic_group import ClassicGroup
from tank_node.coordinators.group import Group
from tank_node.coordinators.group_actions import Answer, Store
from tank_node.coordinators.group_error import GroupError
from tank_node.coordinators.group_load import GroupLoad
from tank_node.coordinators.group_log import GroupChange, GroupLog
from tank_node.coordinators.group_records import GroupRecord, OffsetRecord, group_record, offset_record
from tank_node.coordinators.group_requests import (
    CommitRequest,
    CommittedOffset,
    DescribedGroup,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncAnswer,
    SyncRequest,
    TopicPartition,
)
from tank_node.coordinators.group_settings import GroupSettings
from tank_node.coordinators.group_state import GroupState
from tank_node.coordinators.offset_expiry import expired_offsets
from tank_node.coordinators.partition_watch import PartitionWatch
from tank_node.coordinators.waiting_member import WaitingMember
from tank_node.partition.partition import Partition
from tank_node.segment.errors import StorageError
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue
from tank_protos.wire.errors import WireError

logger = logging.getLogger(__name__)

_PART: Final = 4_096
"""How many offsets one change deletes."""

Committed = Callable[[Mapping[TopicPartition, GroupError]], None]


class GroupPartition:
    """The groups of one led partition, from the moment at which this broker coordinates them to the one at
    which it leads no more, or its log fails. Then everybody who waits is answered."""

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        ring_by: Callable[[int], None],
        has_work: "Callable[[GroupPartition], None]",
    ) -> None:
        """ring_by: takes the time (monotonic) by which `look` is to be called. has_work: called when `slice`
        is to be called soon, in turn with other partitions' long work."""
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.offsets = 0
        """How many committed offsets are in memory."""
        self.state = GroupError.LOADING
        """Why no request is answered here now; NONE: they are."""
        self._broker = broker
        self._settings = settings
        self._new_member_id = new_member_id
        self._ring_by = ring_by
        self._has_work = has_work
        self._log = GroupLog(broker, partition)
        self._waiting: dict[WaitingMember, None] = {}
        self._due: list[tuple[int, int, Group]] = []
        """When groups have to be looked at; a heap. An entry whose time isn't the group's `due_ms` means
        nothing."""
        self._order = itertools.count()
        self._began_ms = broker.tick.monotonic_ms
        self._begins_at = partition.log.tail.last
        """What is read at least: changes of an earlier lead of this broker may be on their way."""
        self._images: dict[str, GroupMetadataValue] = {}
        """The groups as their records say, while these are read."""
        self._load = GroupLoad(partition, self._take)
        self._steps: Iterator[None] | None = self._loading()
        """Work that is done in slices: the load, or a look at all offsets."""
        self._deleted: dict[str, int] = {}
        """Topics that were deleted since the last look at all offsets, and when (wall clock)."""
        self._watch = PartitionWatch(self.pass_mark, self.go_on, self.close)
        partition.waiters[self._watch] = None
        self.go_on()

    @property
    def is_closed(self) -> bool:
        """Whether this broker coordinates these groups no more."""
        return self.state not in (GroupError.NONE, GroupError.LOADING)

    # --- long work, in slices ----------------------------------------------------------------------

    def go_on(self) -> None:
        """Asks for a turn of long work. The load begins when the leader knows its log's end, and the mark has
        reached what was on its way."""
        partition = self.partition
        if self._steps is not None and partition.end_known and partition.high_water_mark >= self._begins_at:
            self._has_work(self)

    def slice(self) -> bool:
        """Goes on with long work for some milliseconds. Returns whether there is more."""
        broker, steps = self._broker, self._steps
        if steps is None:
            return False
        until_us = broker.clock.monotonic_us() + broker.limits.group_slice_ms * 1000
        try:
            for _ in steps:
                if broker.clock.monotonic_us() >= until_us:
                    return True
        except StorageError as error:
            self.partition.note_error(error)
            self.close(GroupError.NOT_AVAILABLE)
            return False
        if self._steps is steps:
            self._steps = None
        return False

    def _loading(self) -> Iterator[None]:
        yield from self._load.steps()
        now_ms = self._broker.tick.monotonic_ms
        for group_id, image in self._images.items():
            group = self._group(group_id)
            group.members = ClassicGroup.from_image(
                group_id, self._settings, self._new_member_id, image, now_ms
            )
            group.is_stored = True
            yield
        self._images = {}
        self.state = GroupError.NONE
        for group in list(self.groups.values()):
            group.members.revive()  # one that has offsets alone is a group, too
            self._after(group)
        if self._load.skipped:
            self._broker.metrics.refused["group_record"] += self._load.skipped
        logger.info(
            "%s/%d: coordinates %d groups with %d offsets, after %d ms; skipped %d records it can't read",
            self.partition.topic_name,
            self.partition.number,
            len(self.groups),
            self.offsets,
            self._broker.clock.monotonic_ms() - self._began_ms,
            self._load.skipped,
        )

    def _take(self, record: OffsetRecord | GroupRecord) -> None:
        """Takes over a record that was read; it replaces an earlier one of its key."""
        if isinstance(record, OffsetRecord):
            group = self._group(record.group_id)
            before = len(group.offsets)
            group.offsets.load((record.topic, record.partition), record.offset)
            self.offsets += len(group.offsets) - before
            if not len(group.offsets):
                del self.groups[record.group_id]
        elif record.value is not None:
            self._images[record.group_id] = record.value
        else:
            self._images.pop(record.group_id, None)

    def forget_topic(self, name: str) -> None:
        """A topic was deleted: its offsets go."""
        self._deleted[name] = self._broker.tick.now_ms
        self.sweep()

    def sweep(self) -> None:
        """Begins a look at all offsets, unless other long work is under way: those that nobody has used for
        long go, and groups of which nothing is left."""
        if self._steps is None and not self.is_closed:
            self._steps = self._sweeping()
            self.go_on()

    def _sweeping(self) -> Iterator[None]:
        retention_ms = self._settings.offsets_retention_ms
        deleted, self._deleted = self._deleted, {}
        for group in list(self.groups.values()):
            if self.groups.get(group.group_id) is not group:
                continue
            gone = expired_offsets(group.members, group.offsets, self._broker.tick.now_ms, retention_ms)
            for name, at_ms in deleted.items():
                gone += [
                    place
                    for place in group.offsets.of_topic(name)
                    if not group.offsets.is_changing(place) and self._is_before(group, place, at_ms)
                ]
            if gone:
                self._forget(group, list(dict.fromkeys(gone)), _ignore)
            elif group.is_stored and group.is_over and group.members.state is GroupState.EMPTY:
                self.delete(group.group_id, _ignore)
            yield
        if self._deleted:
            yield from self._sweeping()

    @staticmethod
    def _is_before(group: Group, place: TopicPartition, at_ms: int) -> bool:
        offset = group.offsets.get(place)
        return offset is not None and offset.commit_ms <= at_ms

    # --- groups ----------------------------------------------------------------------------------

    def _group(self, group_id: str) -> Group:
        """The group, which is new where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            members = ClassicGroup(group_id, self._settings, self._new_member_id)
            group = self.groups[group_id] = Group(group_id, members)
        return group

    def look(self, now_ms: int) -> None:
        """Lets the groups look at their times. now_ms: monotonic."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, _, group = heapq.heappop(self._due)
            if due_ms == group.due_ms:
                group.due_ms = 0
                group.members.expire(now_ms)
                self._after(group)
        if self._due:
            self._ring_by(self._due[0][0])

    def _after(self, group: Group) -> None:
        """Does what a group's machine wants done, notes its next time, and forgets the group if nothing is
        known of it."""
        if self.is_closed:
            return
        for action in group.members.take_actions(self._broker.tick.now_ms):
            if isinstance(action, Store):
                self._store(group, action)
            else:
                self._answer(action)
        due_ms = group.members.next_deadline_ms()
        if due_ms is not None:
            # A time that is over comes in the next look: a group can't keep one look going for ever.
            due_ms = max(due_ms, self._broker.tick.monotonic_ms + 1)
        if due_ms is not None and not 0 < group.due_ms <= due_ms:
            group.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, next(self._order), group))
            self._ring_by(due_ms)
        if group.is_over and not group.is_stored and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def _answer(self, action: Answer) -> None:
        waiting = action.token
        assert isinstance(waiting, WaitingMember), "the machine answers what it was asked"
        del self._waiting[waiting]
        waiting.answer(action.answer)

    def _store(self, group: Group, action: Store) -> None:
        def ended(is_stored: bool) -> None:
            group.changes -= 1
            group.is_stored |= is_stored

        def done(error: GroupError) -> None:
            if not self.is_closed:
                group.members.stored(self._broker.tick.monotonic_ms, action.change, error)
                self._after(group)

        group.changes += 1
        try:
            records = [group_record(group.group_id, action.image)]
        except WireError:  # a name that is too long for its field
            ended(False)
            done(GroupError.TOO_LARGE)
            return
        self._log.append(GroupChange(records, ended, done))

    # --- what members ask; callers look at `state` first -------------------------------------------

    def join(self, request: JoinRequest, done: Callable[[JoinAnswer], None]) -> None:
        """See `Groups.join`."""
        group = self._group(request.member.group_id)
        waiting = WaitingMember(join=done)
        self._waiting[waiting] = None
        group.members.join(self._broker.tick.monotonic_ms, request, waiting)
        self._after(group)

    def sync(self, request: SyncRequest, done: Callable[[SyncAnswer], None]) -> None:
        """See `Groups.sync`."""
        group = self.groups.get(request.member.group_id)
        if group is None:
            done(SyncAnswer(GroupError.UNKNOWN_MEMBER))
            return
        waiting = WaitingMember(sync=done)
        self._waiting[waiting] = None
        group.members.sync(self._broker.tick.monotonic_ms, request, waiting)
        self._after(group)

    def heartbeat(self, member: MemberName, generation: int) -> GroupError:
        """See `Groups.heartbeat`."""
        group = self.groups.get(member.group_id)
        if group is None:
            return GroupError.UNKNOWN_MEMBER
        return group.members.heartbeat(self._broker.tick.monotonic_ms, member, generation)

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        """See `Groups.leave`."""
        group = self.groups.get(group_id)
        if group is None:
            return [GroupError.UNKNOWN_MEMBER] * len(members)
        errors = group.members.leave(self._broker.tick.monotonic_ms, members)
        self._after(group)
        return errors

    # --- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, done: Committed) -> None:
        """See `Groups.commit`. The topics are known to be there."""
        group_id = request.member.group_id
        group = self._group(group_id)
        error = group.members.check_commit(self._broker.tick.monotonic_ms, request)
        results = dict.fromkeys(request.offsets, error)
        taken: dict[TopicPartition, CommittedOffset | None] = {}
        records = []
        for place, offset in () if error else request.offsets.items():
            if len(offset.metadata.encode("utf-8", "surrogateescape")) > self._settings.offset_metadata_bytes:
                results[place] = GroupError.METADATA_TOO_LARGE
                continue
            try:
                records.append(offset_record(group_id, *place, offset))
            except WireError:  # a number or a name that its field can't hold
                results[place] = GroupError.INVALID_REQUEST
                continue
            taken[place] = offset
        if not taken:
            done(results)
            self._after(group)
            return

        def stored(error: GroupError) -> None:
            results.update(dict.fromkeys(taken, error))
            done(results)

        self._change_offsets(group, taken, records, stored)

    def _change_offsets(
        self,
        group: Group,
        changes: Mapping[TopicPartition, CommittedOffset | None],
        records: Sequence[tuple[bytes, bytes | None]],
        done: Callable[[GroupError], None],
    ) -> None:
        """Appends changes of a group's offsets; None deletes one."""

        def ended(is_stored: bool) -> None:
            before = len(group.offsets)
            group.offsets.end(changes, is_stored=is_stored)
            self.offsets += len(group.offsets) - before

        def answered(error: GroupError) -> None:
            done(error)
            self._after(group)

        group.offsets.begin(changes)
        self._log.append(GroupChange(records, ended, answered))

    def committed(
        self, group_id: str, places: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """See `Groups.committed`."""
        group = self.groups.get(group_id)
        if group is None:
            return {}
        if places is None:
            return dict(group.offsets.items())
        found = {place: group.offsets.get(place) for place in places}
        return {place: offset for place, offset in found.items() if offset is not None}

    # --- administration --------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """See `Groups.describe`."""
        group = self.groups.get(group_id)
        return DescribedGroup(GroupError.NONE, group_id) if group is None else group.members.described()

    def listed(self) -> list[ListedGroup]:
        """See `Groups.listed`."""
        groups = self.groups.values()
        return [group.members.listed() for group in groups if group.members.state is not GroupState.DEAD]

    def delete(self, group_id: str, done: Callable[[GroupError], None]) -> None:
        """See `Groups.delete`."""
        group = self.groups.get(group_id)
        error = GroupError.UNKNOWN_GROUP if group is None else group.members.bury()
        if group is None or error:
            done(error)
            return
        self._forget(group, list(group.offsets.partitions()), _ignore)

        def ended(is_stored: bool) -> None:
            group.changes -= 1
            if is_stored:
                group.is_stored = False

        def answered(error: GroupError) -> None:
            if error:
                group.members.revive()
            done(error)
            self._after(group)

        group.changes += 1
        self._log.append(GroupChange([group_record(group_id, None)], ended, answered))

    def delete_offsets(
        self,
        group_id: str,
        places: Sequence[TopicPartition],
        done: Callable[[GroupError, Mapping[TopicPartition, GroupError]], None],
    ) -> None:
        """See `Groups.delete_offsets`."""
        group = self.groups.get(group_id)
        if group is None or group.members.state is GroupState.DEAD:
            done(GroupError.UNKNOWN_GROUP, {})
            return
        results = {place: group.members.may_delete_offset(place[0]) for place in places}
        held = group.offsets.partitions()
        gone = [place for place, error in results.items() if not error and place in held]

        def ended(error: GroupError) -> None:
            results.update(dict.fromkeys(gone, error))
            done(GroupError.NONE, results)

        self._forget(group, gone, ended)

    def _forget(
        self, group: Group, places: Sequence[TopicPartition], done: Callable[[GroupError], None]
    ) -> None:
        """Deletes offsets of a group, in changes of a bounded size. done: called once, with the first
        error."""
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
            records = [offset_record(group.group_id, *place, None) for place in part]
            self._change_offsets(group, dict.fromkeys(part), records, part_done)

    # --- the end ---------------------------------------------------------------------------------

    def pass_mark(self) -> None:
        """The high-water mark has moved: makes the changes that it has passed."""
        self._log.pass_mark()
        if self.state is GroupError.LOADING:
            self.go_on()

    def close(self, error: GroupError = GroupError.NOT_COORDINATOR) -> None:
        """Ends the coordination, and answers everybody who waits with this error."""
        if self.is_closed:
            return
        self.state = error
        self.partition.waiters.pop(self._watch, None)
        self._watch.done = True
        self._steps = None
        self._log.close(error)
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            try:
                each.refuse(error)
            except Exception:
                logger.exception("a bug of ours: a member is not answered; others go on, please report it")
        self.groups = {}
        self._images = {}
        self._due = []
        self.offsets = 0


def _ignore(error: GroupError) -> None:
    """Nobody asked for it: the next look at all offsets tries again."""
