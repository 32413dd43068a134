"""The changes of groups, on their way into the log of the groups' partition.

A change is one or several records, which are appended together. It takes effect, and is answered, when the
high-water mark has passed them: what a client was told outlives this broker, and no reader sees what may yet
get lost. All changes of a tick are one batch.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.records import group_records
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.replication.role import Role

_ERRORS: Final = {
    Refusal.NOT_ENOUGH_REPLICAS: GroupError.NOT_AVAILABLE,
    Refusal.NOT_ACKNOWLEDGED_IN_TIME: GroupError.NOT_AVAILABLE,
    Refusal.STORAGE: GroupError.NOT_AVAILABLE,
    Refusal.DAMAGED: GroupError.NOT_AVAILABLE,
    Refusal.TOO_LARGE: GroupError.TOO_LARGE,
}
"""The errors of appends that a leader refuses. Any other reason says that this broker doesn't lead."""


class GroupChange:
    """Records that belong together, and what is done when they are stored."""

    __slots__ = ("_done", "_ended", "records", "size_bytes", "topic_ids")

    def __init__(
        self,
        records: Sequence[StoredRecord],
        ended: Callable[[bool], None],
        done: Callable[[GroupError], None],
        topic_ids: Sequence[int] = (),
    ) -> None:
        """ended: makes the change in memory (True: the mark has passed its records), or gives it up (False:
        they are not in the log); not called when this broker stops to coordinate before. done: the answer,
        which may be a late one's, so that it says NOT_AVAILABLE and the change is made afterwards. Each is
        called once. topic_ids: those of the offsets in the records, one for each; empty: none is known."""
        self.records = records
        self.topic_ids = topic_ids
        self.size_bytes = sum(len(key) + (0 if value is None else len(value)) for key, value in records)
        self._ended = ended
        self._done: Callable[[GroupError], None] | None = done

    def end(self, *, is_stored: bool) -> None:
        """Makes the change, or gives it up."""
        self._ended(is_stored)

    def answer(self, error: GroupError) -> None:
        """Answers, unless that was done before."""
        done, self._done = self._done, None
        if done is not None:
            done(error)


class _Batch:
    """Changes that are appended together."""

    __slots__ = ("changes", "last")

    def __init__(self, changes: list[GroupChange]) -> None:
        self.changes = changes
        self.last = 0
        """The number of the last record; 0: it has none yet."""


class GroupLog:
    """The writing half of one led partition of the internal topic. A change whose end or answer fails by a
    mistake of ours is counted, and leaves the others alone."""

    __slots__ = ("_batches", "_broker", "_changes", "_closed", "_partition", "_tokens")

    def __init__(self, broker: Broker, partition: Partition) -> None:
        self._broker = broker
        self._partition = partition
        self._closed = GroupError.NONE
        self._changes: list[GroupChange] = []
        """The changes of this tick."""
        self._batches: dict[int, _Batch] = {}
        """The batches that the mark has not passed, by their tokens, which rise."""
        self._tokens = itertools.count(1)

    def append(self, change: GroupChange) -> None:
        """Appends a change, with all others of this tick."""
        if self._closed:
            self._end(change, self._closed)
        elif change.size_bytes > self._broker.limits.group_change_bytes:
            self._end(change, GroupError.TOO_LARGE)
        else:
            if not self._changes:
                self._broker.do_early(self._append_all)
            self._changes.append(change)

    def _append_all(self) -> None:
        """Appends the changes of this tick, in as few batches as the limit allows."""
        changes, self._changes = self._changes, []
        most = self._broker.limits.group_batch_bytes
        batch: list[GroupChange] = []
        size = 0
        for change in changes:
            if batch and size + change.size_bytes > most:
                self._append(batch)
                batch, size = [], 0
            batch.append(change)
            size += change.size_bytes
        if batch:
            self._append(batch)

    def _append(self, changes: list[GroupChange]) -> None:
        """Appends changes as one batch. Where that can't be made, each becomes one of its own, so that only
        the one that is to blame fails."""
        if self._closed:
            for change in changes:
                self._end(change, self._closed)
            return
        broker = self._broker
        now_ms = broker.tick.now_ms
        token = next(self._tokens)
        try:
            made = _batch_of(changes, now_ms)
            batch = self._batches[token] = _Batch(changes)
            self._partition.append(
                made, self, token, max_timestamp_ms=now_ms, timeout_ms=broker.limits.group_append_ms
            )
            batch.last = self._partition.log.tail.last
        except Exception:
            was_made = self._batches.pop(token, None) is not None
            if len(changes) > 1 and not was_made:
                for change in changes:
                    self._append([change])
                return
            report_bug(broker.metrics, "changes of groups are not stored")
            for change in changes:
                self._end(change, GroupError.NOT_AVAILABLE)

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        """As `Completion`, for one batch."""
        if not refusal:
            self.pass_mark()
            return
        batch = self._batches.get(token)
        if batch is None:
            return
        error = GroupError.NOT_COORDINATOR
        if self._partition.role is Role.LEADER:
            error = _ERRORS.get(refusal, error)
        if refusal is Refusal.NOT_ACKNOWLEDGED_IN_TIME:
            for change in batch.changes:
                self._answer(change, error)
        else:
            del self._batches[token]
            for change in batch.changes:
                self._end(change, error)

    def pass_mark(self) -> None:
        """Makes the changes that the high-water mark has passed."""
        mark = self._partition.high_water_mark
        while self._batches:
            token, batch = next(iter(self._batches.items()))
            if not 0 < batch.last <= mark:
                return
            del self._batches[token]
            for change in batch.changes:
                self._end(change, GroupError.NONE)

    def close(self, error: GroupError) -> None:
        """Answers all waiting requests with this error. The next coordinator says which changes were made."""
        self._closed = error
        changes, self._changes = self._changes, []
        changes += [change for batch in self._batches.values() for change in batch.changes]
        self._batches.clear()
        for change in changes:
            self._answer(change, error)

    def _end(self, change: GroupChange, error: GroupError) -> None:
        """Makes a change (NONE) or gives it up, and answers."""
        try:
            change.end(is_stored=not error)
        except Exception:
            report_bug(self._broker.metrics, "a change of a group is not made")
            error = error or GroupError.NOT_AVAILABLE
        self._answer(change, error)

    def _answer(self, change: GroupChange, error: GroupError) -> None:
        try:
            change.answer(error)
        except Exception:
            report_bug(self._broker.metrics, "a change of a group is not answered")


def _batch_of(changes: Sequence[GroupChange], now_ms: int) -> memoryview:
    """The record batch of these changes, in memory that the partition may write its numbers into."""
    stored: list[StoredRecord] = []
    topic_ids: dict[int, int] = {}
    for change in changes:
        if change.topic_ids:
            topic_ids.update(enumerate(change.topic_ids, len(stored)))
        stored += change.records
    return memoryview(bytearray(group_records.batch_of(stored, now_ms, topic_ids)))
