"""All batch formats, by their number in records and in a topic's settings."""

from typing import Final

from tank_node.segment.batch_format import BatchFormat, InvalidBatch
from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK, SPARSE, Record
from tank_node.segment.tank_bundles import TankBundles
from tank_protos.wire.buffer import Buffer

_FORMATS: Final[dict[int, BatchFormat]] = {FORMAT_TANK: TankBundles()}


def format_of(number: int) -> BatchFormat:
    """The format with this number. Raises InvalidBatch when there is none.

    The first use of Kafka's format imports its codecs, which take 2 MB: a broker without such topics does
    without.
    """
    found = _FORMATS.get(number)
    if found is None:
        if number != FORMAT_KAFKA:
            raise InvalidBatch(f"no format of batches has the number {number}", "unknown_format")
        from tank_node.segment.kafka_batches import KafkaBatches

        found = _FORMATS[number] = KafkaBatches()
    return found


def last_in(record: Record, batch: Buffer) -> int:
    """The number of the last message in a batch, which may be below `record.last` after a compaction. -1: the
    batch can't be decoded."""
    if not record.flags & SPARSE:
        return record.last
    try:
        return format_of(record.format).last_in(batch)
    except InvalidBatch:
        return -1
