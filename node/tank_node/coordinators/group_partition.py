"""One partition of the internal topic that this broker leads, with its groups in memory."""

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.consumer.consumer_group import ConsumerGroup
from tank_node.coordinators.consumer.consumer_heartbeats import check
from tank_node.coordinators.consumer.group_machines import GroupMachines
from tank_node.coordinators.group import Group
from tank_node.coordinators.group_images import GroupImages
from tank_node.coordinators.group_load import GroupLoad
from tank_node.coordinators.group_log import GroupChange, GroupLog
from tank_node.coordinators.iggy.iggy_group import IggyGroupMachine
from tank_node.coordinators.long_work import SlicedWork
from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.consumer_requests import (
    JOINS,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumerGroup,
)
from tank_node.coordinators.machine.group_actions import Answer, Store, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_memory import GroupMemory
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    DescribedGroup,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncAnswer,
    SyncRequest,
    TopicPartition,
)
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer
from tank_node.coordinators.machine.member_refused import MemberRefused
from tank_node.coordinators.offset_changes import Committed, OffsetChanges
from tank_node.coordinators.offset_sweep import OffsetSweep
from tank_node.coordinators.partition_watch import PartitionWatch
from tank_node.coordinators.records.group_records import group_record, offset_record
from tank_node.coordinators.records.record_reader import ReadOffset, ReadRecord
from tank_node.coordinators.waiting_member import WaitingMember
from tank_node.partition.partition import Partition
from tank_node.segment.errors import StorageError
from tank_protos.wire.errors import WireError
from tank_protos.wire.names import IGGY_CONSUMER_PREFIX

logger = logging.getLogger(__name__)
_LONG_LOAD_MS: Final = 1_000
"""Reading the groups of one partition is worth a line from here on."""


