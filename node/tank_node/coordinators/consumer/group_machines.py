"""Makes the machines of groups."""

from collections.abc import Callable

from tank_node.coordinators.classic.classic_group import ClassicGroup
from tank_node.coordinators.consumer.consumer_group import ConsumerGroup
from tank_node.coordinators.consumer.group_migration import GroupMigration
from tank_node.coordinators.iggy.iggy_group import IggyGroupMachine
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.iggy_requests import IggyKnown
from tank_node.coordinators.machine.topics import Topics
from tank_node.coordinators.records.consumer_records import ConsumerImage
from tank_node.coordinators.records.iggy_records import IggyImage
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue
from tank_protos.wire.names import is_iggys_group


class GroupMachines:
    """The machines of one broker's groups, with what all of them share."""

    __slots__ = ("_known", "_migration", "_new_member_id", "_topics", "settings")

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        known: IggyKnown,
        new_member_id: Callable[[str], str],
    ) -> None:
        """known: what there is of Iggy's groups. new_member_id: makes an id that no other member has, which
        begins with its argument."""
        self.settings = settings
        self._migration = GroupMigration(settings, topics, new_member_id)
        self._topics = topics
        self._known = known
        self._new_member_id = new_member_id

    def new(self, group_id: str) -> GroupMachine:
        """A group that no member has joined."""
        if is_iggys_group(group_id) and self._known.is_in_force:
            return IggyGroupMachine(group_id, self._known, self.settings.limits)
        return ClassicGroup(group_id, self.settings, self._new_member_id)

    def classic(self, group_id: str, image: GroupMetadataValue, now_ms: int) -> ClassicGroup:
        """A group of the classic protocol as it is stored."""
        return ClassicGroup.from_image(group_id, self.settings, self._new_member_id, image, now_ms)

    def consumer(self, group_id: str, image: ConsumerImage, now_ms: int) -> ConsumerGroup:
        """A group of the consumer protocol as it is stored."""
        return ConsumerGroup.from_image(
            group_id, self.settings, self._topics, self._new_member_id, image, now_ms
        )

    def iggy(self, group_id: str, image: IggyImage, now_ms: int) -> IggyGroupMachine:
        """A group of Iggy's clients as it is stored."""
        return IggyGroupMachine.from_image(group_id, self._known, self.settings.limits, image, now_ms)

    def converted(self, machine: GroupMachine, now_ms: int, wall_ms: int) -> GroupMachine | None:
        """The group's machine of the other protocol; None if it can't have one. Members of a group of the
        consumer protocol have all left, or speak the classic protocol."""
        if isinstance(machine, ClassicGroup):
            return self._migration.upgraded(machine, now_ms)
        if not isinstance(machine, ConsumerGroup):
            return None  # Iggy's stay what they are
        if machine.has_nobody:
            return self._migration.emptied(machine, now_ms, wall_ms)
        return self._migration.downgraded(machine, now_ms, wall_ms)
