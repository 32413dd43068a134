"""Looks through all offsets of a partition's groups for those that go, in steps that are short enough for an
event loop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.cluster.view import PartitionView
from tank_node.coordinators.group import Group
from tank_node.coordinators.iggy.iggy_group import IggyGroupMachine
from tank_node.coordinators.machine.committed_offset import NO_EPOCH, NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.offsets.offset_expiry import expiry_of
from tank_node.coordinators.records.kept_offset import ID_BYTES, NO_ID, offset_of, topic_id_of

_STEP: Final = 256
"""How many offsets of a group a step looks at: some 200 µs, or more if all of them go."""
_MORE_THAN_ANY: Final = 2**31
"""More partitions than a topic can have."""


class OffsetSweep:
    """Finds the offsets that were not used for long, those of deleted topics and partitions, and the groups
    of which nothing is left."""

    __slots__ = ("_broker", "_delete", "_expires", "_forget", "_groups", "_is_wanted", "_settings")

    def __init__(
        self,
        broker: Broker,
        settings: GroupSettings,
        groups: Mapping[str, Group],
        forget: Callable[[Group, Sequence[TopicPartition]], None],
        delete: Callable[[Group], None],
    ) -> None:
        """forget: deletes these offsets, a bounded number of them. delete: deletes a group without any, or
        one of Iggy's that is gone."""
        self._broker = broker
        self._settings = settings
        self._groups = groups
        self._forget = forget
        self._delete = delete
        self._is_wanted = self._expires = False
        """Whether a look begins when that which is under way has ended, and whether it is for what was not
        used for long, too."""

    def ask(self, *, expires: bool) -> None:
        """Asks for a look, behind one that is under way. expires: whether it is for offsets and groups that
        were not used for long, too; else for offsets of deleted topics alone."""
        self._is_wanted = True
        self._expires = self._expires or expires

    def is_gone(self, number: int, offset: CommittedOffset) -> bool:
        """Whether the topic of an offset was deleted, where one of the same name may be there now; or the
        partition that it was committed for was removed, where there may be another one of its number."""
        left, anew = self._left_of(offset.topic_id)
        return number >= left or (bool(anew) and _is_of_earlier(offset, anew[number]))

    def _left_of(self, topic_id: int) -> tuple[int, Sequence[PartitionView]]:
        """From which number on partitions of a topic are gone, and those below if some may be made anew."""
        view = self._broker.link.view
        topic = view.topic_by_id(topic_id)
        if topic is not None:
            return len(topic.partitions), topic.partitions if topic.epoch_floor else ()
        is_deleted = topic_id != NO_TOPIC_ID and view.was_deleted(topic_id)
        return 0 if is_deleted else _MORE_THAN_ANY, ()

    def steps(self) -> Iterator[None]:
        """Looks at some offsets at each step, until no more are asked for."""
        while self._is_wanted:
            expires = self._expires
            self._is_wanted = self._expires = False
            for group in list(self._groups.values()):
                if self._groups.get(group.group_id) is not group:
                    continue
                if isinstance(group.members, IggyGroupMachine) and group.members.is_gone:
                    self._delete(group)
                    yield
                    continue
                found = False
                for gone in self._of(group, expires):
                    if gone:
                        found = True
                        self._forget(group, gone)
                    yield
                if expires and not found and group.is_stored and group.is_over:
                    if group.members.state is GroupState.EMPTY:
                        self._delete(group)
                    yield

    def _of(self, group: Group, expires: bool) -> Iterator[list[TopicPartition]]:
        """The group's offsets that go, in parts."""
        members, offsets = group.members, group.offsets
        places = list(offsets)
        wall_ms, retention_ms = self._broker.tick.now_ms, self._settings.offsets_retention_ms
        seen = members.figures()
        expiry = expiry_of(members, wall_ms, retention_ms) if expires else None
        last_id = NO_ID
        left, anew = self._left_of(NO_TOPIC_ID)
        for first in range(0, len(places), _STEP):
            now = members.figures()
            if expires and now != seen:  # a member came or went between two steps
                seen = now
                expiry = expiry_of(members, wall_ms, retention_ms)
            gone = []
            for place in places[first : first + _STEP]:
                kept = offsets.kept(place)
                if kept is None or offsets.is_changing(place):
                    continue
                if not kept.endswith(last_id):  # most neighbours are of one topic
                    last_id = kept[-ID_BYTES:]
                    left, anew = self._left_of(topic_id_of(kept))
                if place[1] >= left:
                    gone.append(place)
                elif anew or expiry is not None:
                    offset = offset_of(kept)
                    if (anew and _is_of_earlier(offset, anew[place[1]])) or (
                        expiry is not None and expiry.takes(place, offset)
                    ):
                        gone.append(place)
            yield gone


def _is_of_earlier(offset: CommittedOffset, placed: PartitionView) -> bool:
    """Whether an offset was committed for an earlier partition of this number. One without an epoch counts
    as the present one's: nothing says when either began."""
    return NO_EPOCH < offset.leader_epoch < placed.first_epoch
