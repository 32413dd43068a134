"""The coordinator of consumer groups at one broker: what protocols ask.

A group belongs to a partition of the internal topic (`group_hash`), and is coordinated by the broker that
leads this. All methods are called on the event loop, within a tick. A `done` is called once, at once or
later."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

from tank_node.broker.broker import Broker
from tank_node.cluster.view import ChangeKind, TopicChange
from tank_node.coordinators.group_error import GroupError
from tank_node.coordinators.group_partition import Committed, GroupPartition
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
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.offsets_topic import Found, OffsetsTopic
from tank_node.replication.role import Role
from tank_protos.wire.names import GROUPS_TOPIC

logger = logging.getLogger(__name__)

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
        self._new_member_id = new_member_id or random_member_id
        self._topic = OffsetsTopic(broker, settings.topic_partitions)
        self._led: dict[int, GroupPartition] = {}
        """The partitions that this broker coordinates, by number; also some that have ended."""
        self._at_work: deque[GroupPartition] = deque()
        """Those that have long work to do, in turn."""
        self._timer = GroupTimer(broker, self._look, self._stop)
        self._swept_ms = broker.tick.monotonic_ms
        """When the last look at all offsets began."""
        self._stopped = False
        broker.link.on_change(self._changed)
        self._lead_all()

    # --- which broker ----------------------------------------------------------------------------

    def coordinator_of(self, group_id: str, done: Found) -> None:
        """Finds the broker that coordinates a group. Creates the internal topic at its first use. Errors:
        NOT_AVAILABLE."""
        self._topic.coordinator_of(group_id, done)

    def partition_of(self, group_id: str) -> int | None:
        """The number of the group's partition of the internal topic; None while there is none."""
        return self._topic.partition_of(group_id)

    # --- members ---------------------------------------------------------------------------------

    def join(self, request: JoinRequest, done: Callable[[JoinAnswer], None]) -> None:
        """Takes a member into its group's next generation; answers when that begins."""
        found = self._of(request.member.group_id)
        if not isinstance(found, GroupError) and not self._has_room(found, request.member.group_id):
            found = GroupError.NOT_AVAILABLE
        if isinstance(found, GroupError):
            done(JoinAnswer(found))
        else:
            found.join(request, done)

    def sync(self, request: SyncRequest, done: Callable[[SyncAnswer], None]) -> None:
        """Answers with a member's assignment, when it is stored."""
        found = self._of(request.member.group_id)
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

    # --- offsets ---------------------------------------------------------------------------------

    def commit(self, request: CommitRequest, done: Committed) -> None:
        """Stores offsets; each has its own error."""
        found = self._of(request.member.group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            done(dict.fromkeys(request.offsets, found))
            return
        if not self._has_room(found, request.member.group_id, request.offsets):
            done(dict.fromkeys(request.offsets, GroupError.NOT_AVAILABLE))
            return
        known = {place: each for place, each in request.offsets.items() if self._is_there(place)}
        if len(known) == len(request.offsets):
            found.commit(request, done)
            return
        unknown = dict.fromkeys(request.offsets.keys() - known.keys(), GroupError.UNKNOWN_TOPIC)
        known_request = CommitRequest(request.member, request.generation, known, request.unknown_group)
        found.commit(known_request, lambda results: done({**results, **unknown}))

    def _is_there(self, place: TopicPartition) -> bool:
        name, number = place
        topic = self._broker.link.view.topic(name)
        return topic is not None and 0 <= number < len(topic.partitions)

    def committed(
        self, group_id: str, places: Sequence[TopicPartition] | None
    ) -> tuple[GroupError, Mapping[TopicPartition, CommittedOffset]]:
        """The offsets of a group in these partitions, or in all (None); those without one are left out. What
        the high-water mark has not passed is not shown."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return found, {}
        return GroupError.NONE, found.committed(group_id, places)

    # --- administration --------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """A group with its members; DEAD if there is none."""
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            return DescribedGroup(found, group_id)
        return found.describe(group_id)

    def listed(self) -> tuple[GroupError, list[ListedGroup]]:
        """The groups that this broker coordinates. Errors: LOADING, with those that are read already."""
        self._lead_all()
        error = GroupError.NONE
        groups: list[ListedGroup] = []
        for led in self._led.values():
            if led.state is GroupError.LOADING:
                error = GroupError.LOADING
            elif not led.is_closed:
                groups += led.listed()
        return error, groups

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
        found = self._of(group_id, may_be_empty=True)
        if isinstance(found, GroupError):
            done(found, {})
        else:
            found.delete_offsets(group_id, places, done)

    # --- the partitions that this broker leads -----------------------------------------------------

    def _of(self, group_id: str, *, may_be_empty: bool = False) -> GroupPartition | GroupError:
        """What answers for a group, or why nothing does now."""
        if not group_id and not may_be_empty:
            return GroupError.INVALID_GROUP_ID
        number = self._topic.partition_of(group_id)
        led = None if number is None else self._lead(number)
        if led is None:
            return GroupError.NOT_COORDINATOR
        return led.state or led

    def _has_room(self, led: GroupPartition, group_id: str, places: Collection[TopicPartition] = ()) -> bool:
        """Whether this broker may hold the group, and its offsets in these places."""
        limits = self.settings.limits
        held = self._led.values()
        if group_id not in led.groups and sum(len(each.groups) for each in held) >= limits.groups:
            return False
        if sum(each.offsets for each in held) + len(places) <= limits.offsets:
            return True
        return len(led.committed(group_id, list(places))) == len(places)

    def _lead(self, number: int) -> GroupPartition | None:
        """The coordination of a partition, which begins when this broker leads it; None: it doesn't."""
        topic = self._broker.topics.get(GROUPS_TOPIC)
        partition = None if topic is None else topic.partitions.get(number)
        if partition is None or partition.role is not Role.LEADER or partition.unreadable or self._stopped:
            return None
        led = self._led.get(number)
        if led is None or led.is_closed or led.partition is not partition:
            led = self._led[number] = GroupPartition(
                self._broker, partition, self.settings, self._new_member_id, self._timer.by, self._works
            )
        return led

    def _lead_all(self) -> None:
        topic = self._broker.topics.get(GROUPS_TOPIC)
        for number in () if topic is None else tuple(topic.partitions):
            self._lead(number)

    def _changed(self, change: TopicChange) -> None:
        """The view has changed; the broker's replicas have their roles already."""
        if change.kind is ChangeKind.DELETED:
            for led in self._led.values():
                led.forget_topic(change.topic.name)
        elif change.topic.name == GROUPS_TOPIC:
            for number in change.partitions or range(len(change.topic.partitions)):
                self._lead(number)

    # --- time ------------------------------------------------------------------------------------

    def _works(self, led: GroupPartition) -> None:
        if led not in self._at_work:
            self._at_work.append(led)
        self._timer.by(self._broker.tick.monotonic_ms)

    def _look(self) -> None:
        now_ms, limits = self._broker.tick.monotonic_ms, self._broker.limits
        for led in list(self._led.values()):
            self._try(led, partial(led.look, now_ms))
        if now_ms - self._swept_ms >= limits.group_sweep_ms:
            self._swept_ms = now_ms
            for led in self._led.values():
                led.sweep()
        if any(not led.is_closed for led in self._led.values()):
            self._timer.by(self._swept_ms + limits.group_sweep_ms)
        # One at a time, however many partitions this broker begins to lead at once.
        if self._at_work:
            led = self._at_work.popleft()
            self._try(led, partial(self._slice, led))
            if self._at_work:
                self._timer.by(now_ms)

    def _slice(self, led: GroupPartition) -> None:
        if led.slice():
            self._at_work.append(led)

    def _try(self, led: GroupPartition, work: Callable[[], None]) -> None:
        """Does work for one partition. After a bug its groups are read anew, from what is stored."""
        try:
            work()
        except Exception:
            logger.exception("a bug of ours: the groups of a partition are read anew, please report it")
            led.close()

    def _stop(self) -> None:
        """The broker stops: its clients look for another coordinator."""
        self._stopped = True
        for led in self._led.values():
            led.close()


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
