"""The coordinator of consumer groups at one broker: what protocols ask.

A group belongs to a partition of the internal topic (`group_hash`), and is coordinated by the broker that
leads this. All methods are called on the event loop, within a tick. A `done` is called once, at once or
later."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

from tank_node.broker.broker import Broker
from tank_node.cluster.view import ChangeKind, TopicChange
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.consumer.group_machines import GroupMachines
from tank_node.coordinators.group_listing import GroupListing, Listed
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.group_room import GroupRoom
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.iggy.iggy_group import IggyGroupMachine
from tank_node.coordinators.long_work import LongWork
from tank_node.coordinators.machine.consumer_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumerGroup,
)
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
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
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer
from tank_node.coordinators.offset_changes import Committed
from tank_node.coordinators.offsets_topic import NO_BROKER, Found, OffsetsTopic
from tank_node.coordinators.view.held_names import held_names
from tank_node.coordinators.view.view_groups import ViewGroups
from tank_node.coordinators.view.view_topics import ViewTopics
from tank_node.replication.role import Role
from tank_protos.feature_levels import IGGY
from tank_protos.wire.names import GROUPS_TOPIC, is_iggys_group

_LONGEST_ID: Final = 32_767
"""The most bytes of a group's name: the records' fields hold no more."""
_NAME_IN_ID: Final = 200
"""The most characters of a client's name, or of a static member's, in a member id."""


class Groups:
    """All groups that one broker coordinates; made at its first use, by `groups_of`."""

    def __init__(
        self, broker: Broker, settings: GroupSettings, new_member_id: Callable[[str], str] | None = None
    ) -> None:
        """new_member_id: returns an id that no member has had, for a client of this name."""
        self.settings = settings
        self._broker = broker
        self._view_topics = ViewTopics(broker)
        self._machines = GroupMachines(
            settings, self._view_topics, ViewGroups(broker), new_member_id or random_member_id
        )
        self.room = GroupRoom(broker, settings)
        self._topic = OffsetsTopic(broker, settings.topic_partitions)
        self._led: dict[int, GroupPartition] = {}
        """The partitions that this broker coordinates, by number; also some that have ended."""
        self._timer = GroupTimer(broker, self._look, self._stop)
        self._work = LongWork(broker.metrics, self._ring)
        self._listing = GroupListing(broker, self._led, self._work)
        self._swept_ms = broker.tick.monotonic_ms
        """When the last look at all offsets began."""
        self._stopped = False
        broker.link.on_change(self._changed)
        broker.link.on_names_asked(lambda: held_names(broker, self._lead))
        self._lead_all()

    # --- which broker ----------------------------------------------------------------------------

    def coordinator_of(self, group_id: str, done: Found) -> None:
        """Finds the broker that coordinates a group. Creates the internal topic at its first use. Errors:
        NOT_AVAILABLE, INVALID_GROUP_ID."""
        if not _is_id(group_id):
            done(GroupError.INVALID_GROUP_ID, NO_BROKER)
            return
        self._topic.coordinator_of(group_id, done)

    def partition_of(self, group_id: str) -> int | None:
        """The number of the group's partition of the internal topic; None while there is none."""
        return self._topic.partition_of(group_id) if _is_id(group_id) else None

    # --- members ---------------------------------------------------------------------------------

    def join(self, request: JoinRequest, done: Callable[[JoinAnswer], None]) -> None:
        """Takes a member into its group's next generation; answers when that begins."""
        found = self._of_client(request.member.group_id)
        if not isinstance(found, GroupError) and not self.room.for_join(found, request):
            found = GroupError.NOT_AVAILABLE
        if isinstance(found, GroupError):
            done(JoinAnswer(found))
        else:
            found.join(request, done)

    def sync(self, request: SyncRequest, done: Callable[[SyncAnswer], None]) -> None:
        """Answers with a member's assignment, when it is stored."""
        found = self._of(request.member.group_id)
        if not isinstance(found, GroupError) and not self.room.for_sync(found, request):
            found = GroupError.NOT_AVAILABLE
        if isinstance(found, GroupError):
            done(SyncAnswer(found))
        else:
            found.sync(request, done)

    def heartbeat(self, member: MemberName, generation: int) -> GroupError:
        """Notes that a member lives."""
        found = self._of(member.group_id)
        return found if isinstance(found, GroupError) else found.heartbeat(member, generation)

    def leave(
        self,
        group_id: str,
        members: Sequence[tuple[str, str | None]],
        done: Callable[[GroupError, Sequence[GroupError]], None],
    ) -> None:
        """Removes members, (member id, instance id), from a group; each has an error of its own where there
        is none for all."""
        found = self._of(group_id)
        if isinstance(found, GroupError):
            done(found, ())
        else:
            done(GroupError.NONE, found.leave(group_id, members))

    def consumer_heartbeat(
        self, heartbeat: ConsumerHeartbeat, done: Callable[[ConsumerHeartbeatAnswer], None]
    ) -> None:
        """Takes a heartbeat of a member of the consumer protocol: it joins, lives, or leaves. Answers when
        what it changed is stored."""
        found = self._of_client(heartbeat.group_id)
        if not isinstance(found, GroupError) and not self.room.for_heartbeat(found, heartbeat):
            found = GroupError.NOT_AVAILABLE
        if isinstance(found, GroupError):
            done(ConsumerHeartbeatAnswer(found))
        else:
            found.consumer_heartbeat(heartbeat, done)

    def take_iggys(self, group_id: str, said: BrokerSaid, done: Callable[[IggyAnswer], None]) -> None:
        """A broker names all its members of one of Iggy's groups, and hears what they have when that is
        stored."""
        found = self._of(group_id)
        if not isinstance(found, GroupError) and not self.room.for_iggys(found, group_id, said):
            found = GroupError.NOT_AVAILABLE
        if isinstance(found, GroupError):
            done(IggyAnswer(found))
        else:
            found.take_iggys(group_id, said, done)

    # --- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, done: Committed) -> None:
        """Stores offsets; each has its own error."""
        found = self._of_client(request.member.group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            done(dict.fromkeys(request.offsets, found))
            return
        if not self.room.for_commit(found, request):
            done(dict.fromkeys(request.offsets, GroupError.NOT_AVAILABLE))
            return
        found.commit(request, done)

    def committed(
        self, group_id: str, places: Sequence[TopicPartition] | None
    ) -> tuple[GroupError, Mapping[TopicPartition, CommittedOffset]]:
        """The offsets of a group in these partitions, or in all (None); those without one are left out. What
        the high-water mark has not passed is not shown."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return found, {}
        return GroupError.NONE, found.committed(group_id, places)

    def count_offsets(self, group_id: str) -> int:
        """How many committed offsets a group has that is coordinated here."""
        found = self._of(group_id, may_be_empty=True)
        group = None if isinstance(found, GroupError) else found.groups.get(group_id)
        return 0 if group is None else len(group.offsets)

    def check_fetch(self, group_id: str, member_id: str, member_epoch: int) -> GroupError:
        """Whether a member of the consumer protocol may see its group's offsets now: not in an epoch that is
        over. No id and no epoch: it is none."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return found
        return found.check_fetch(group_id, member_id, member_epoch)

    # --- administration --------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """A group with its members; DEAD if there is none."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return DescribedGroup(found, group_id)
        return found.describe(group_id)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """A group of the consumer protocol with its members. Errors: UNKNOWN_GROUP, also for a group of the
        classic protocol."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return DescribedConsumerGroup(found, group_id)
        return found.describe_consumer(group_id)

    def listed(self) -> tuple[GroupError, list[ListedGroup]]:
        """The groups that this broker coordinates, in one go: they may be too many for that, see `list_all`.
        Errors: LOADING, with those that are read already."""
        self._lead_all()
        error = GroupError.NONE
        groups: list[ListedGroup] = []
        for led in self._led.values():
            if led.state is GroupError.LOADING:
                error = GroupError.LOADING
            elif not led.is_closed:
                groups += led.listed()
        return error, groups

    def list_all(self, done: Listed) -> None:
        """As `listed`, in slices. `done` gets NOT_COORDINATOR and no groups when the broker stops."""
        self._lead_all()
        self._listing.ask(done)

    def delete(self, group_ids: Sequence[str], done: Callable[[Mapping[str, GroupError]], None]) -> None:
        """Deletes groups without members, with their offsets."""
        results: dict[str, GroupError] = {}
        wanted = set(group_ids)

        def one_done(group_id: str, error: GroupError) -> None:
            results[group_id] = error
            if len(results) == len(wanted):
                done(results)

        if not wanted:
            done(results)
        for group_id in wanted:
            found = self._of(group_id, may_be_empty=True)
            is_kept = is_iggys_group(group_id) and self._broker.link.view.feature_level >= IGGY
            if is_kept:  # leaders of partitions remember the positions, and wouldn't hear of it
                found = GroupError.INCONSISTENT_PROTOCOL
            if isinstance(found, GroupError):
                one_done(group_id, found)
            else:
                found.delete(group_id, partial(one_done, group_id))

    def delete_offsets(
        self,
        group_id: str,
        places: Sequence[TopicPartition],
        done: Callable[[GroupError, Mapping[TopicPartition, GroupError]], None],
    ) -> None:
        """Deletes offsets of a group whose topics no member subscribes to. Either there is an error for all,
        or each has its own."""
        found = self._of(group_id)
        if isinstance(found, GroupError):
            done(found, {})
            return
        known = [place for place in places if _is_there(self._broker, place)]
        unknown = dict.fromkeys(set(places).difference(known), GroupError.UNKNOWN_TOPIC)
        found.delete_offsets(group_id, known, lambda error, results: done(error, {**results, **unknown}))

    # --- the partitions that this broker leads -----------------------------------------------------

    def led_by_number(self, number: int) -> GroupPartition | None:
        """The coordination of this partition of the internal topic; None: this broker doesn't lead it."""
        return self._lead(number)

    def led(self) -> list[GroupPartition]:
        """The coordinations of all partitions that this broker leads."""
        self._lead_all()
        return [led for led in self._led.values() if not led.is_closed]

    def coordination_of(self, group_id: str) -> GroupPartition | GroupError:
        """What answers for a group, or why nothing does now."""
        return self._of(group_id)

    def iggys_shown(self, group_id: str) -> tuple[GroupError, list[tuple[int, tuple[int, ...]]]]:
        """The members of one of Iggy's groups: client ids, and the partitions of each."""
        found = self._of(group_id)
        if isinstance(found, GroupError):
            return found, []
        group = found.groups.get(group_id)
        shown = (
            group.members.shown() if group is not None and isinstance(group.members, IggyGroupMachine) else []
        )
        return GroupError.NONE, shown

    def _of_client(self, group_id: str, *, may_be_empty: bool = False) -> GroupPartition | GroupError:
        """As `_of`, for requests that may make a group. Below Iggy's feature level none is made under a name
        that is Iggy's from that level on: the level would have to wait for it."""
        found = self._of(group_id, may_be_empty=may_be_empty)
        if not is_iggys_group(group_id) or isinstance(found, GroupError) or group_id in found.groups:
            return found
        return found if self._broker.link.view.feature_level >= IGGY else GroupError.INVALID_GROUP_ID

    def _of(self, group_id: str, *, may_be_empty: bool = False) -> GroupPartition | GroupError:
        """What answers for a group, or why nothing does now."""
        if not _is_id(group_id) or not (group_id or may_be_empty):
            return GroupError.INVALID_GROUP_ID
        number = self._topic.partition_of(group_id)
        led = None if number is None else self._lead(number)
        if led is None or led.is_cut_off:
            return GroupError.NOT_COORDINATOR
        return led.state or led

    def _lead(self, number: int) -> GroupPartition | None:
        """The coordination of a partition, which begins when this broker leads it; None: it doesn't."""
        topic = self._broker.topics.get(GROUPS_TOPIC)
        partition = None if topic is None else topic.partitions.get(number)
        if partition is None or partition.role is not Role.LEADER or partition.unreadable or self._stopped:
            return None
        led = self._led.get(number)
        if led is None or led.is_closed or led.partition is not partition:
            led = self._led[number] = GroupPartition(
                self._broker,
                partition,
                self._machines,
                self._timer.by,
                self._work.begin,
                self.room.memory,
            )
        return led

    def _lead_all(self) -> None:
        topic = self._broker.topics.get(GROUPS_TOPIC)
        for number in () if topic is None else tuple(topic.partitions):
            self._lead(number)

    def _changed(self, change: TopicChange) -> None:
        """The view has changed; the broker's replicas have their roles already."""
        if self._view_topics.note(change):
            for led in self._led.values():
                led.sweep()
        if change.kind is not ChangeKind.DELETED and change.topic.name == GROUPS_TOPIC:
            for number in change.partitions or range(len(change.topic.partitions)):
                self._lead(number)

    # --- time ------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._timer.by(self._broker.tick.monotonic_ms)

    def _look(self) -> None:
        now_ms, limits = self._broker.tick.monotonic_ms, self._broker.limits
        for led in list(self._led.values()):
            try:
                led.look(now_ms)
            except Exception:  # its groups are read anew, from what is stored
                report_bug(self._broker.metrics, "the groups of a partition are read anew")
                led.close()
        if now_ms - self._swept_ms >= limits.group_sweep_ms:
            self._swept_ms = now_ms
            for led in self._led.values():
                led.sweep(expires=True)
        if any(not led.is_closed for led in self._led.values()):
            self._timer.by(self._swept_ms + limits.group_sweep_ms)
        self._work.turn()

    def _stop(self) -> None:
        """The broker stops: its clients look for another coordinator."""
        self._stopped = True
        for led in self._led.values():
            led.close()
        self._listing.close()


def _is_id(group_id: str) -> bool:
    """Whether records can hold this name of a group."""
    if 4 * len(group_id) <= _LONGEST_ID:
        return True
    return len(group_id.encode("utf-8", "surrogatepass")) <= _LONGEST_ID


def random_member_id(client_id: str) -> str:
    """Returns an id that no member has had, for a client, or a static member, of this name."""
    # Cut, because the whole must fit into the fields of records and answers, where the name alone just does.
    return f"{client_id[:_NAME_IN_ID]}-{uuid4()}"


def groups_of(broker: Broker) -> Groups:
    """Returns the groups of this broker; makes them at the first call, with the settings that stand in their
    place until then, or the usual ones."""
    groups = broker.groups
    if not isinstance(groups, Groups):
        settings = groups if isinstance(groups, GroupSettings) else GroupSettings()
        groups = broker.groups = Groups(broker, settings)
    return groups


def _is_there(broker: Broker, place: TopicPartition) -> bool:
    name, number = place
    topic = broker.link.view.topic(name)
    return topic is not None and 0 <= number < len(topic.partitions)
