"""Whether a broker may hold more groups, members and offsets."""

from tank_node.broker.broker import Broker
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.machine.consumer_requests import JOINS, ConsumerHeartbeat
from tank_node.coordinators.machine.group_memory import (
    GROUP_BYTES,
    MEMBER_BYTES,
    OFFSET_BYTES,
    GroupMemory,
    text_bytes,
)
from tank_node.coordinators.machine.group_requests import CommitRequest, JoinRequest, SyncRequest
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.iggy_requests import BrokerSaid
from tank_protos.wire.names import IGGY_CONSUMER_PREFIX

_MOST_BYTES_OF_A_CHARACTER = 4


class GroupRoom:
    """Compares what requests add with the limits of a broker. What is on its way into the log counts when it
    is there, so that a tick's requests may exceed the limits a little."""

    __slots__ = ("_broker", "_settings", "memory")

    def __init__(self, broker: Broker, settings: GroupSettings) -> None:
        self._broker = broker
        self._settings = settings
        self.memory = GroupMemory()
        """What all groups of the broker take."""

    def for_join(self, led: GroupPartition, request: JoinRequest) -> bool:
        """Whether a member may join, with what it says."""
        group = led.groups.get(request.member.group_id)
        if group is None:
            said = sum(len(name) + len(metadata) for name, metadata in request.protocols)
            added = GROUP_BYTES + MEMBER_BYTES + said
        else:
            added = group.members.added_by(request)
        return self.has(led, request.member.group_id, 0, added)

    def for_heartbeat(self, led: GroupPartition, heartbeat: ConsumerHeartbeat) -> bool:
        """Whether a member of the consumer protocol may join."""
        if heartbeat.member_epoch != JOINS:
            return True
        said = sum(map(len, heartbeat.topics or ()))
        return self.has(led, heartbeat.group_id, 0, GROUP_BYTES + MEMBER_BYTES + said)

    def for_iggys(self, led: GroupPartition, group_id: str, said: BrokerSaid) -> bool:
        """Whether a broker's members of one of Iggy's groups may be held. Those that are known may."""
        group = led.groups.get(group_id)
        held = 0 if group is None else group.members.figures().members
        more = max(len(said.members) - held, 0)
        return self.has(led, group_id, 0, (GROUP_BYTES if group is None else 0) + more * MEMBER_BYTES)

    def for_position(self, led: GroupPartition, consumer: str) -> bool:
        """Whether a position of one of Iggy's consumers or groups may be held that is not there yet."""
        limits, held = self._settings.limits, led.memory.consumers
        if not consumer.startswith(IGGY_CONSUMER_PREFIX):
            return self.has(led, consumer, 1, OFFSET_BYTES)
        if consumer not in led.groups and held.groups >= limits.iggy_consumers:
            what = f"{held.groups} of Iggy's consumers"
        elif held.offsets >= limits.iggy_positions:
            what = f"{held.offsets} positions of Iggy's consumers"
        else:
            return self.has(led, consumer, 1, OFFSET_BYTES)
        line = f"partition {led.partition.number} of the groups holds {what}: delete some"
        self._broker.refusals.note("groups_full", line, self._broker.tick.monotonic_ms)
        return False

    def for_sync(self, led: GroupPartition, request: SyncRequest) -> bool:
        """Whether a leader's assignments may be held."""
        group = led.groups.get(request.member.group_id)
        if group is None or not request.assignments:
            return True
        return self.has(led, group.group_id, 0, group.members.added_by(request))

    def for_commit(self, led: GroupPartition, request: CommitRequest) -> bool:
        """Whether offsets may be held."""
        group_id, offsets = request.member.group_id, request.offsets
        limits, memory = self._settings.limits, self.memory
        most = OFFSET_BYTES + _MOST_BYTES_OF_A_CHARACTER * self._settings.offset_metadata_length
        if (
            group_id in led.groups
            and memory.offsets + len(offsets) <= limits.offsets
            and memory.held_bytes + len(offsets) * most <= limits.held_bytes
        ):
            return True
        group = led.groups.get(group_id)
        new = added = 0
        for place, offset in offsets.items():
            before = None if group is None else group.offsets.get(place)
            added += text_bytes(offset.metadata)
            if before is None:
                new += 1
                added += OFFSET_BYTES
            else:
                added -= text_bytes(before.metadata)
        return self.has(led, group_id, new, added)

    def has(self, led: GroupPartition, group_id: str, offsets: int, added: int) -> bool:
        """Whether there is room for a group, so many new offsets, and so many bytes. What adds nothing has
        room."""
        limits, memory = self._settings.limits, self.memory
        if group_id not in led.groups and memory.groups >= limits.groups:
            what = f"{memory.groups} groups"
        elif offsets > 0 and memory.offsets + offsets > limits.offsets:
            what = f"{memory.offsets} committed offsets"
        elif added > 0 and memory.held_bytes + added > limits.held_bytes:
            what = f"{memory.held_bytes} bytes of groups"
        else:
            return True
        self._broker.refusals.note(
            "groups_full", f"this broker holds {what}: delete some", self._broker.tick.monotonic_ms
        )
        return False