class GroupPartition(SlicedWork):
    """The groups of one led partition, from the moment at which this broker coordinates them to the one at
    which it leads no more, or its log fails. Then all requests that wait are answered."""

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        machines: GroupMachines,
        ring_by: Callable[[int], None],
        has_work: Callable[[SlicedWork], None],
        memory: GroupMemory | None = None,
    ) -> None:
        """ring_by: takes the time (monotonic) by which `look` is to be called. has_work: called when `slice`
        is to be called soon, in turn with other partitions' long work. memory: that of the whole broker."""
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.memory = GroupMemory(memory)
        self.state = GroupError.LOADING
        """Why no request is answered here now; NONE: they are."""
        self._broker = broker
        self._machines = machines
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
        self._images = GroupImages()
        self._load = GroupLoad(partition, self._take)
        self._work: deque[Iterator[None]] = deque([self._loading()])
        """What is done in slices: first the load, then deletions and looks at all offsets."""
        self._offsets = OffsetChanges(broker, machines.settings, self._log, self._after_offsets, self._begin)
        self._sweep = OffsetSweep(
            broker, machines.settings, self.groups, self._offsets.forget, self._delete_unused
        )
        self._sweeps = False
        """Whether a look at all offsets is among the work."""
        self._watch = PartitionWatch(self.pass_mark, self.go_on, self.close)
        partition.waiters[self._watch] = None
        self.go_on()

    @property
    def is_closed(self) -> bool:
        """Whether this broker coordinates these groups no more."""
        return self.state not in (GroupError.NONE, GroupError.LOADING)

    @property
    def is_cut_off(self) -> bool:
        """Whether another broker may coordinate these groups by now: neither the controllers nor enough
        replicas are heard."""
        leadership, silence_ms = self.partition.leadership, self._broker.limits.cut_off_ms
        if leadership is None or self._broker.link.silence_ms <= silence_ms:
            return False
        return not leadership.is_followed(silence_ms)

    # --- long work, in slices ----------------------------------------------------------------------

    def go_on(self) -> None:
        """Asks for a turn of long work. The load begins when the leader knows its log's end, and the mark has
        reached what was on its way, unless that has failed meanwhile."""
        if not self._work:
            return
        partition = self.partition
        if self.state is GroupError.LOADING:
            tail = partition.log.tail
            if not partition.end_known or partition.high_water_mark < min(self._begins_at, tail.last):
                if tail.last > tail.written:  # if the disk doesn't take it, nothing else says so
                    self._ring_by(self._broker.tick.monotonic_ms + 1)
                return
        self._has_work(self)

    def _begin(self, steps: Iterator[None]) -> None:
        self._work.append(steps)
        self.go_on()

    def slice(self) -> bool:
        """See `SlicedWork`."""
        broker, work = self._broker, self._work
        until_us = broker.clock.monotonic_us() + broker.limits.group_slice_ms * 1000
        while work:
            steps = work[0]
            try:
                for _ in steps:
                    if broker.clock.monotonic_us() >= until_us:
                        return bool(work)
            except StorageError as error:
                self.partition.note_error(error)
                self.close(GroupError.NOT_AVAILABLE)
                return False
            if work and work[0] is steps:
                work.popleft()
        return False

    def _loading(self) -> Iterator[None]:
        yield from self._load.steps()
        images, self._images = self._images, GroupImages()
        for machine in images.made(self._machines, self._broker.tick.monotonic_ms):
            group = self._group(machine.group_id)
            group.members = machine
            group.count()
            group.is_stored = group.is_resting = True
            yield
        self.state = GroupError.NONE
        self._loaded()
        # Topics may have been deleted while no broker coordinated their groups.
        self.sweep()
        for group in list(self.groups.values()):
            if group.is_resting:
                self._rouse(group)
            yield

    def _loaded(self) -> None:
        """Counts what was read, and logs what an operator would ask about."""
        broker, skipped = self._broker, self._load.skipped
        took_ms = broker.clock.monotonic_ms() - self._began_ms
        broker.metrics.group_load.add(took_ms / 1000)
        if skipped:
            broker.metrics.refused["group_record"] += skipped
        logger.log(
            logging.INFO if skipped or took_ms >= _LONG_LOAD_MS else logging.DEBUG,
            "%s/%d: coordinates %d groups with %d offsets, after %d ms; skipped %d records it can't read",
            self.partition.topic_name,
            self.partition.number,
            self.memory.groups,
            self.memory.offsets,
            took_ms,
            skipped,
        )

    def _take(self, record: ReadRecord) -> None:
        """Takes over a record that was read; it replaces an earlier one of its key."""
        if isinstance(record, ReadOffset):
            group = self.groups.get(record.group_id)
            if group is None:
                if record.kept is None:
                    return
                group = self._group(record.group_id)
                group.members.revive()  # one that has offsets alone is a group, too
                group.count()
            group.offsets.load((record.topic, record.partition), record.kept)
            if not len(group.offsets):
                self._remove(group)
        else:
            self._images.take(record)

    def sweep(self, *, expires: bool = False) -> None:
        """Begins a look at all offsets, or another one behind that under way, for those of deleted topics.
        expires: also for those that were not used for long, and for groups of which nothing is left."""
        if self.state:
            return
        self._sweep.ask(expires=expires)
        if not self._sweeps:
            self._sweeps = True
            self._begin(self._sweeping())

    def _sweeping(self) -> Iterator[None]:
        yield from self._sweep.steps()
        self._sweeps = False

    def _delete_unused(self, group: Group) -> None:
        self.delete(group.group_id, _ignore)

    # --- groups ----------------------------------------------------------------------------------

    def find(self, group_id: str) -> Group | None:
        """The group, if there is one. The times of its members begin, if it was loaded."""
        group = self.groups.get(group_id)
        if group is not None and group.is_resting:
            self._rouse(group)
        return group

    def _group(self, group_id: str) -> Group:
        """The group, which is new where there is none."""
        group = self.find(group_id)
        if group is None:
            members = self._machines.new(group_id)
            memory = self.memory.consumers if group_id.startswith(IGGY_CONSUMER_PREFIX) else self.memory
            group = self.groups[group_id] = Group(group_id, members, memory)
        return group

    def _rouse(self, group: Group) -> None:
        """Begins the times of a group that was loaded: its members have one full session from now on."""
        group.is_resting = False
        group.members.begin_times(self._broker.tick.monotonic_ms)
        self._after(group)

    def _remove(self, group: Group) -> None:
        del self.groups[group.group_id]
        group.forget()

    def look(self, now_ms: int) -> None:
        """Lets the groups look at their times. now_ms: monotonic."""
        if self.state is GroupError.LOADING:
            self.go_on()
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
        members = group.members
        if isinstance(members, ConsumerGroup) and members.is_left_to_classic_members:
            self._convert(group)
        self._act(group, group.members)
        if group.count():
            self._broker.metrics.group_rebalances += 1
        due_ms = group.members.next_deadline_ms()
        if due_ms is not None:
            # A time that is over comes in the next look: a group can't keep one look going for ever.
            due_ms = max(due_ms, self._broker.tick.monotonic_ms + 1)
        if due_ms is not None and not 0 < group.due_ms <= due_ms:
            group.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, next(self._order), group))
            self._ring_by(due_ms)
        if group.is_over and not group.is_stored and self.groups.get(group.group_id) is group:
            self._remove(group)

    def _after_offsets(self, group: Group) -> None:
        """Looks at a group whose offsets have changed: that matters when it began, or lost its last one."""
        if group.is_uncounted or group.offsets.is_unused:
            self._after(group)

    def _act(self, group: Group, machine: GroupMachine) -> None:
        """Does what a machine wants done. One whose place another has taken only answers."""
        try:
            actions = machine.take_actions(self._broker.tick.now_ms)
        except Exception:  # it keeps what it wants done
            report_bug(self._broker.metrics, "a group's machine does not say what is to be done")
            return
        for action in actions:
            try:
                if isinstance(action, Answer):
                    self._answer(action)
                elif machine is group.members:
                    self._store(group, action)
            except Exception:
                report_bug(self._broker.metrics, "a member of a group is not answered")

    def _convert(self, group: Group) -> bool:
        """Gives a group a machine of the other protocol; returns whether it can have one."""
        tick, before = self._broker.tick, group.members
        other = self._machines.converted(before, tick.monotonic_ms, tick.now_ms)
        if other is None:
            return False
        self._act(group, before)
        group.members = other
        if isinstance(other, ConsumerGroup):
            if group.is_stored or group.changes:
                other.replaces_classic()
        elif before.has_nobody:
            group.unwritten += before.tombstones()
        return True

    def _answer(self, action: Answer) -> None:
        waiting = action.token
        assert isinstance(waiting, WaitingMember), "the machine answers what it was asked"
        del self._waiting[waiting]
        waiting.answer(action.answer)

    def _store(self, group: Group, action: Store | StoreRecords) -> None:
        machine = group.members
        before, group.unwritten = group.unwritten, []

        def ended(is_stored: bool) -> None:
            group.changes -= 1
            group.is_stored |= is_stored
            if not is_stored:
                lost = action.if_lost if isinstance(action, StoreRecords) else ()
                group.unwritten = [*before, *lost, *group.unwritten]

        def done(error: GroupError) -> None:
            if not self.is_closed:
                machine.stored(self._broker.tick.monotonic_ms, action.change, error)
                if machine is not group.members:
                    self._act(group, machine)
                self._after(group)

        group.changes += 1
        try:
            if isinstance(action, Store):
                records = [*before, group_record(group.group_id, action.image)]
            else:
                records = [*before, *action.records]
        except WireError:  # a name that is too long for its field
            ended(False)
            done(GroupError.TOO_LARGE)
            return
        self._log.append(GroupChange(records, ended, done))

    # --- what members ask; callers look at `state` first -------------------------------------------

    def join(self, request: JoinRequest, done: Callable[[JoinAnswer], None]) -> None:
        """See `Groups.join`."""
        group = self._group(request.member.group_id)
        if isinstance(group.members, ConsumerGroup) and group.members.has_nobody:
            self._convert(group)
        waiting = WaitingMember(join=done)
        self._waiting[waiting] = None
        group.members.join(self._broker.tick.monotonic_ms, request, waiting)
        self._after(group)

    def sync(self, request: SyncRequest, done: Callable[[SyncAnswer], None]) -> None:
        """See `Groups.sync`."""
        group = self.find(request.member.group_id)
        if group is None:
            done(SyncAnswer(GroupError.UNKNOWN_MEMBER))
            return
        waiting = WaitingMember(sync=done)
        self._waiting[waiting] = None
        group.members.sync(self._broker.tick.monotonic_ms, request, waiting)
        self._after(group)

    def heartbeat(self, member: MemberName, generation: int) -> GroupError:
        """See `Groups.heartbeat`."""
        group = self.find(member.group_id)
        if group is None:
            return GroupError.UNKNOWN_MEMBER
        error = group.members.heartbeat(self._broker.tick.monotonic_ms, member, generation)
        if isinstance(group.members, ConsumerGroup):
            self._after(group)
        return error

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        """See `Groups.leave`."""
        group = self.find(group_id)
        if group is None:
            return [GroupError.UNKNOWN_MEMBER] * len(members)
        errors = group.members.leave(self._broker.tick.monotonic_ms, members)
        self._after(group)
        return errors

    def consumer_heartbeat(
        self, heartbeat: ConsumerHeartbeat, done: Callable[[ConsumerHeartbeatAnswer], None]
    ) -> None:
        """See `Groups.consumer_heartbeat`."""
        group_id = heartbeat.group_id
        try:
            check(heartbeat, self._machines.settings)
        except MemberRefused as refused:
            done(ConsumerHeartbeatAnswer(refused.error, refused.message))
            return
        joins = heartbeat.member_epoch == JOINS
        group = self._group(group_id) if joins else self.find(group_id)
        if group is None or not (joins or isinstance(group.members, ConsumerGroup)):
            message = f"no member of the consumer protocol is in a group {group_id}"
            done(ConsumerHeartbeatAnswer(GroupError.UNKNOWN_MEMBER, message))
            return
        if not isinstance(group.members, ConsumerGroup) and not self._convert(group):
            message = f"the group {group_id} has members of another protocol, and stays with it"
            done(ConsumerHeartbeatAnswer(GroupError.UNKNOWN_GROUP, message))
            return
        waiting = WaitingMember(consumer=done)
        self._waiting[waiting] = None
        group.members.consumer_heartbeat(self._broker.tick.monotonic_ms, heartbeat, waiting)
        self._after(group)

    def take_iggys(self, group_id: str, said: BrokerSaid, done: Callable[[IggyAnswer], None]) -> None:
        """See `Groups.take_iggys`."""
        group = self._group(group_id)
        if not isinstance(group.members, IggyGroupMachine):  # stored so before such names had a meaning
            done(IggyAnswer(GroupError.INCONSISTENT_PROTOCOL))
            return
        waiting = WaitingMember(iggy=done)
        self._waiting[waiting] = None
        group.members.take(self._broker.tick.monotonic_ms, said, waiting)
        self._after(group)

    # --- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, done: Committed) -> None:
        """See `Groups.commit`."""
        self._offsets.commit(self._group(request.member.group_id), request, done)

    def store_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        done: Callable[[GroupError], None],
    ) -> None:
        """Stores offsets that can be stored as records, whatever members the group has. done: called once,
        with the first error."""
        group = self._group(group_id)
        group.members.revive()
        self._offsets.store(group, offsets, done)
        self._after(group)

    def drop_offsets(
        self, group_id: str, places: Iterable[TopicPartition], done: Callable[[GroupError], None]
    ) -> None:
        """Deletes offsets, whatever members the group has."""
        group = self.find(group_id)
        if group is None:
            done(GroupError.NONE)
        else:
            self._offsets.delete(group, places, done)

    def committed(
        self, group_id: str, places: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """See `Groups.committed`. What was committed for a deleted topic, or a
        partition that was removed, is not shown."""
        group = self.groups.get(group_id)
        if group is None:
            return {}
        found: dict[TopicPartition, CommittedOffset] = {}
        offsets, is_gone = group.offsets, self._sweep.is_gone
        wanted: Iterable[TopicPartition] = offsets if places is None else places
        for place in wanted:
            offset = offsets.get(place)
            if offset is not None and not is_gone(place[1], offset):
                found[place] = offset
        return found

    def confirm(self, done: Callable[[GroupError], None]) -> None:
        """Finds out without the controllers that this broker still leads: a record that changes nothing is
        stored by as many replicas as any commit needs."""
        self._log.append(GroupChange([offset_record("", "", 0, None)], _changes_nothing, done))

    def check_fetch(self, group_id: str, member_id: str, member_epoch: int) -> GroupError:
        """See `Groups.check_fetch`."""
        group = self.groups.get(group_id)
        return GroupError.NONE if group is None else group.members.check_fetch(member_id, member_epoch)

    # --- administration --------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """See `Groups.describe`."""
        group = self.groups.get(group_id)
        return DescribedGroup(GroupError.NONE, group_id) if group is None else group.members.described()

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """See `Groups.describe_consumer`."""
        group = self.groups.get(group_id)
        if group is None:
            return DescribedConsumerGroup(GroupError.UNKNOWN_GROUP, group_id)
        return group.members.described_consumer()

    def listed(self) -> list[ListedGroup]:
        """See `Groups.listed`."""
        groups = self.groups.values()
        return [group.listed() for group in groups if group.members.state is not GroupState.DEAD]

    def delete(self, group_id: str, done: Callable[[GroupError], None]) -> None:
        """See `Groups.delete`."""
        group = self.find(group_id)
        error = GroupError.UNKNOWN_GROUP if group is None else group.members.bury()
        if group is None or error:
            done(error)
            return
        buried = group

        def deleted(error: GroupError) -> None:
            if error:
                buried.members.revive()
            try:
                done(error)
            finally:
                self._after(buried)

        places = group.offsets.partitions()
        self._offsets.delete(group, places, deleted, partial(self._delete_record, group))

    def delete_offsets(
        self,
        group_id: str,
        places: Sequence[TopicPartition],
        done: Callable[[GroupError, Mapping[TopicPartition, GroupError]], None],
    ) -> None:
        """See `Groups.delete_offsets`."""
        group = self.find(group_id)
        if group is None or group.members.state is GroupState.DEAD:
            done(GroupError.UNKNOWN_GROUP, {})
            return
        results = {place: group.members.may_delete_offset(place[0]) for place in places}
        if GroupError.NOT_EMPTY in results.values():  # of members whose topics can't be told
            done(GroupError.NOT_EMPTY, {})
            return
        held = group.offsets.partitions()
        gone = [place for place, error in results.items() if not error and place in held]

        def ended(error: GroupError) -> None:
            results.update(dict.fromkeys(gone, error))
            done(GroupError.NONE, results)

        self._offsets.delete(group, gone, ended)

    def _delete_record(self, group: Group, done: Callable[[GroupError], None]) -> None:
        def ended(is_stored: bool) -> None:
            group.changes -= 1
            if is_stored:
                group.is_stored, group.unwritten = False, []

        group.changes += 1
        records = [*group.unwritten, *group.members.tombstones()]
        self._log.append(GroupChange(records, ended, done))

    # --- the end ---------------------------------------------------------------------------------

    def pass_mark(self) -> None:
        """The high-water mark has moved: makes the changes that it has passed."""
        self._log.pass_mark()
        if self.state is GroupError.LOADING:
            self.go_on()

    def close(self, error: GroupError = GroupError.NOT_COORDINATOR) -> None:
        """Ends the coordination, and answers all requests that wait with this error."""
        if self.is_closed:
            return
        self.state = error
        self.partition.waiters.pop(self._watch, None)
        self._watch.done = True
        self._work.clear()
        self._log.close(error)
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            try:
                each.refuse(error)
            except Exception:
                report_bug(self._broker.metrics, "a member is not answered")
        self._offsets.refuse(error)
        self.groups.clear()
        self._images = GroupImages()
        self._due = []
        self.memory.clear()


def _ignore(error: GroupError) -> None:
    """Takes the outcome of a deletion that no request asked for: the next look at all offsets tries again."""


def _changes_nothing(is_stored: bool) -> None:
    """Takes the end of a change that changes nothing."""
