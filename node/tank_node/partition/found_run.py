"""Batches for one partition that sessions found in received bytes during a tick, to be staged together."""

from tank_node.partition.waiters import Completion
from tank_protos.storage.produce_run import ProduceRun


class FoundRun:
    """The batches found for a partition and not staged yet; a part of `partition.Partition`.
    `Partition.expect` announces them, `Partition.stage_found` stages them."""

    __slots__ = ("acks", "batches", "timeout_ms")

    def __init__(self) -> None:
        self.batches = ProduceRun()
        """The batches. Its `walks` holds for all batches of the partition, also those not found this way."""
        self.acks: Completion | None = None
        """The completion of these batches; None: there are no batches."""
        self.timeout_ms = 0
        """How long the clients wait for the high-water mark; 0: the default."""

    def drop(self) -> Completion | None:
        """Drops the batches; returns their completion."""
        self.batches.clear()
        acks, self.acks = self.acks, None
        return acks
