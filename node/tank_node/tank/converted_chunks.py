"""Record batches of topics of Kafka's format as bundles, for TANK's clients: chunks that are made in memory
instead of sent from a file."""

from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.segment.errors import StorageError
from tank_node.segment.reading import bytes_of
from tank_node.segment.segment import FileRange
from tank_node.tank.converted_chunk import ConvertedChunk
from tank_protos import bundle
from tank_protos.kafka import record_batch, transcode
from tank_protos.kafka.record_batch import CONTROL, RecordBatchHeader
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

_MOST_READS = 16
"""The most ranges that one read passes over because they hold control batches alone. A range has up to
`Limits.converted_answer_bytes`, and a control batch 78."""


class ChunkConverter:
    """Makes the chunks of one answer, within its bound."""

    __slots__ = ("_left",)

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: the most unpacked bytes of all chunks, but for the first bundle of the first chunk."""
        self._left = most_bytes

    def convert(self, partition: Partition, found: FileRange) -> ConvertedChunk | Reach:
        """Returns the chunk for a range that was read from this partition, whose file is released, or a
        `Reach`.

        A control batch, or one that compaction has emptied, ends the chunk: its numbers are a hole, after
        which clients go on with the next chunk. WAIT: there is nothing else up to the high-water mark.
        UNREADABLE: the first batch can't be given to TANK's clients, and they must not miss it silently.
        """
        for _ in range(_MOST_READS):
            behind = found.last + 1
            try:
                chunk = self._chunk(partition, bytes_of(found))
            except StorageError as error:
                partition.note_error(error)
                return Reach.UNREADABLE
            except WireError as invalid:
                name = f"a record batch of {partition.topic_name}/{partition.number} at {found.first}"
                partition.refusals.note(invalid.reason, name, partition.tick.monotonic_ms)
                return Reach.UNREADABLE
            finally:
                found.file.release()
            if chunk is not None:
                return chunk
            try:
                more = partition.log.read(behind, self._left, partition.high_water_mark)
            except StorageError as error:
                partition.note_error(error)
                return Reach.UNREADABLE
            if more is None:
                break
            found = more
        return Reach.WAIT

    @property
    def is_spent(self) -> bool:
        """Whether the answer takes no more chunks."""
        return self._left <= 0

    def most(self, fetch_bytes: int) -> int:
        """The most stored bytes to read for a chunk of up to `fetch_bytes`."""
        return min(fetch_bytes, self._left)

    def _chunk(self, partition: Partition, data: bytes) -> ConvertedChunk | None:
        """Returns the bundles of the first batches; None if these have no messages for clients. Raises
        WireError if the first batch with messages can't be converted."""
        view = memoryview(data)
        made: list[bytes] = []
        first = following = at = 0
        sparse_first = False
        while at < len(data) and not (made and self._left <= 0):
            stop = at + record_batch.batch_bytes(view[at:])
            batch, at = view[at:stop], stop
            header = record_batch.read_header(batch)
            if header.attributes & CONTROL or not header.records_count:
                if made:
                    break
                continue
            number = header.base_offset + 1
            try:
                converted = self._bundle(partition, batch, header, sparse=bool(made) and number != following)
                _, start = varint.read(converted, 0)
                head = bundle.read_header(converted, start)
            except WireError:
                if made:
                    break
                raise
            if not made:
                first, sparse_first = number, head.sparse
            following = (head.last if head.sparse else number + head.span) + 1
            self._left -= varint.read(converted, head.body_offset)[0] if head.codec else len(converted)
            made.append(converted)
        return ConvertedChunk(b"".join(made), first, sparse_first) if made else None

    def _bundle(
        self, partition: Partition, batch: memoryview, header: RecordBatchHeader, *, sparse: bool
    ) -> bytes:
        found = partition.log.segments.find(header.base_offset + 1)
        assert found is not None, "a batch that was read has a record"
        segment, at = found
        append_ms = segment.index.record(at).append_ms
        converted = transcode.stored_to_tank(batch, header, append_ms=append_ms, sparse=sparse)
        metrics = partition.metrics
        metrics.converted["record_batch"] += 1
        metrics.converted_bytes["record_batch"] += len(converted.data)
        if any(converted.losses):
            metrics.converted["record_batch_lossy"] += 1
        return converted.data
