"""The groups of a partition as their records say, while these are read."""

from collections.abc import Iterator

from tank_node.coordinators.consumer.group_machines import GroupMachines
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.records.consumer_records import ConsumerImage, ConsumerRecord, KeyKind
from tank_node.coordinators.records.group_records import GroupRecord
from tank_node.coordinators.records.iggy_records import IggyImage, IggyRecord
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue


class GroupImages:
    """Takes records, the oldest first. Of a group that has had several protocols the record of the group that
    was written last counts."""

    __slots__ = ("_classic", "_consumers", "_iggy")

    def __init__(self) -> None:
        self._classic: dict[str, GroupMetadataValue] = {}
        self._consumers: dict[str, ConsumerImage] = {}
        self._iggy: dict[str, IggyImage] = {}

    def take(self, record: GroupRecord | ConsumerRecord | IggyRecord) -> None:
        """Takes over what a record says; it replaces an earlier one of its key."""
        group_id = record.group_id
        if isinstance(record, ConsumerRecord):
            image = self._consumers.setdefault(group_id, ConsumerImage())
            image.take(record.key, record.value)
            if record.key[0] is KeyKind.GROUP and record.value is not None:
                self._classic.pop(group_id, None)
            if image.is_gone:
                del self._consumers[group_id]
        elif isinstance(record, IggyRecord):
            self._iggy.pop(group_id, None)
            if record.value is not None:
                self._iggy[group_id] = record.value
        elif record.value is not None:
            self._classic[group_id] = record.value
            self._consumers.pop(group_id, None)
        else:
            self._classic.pop(group_id, None)

    def made(self, machines: GroupMachines, now_ms: int) -> Iterator[GroupMachine]:
        """The groups' machines; each image is forgotten when its machine is made."""
        while self._classic:
            group_id, classic = self._classic.popitem()
            yield machines.classic(group_id, classic, now_ms)
        while self._iggy:
            group_id, iggy = self._iggy.popitem()
            yield machines.iggy(group_id, iggy, now_ms)
        while self._consumers:
            group_id, consumers = self._consumers.popitem()
            if consumers.epoch:  # else the group itself is deleted, and a part of it is left
                yield machines.consumer(group_id, consumers, now_ms)
