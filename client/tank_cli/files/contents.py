"""The messages in stored batches of either format, TANK's and Kafka's."""

from typing import NamedTuple

from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK, MARKER, Record
from tank_protos import bundle
from tank_protos.kafka import record_batch
from tank_protos.kafka.limits import MAX_UNPACKED_BYTES
from tank_protos.kafka.records import Headers, placed_deltas
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError


class StoredMessage(NamedTuple):
    """One message of a log. Bundles of TANK have neither null values nor headers."""

    number: int
    timestamp_ms: int
    """-1: a Kafka client sent it without one."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def malformed(record: Record, content: memoryview) -> str:
    """How a batch, which matches its record's checksum, breaks the rules of its format, without unpacking
    it; empty when it does not."""
    try:
        if record.format == FORMAT_KAFKA:
            count, noun = record_batch.verify(content).records_count, "record batch"
        elif record.format == FORMAT_TANK and not record.flags & MARKER:
            count, noun = bundle.validate(content).messages, "bundle"
        else:
            return ""
    except WireError as error:
        noun = "record batch" if record.format == FORMAT_KAFKA else "bundle"
        return f"its {noun} is malformed: {error}"
    if count != record.messages:
        return f"its {noun} has {count} messages, its record says {record.messages}"
    return ""


def messages_in(record: Record, content: memoryview) -> list[StoredMessage]:
    """Decodes a batch; none of one that ends a transaction, or is of a format that this version doesn't know.
    Raises WireError."""
    if record.flags & MARKER:
        return []
    if record.format == FORMAT_TANK:
        _, start = varint.read(content, 0)
        return [StoredMessage(*message) for message in bundle.decode(content[start:], record.first)]
    if record.format != FORMAT_KAFKA:
        return []
    header = record_batch.read_header(content)
    columns = record_batch.columns_of(content, header, MAX_UNPACKED_BYTES)
    deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
    return [
        StoredMessage(
            record.first + delta,
            header.timestamp_ms(columns.timestamp_deltas[place]),
            columns.keys[place],
            columns.values[place],
            columns.headers.get(place, ()),
        )
        for place, delta in enumerate(deltas)
    ]
