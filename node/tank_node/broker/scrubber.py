"""Reading all that a broker stores again, a little at a time, to find what its disk has spoiled."""

import logging
from collections.abc import Iterator

from tank_node.broker.broker import Broker
from tank_node.log.errors import StorageError
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition

logger = logging.getLogger(__name__)


class Scrubber:
    """Gives the partitions of a broker their turns of the scrub, in many short steps: a long one would hold
    everybody's messages up."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: Iterator[Partition] = iter(())
        """Those that have not had their turn in this round."""
        self._partition: Partition | None = None
        """Whose turn it is. None: the next one's."""
        self._turn_bytes = 0
        """What is left of that turn; then others are checked, and this one goes on in the next round."""
        self._due_bytes = 0
        """At most a step's. Below zero behind a batch that is longer: the next steps make up for it, so
        that no more is read in an hour however long the batches are."""

    def step(self) -> None:
        """Checks about `Limits.scrub_bytes`. Begin the broker's tick first, every `Limits.scrub_ms`."""
        limits = self._broker.limits
        self._due_bytes = min(self._due_bytes + limits.scrub_bytes, limits.scrub_bytes)
        if self._due_bytes <= 0 or (partition := self._whose_turn()) is None:
            return
        self._partition = None  # whatever comes: others are checked, too
        try:
            done = partition.log.scrub(limits.scrub_bytes)
        except StorageError as error:
            # A disk that fails is told of now and then, not always.
            self._due_bytes -= limits.scrub_turn_bytes
            partition.note_error(error)
            return
        self._due_bytes -= done.bytes
        self._turn_bytes -= done.bytes
        if done.bad:
            logger.error("%s/%d is damaged: %s", partition.topic_name, partition.number, done.bad)
            self._broker.metrics.refused["damaged_batch"] += 1
            partition.note_state()
            self._broker.roles.failed(partition)
        elif not done.wrapped and self._turn_bytes > 0:
            self._partition = partition

    def _whose_turn(self) -> Partition | None:
        """None: nobody's, before the next step."""
        if self._partition is not None and _has_something(self._partition):
            return self._partition
        limits = self._broker.limits
        self._partition = None
        for _ in range(limits.scrub_passes):
            partition = next(self._waiting, None)
            if partition is None:
                self._waiting = iter(list(self._broker.partitions()))
                return None
            if _has_something(partition):
                self._partition, self._turn_bytes = partition, limits.scrub_turn_bytes
                return partition
        return None


def _has_something(partition: Partition) -> bool:
    return partition.log.state is LogState.ACTIVE and partition.log.written > 0
