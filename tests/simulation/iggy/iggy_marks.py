"""The guarantees about stored offsets of Iggy's consumers, checked against the committed records of the
internal topic: they don't go back but by an explicit store, and no deposed leader sets one."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from tank_node.coordinators.records import group_records
from tank_node.coordinators.records.group_records import TOPIC_ID, OffsetRecord
from tank_protos.kafka import record_batch, records
from tank_protos.wire.names import is_iggys_group
from tests.simulation.books.committed import Key
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.stored_batches import Batch
from tests.simulation.world.world import must


class Mark(NamedTuple):
    """A stored offset, as the log has it."""

    committed: int | None
    """The offset of the message that comes next; None: it was deleted."""
    epoch: int
    """Of the partition's leader that stored it."""


class MarkPlace(NamedTuple):
    """A consumer and a partition."""

    consumer: str
    """The name of the group under which its positions are kept."""
    topic_id: int
    partition: int


@dataclass(slots=True)
class IggyMarks:
    """All of a story."""

    books: MessageBooks
    history: dict[MarkPlace, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    """All that was ever committed, in the log's order."""
    explicit: dict[MarkPlace, set[int]] = field(default_factory=lambda: defaultdict(set))
    """What clients have asked to store, answered or not."""
    floors: dict[Key, int] = field(default_factory=dict)
    """Of numbers of partitions that were removed: what the leader epochs of later ones are above."""

    def committed(self, key: Key, batch: Batch) -> None:
        """A batch of the internal topic is committed. key: its partition there."""
        data = memoryview(batch.data)
        header = record_batch.verify(data)
        columns = records.read_columns(record_batch.payload_of(data, header), header.records_count)
        for at, (name, value) in enumerate(zip(columns.keys, columns.values, strict=True)):
            read = group_records.read(name, value)
            if not isinstance(read, OffsetRecord) or not is_iggys_group(read.group_id):
                continue
            if read.offset is None:
                self._deleted(read)
                continue
            given = {name: value for name, value in columns.headers.get(at, ()) if value is not None}
            topic_id = int.from_bytes(given.get(TOPIC_ID, b""), "big")
            place = MarkPlace(read.group_id, topic_id, read.partition)
            self._store(key, place, Mark(read.offset.offset, read.offset.leader_epoch))

    def _deleted(self, record: OffsetRecord) -> None:
        """A record without an offset does not say of which of the topics that have had this name."""
        for place, marks in self.history.items():
            if marks and (place.consumer, place.partition) == (record.group_id, record.partition):
                marks.append(Mark(None, marks[-1].epoch))

    def _store(self, key: Key, place: MarkPlace, mark: Mark) -> None:
        marks = self.history[place]
        before = marks[-1] if marks else None
        if before is not None and self._is_judged(key):
            must(mark.epoch >= before.epoch, "%s: the leader of epoch %s stores %s, after that of %s",
                 place, mark.epoch, mark.committed, before.epoch)  # fmt: skip
            floor = self.floors.get((place.topic_id, place.partition), -1)
            is_another = before.epoch <= floor < mark.epoch
            must(
                before.committed is None
                or mark.committed is None
                or mark.committed >= before.committed
                or mark.committed in self.explicit[place]
                or is_another,
                "%s: the stored offset goes back from %s to %s, and nobody asked for it",
                place, before.committed, mark.committed,
            )  # fmt: skip
        marks.append(mark)

    def _is_judged(self, key: Key) -> bool:
        """Whether the log is what coordinators have read."""
        books = self.books.of(key)
        return not (self.books.are_positions_lost or books.waits or books.changed)

    @property
    def may_be_lost(self) -> bool:
        """Whether stored offsets may be gone."""
        return self.books.are_positions_lost
