"""Scrub: reads all stored batches of a broker again, a little at a time, to find bytes that the disk
changed."""

import logging
from collections.abc import Iterator

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.segment.errors import StorageError

logger = logging.getLogger(__name__)


class Scrubber:
    """Gives the partitions of a broker their turns of the scrub. Each turn has many short steps, because a
    step blocks the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: Iterator[Partition] = iter(())
        """Partitions whose turn in this round is still to come."""
        self._partition: Partition | None = None
        """The partition whose turn it is; None: the next step picks one."""
        self._turn_bytes = 0
        """Bytes left of that turn. A partition with more to check goes on in the next round."""
        self._due_bytes = 0
        """Bytes that the next step may check, at most `Limits.scrub_bytes`. A longer batch makes it negative,
        and the next steps check nothing until it is positive: so the rate holds for batches of any length."""

    def step(self) -> None:
        """Checks about `Limits.scrub_bytes`. Call it every `Limits.scrub_ms`, after the broker's
        `begin_tick`."""
        limits = self._broker.limits
        self._due_bytes = min(self._due_bytes + limits.scrub_bytes, limits.scrub_bytes)
        if self._due_bytes <= 0 or (partition := self._whose_turn()) is None:
            return
        self._partition = None  # after an error the next step goes on with another partition
        try:
            done = partition.log.scrub(limits.scrub_bytes)
        except StorageError as error:
            # Pauses the scrub, so that a failing disk doesn't fill the log with errors.
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
        """The partition to check now; None: this step found none to check."""
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
