"""Iggy's groups, and the brokers that are registered, as a test says."""

from tank_node.coordinators.machine.iggy_requests import IggyKnown


class KnownIggys(IggyKnown):
    """One topic's groups; every broker is alive in its newest epoch that was heard of."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.is_deleted = False
        self.lost: set[tuple[int, int]] = set()
        """Processes of brokers that are fenced, or were replaced."""

    def place_of(self, group_id: str) -> tuple[str, int] | None:
        return None if self.is_deleted else ("main.orders", self.partitions)

    @property
    def is_in_force(self) -> bool:
        return True

    def was_deleted(self, group_id: str) -> bool:
        return self.is_deleted

    def is_alive(self, broker: int, epoch: int) -> bool:
        return (broker, epoch) not in self.lost
