"""Logs that are compacted."""

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.batch_formats import format_of
from tank_node.segment.record import FORMAT_KAFKA
from tank_node.segment.segment import LOG
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord, iterate
from tests.support.storage.logs import Folder, append
from tests.support.values.kafka_records import STAMP_MS

SETTINGS = LogSettings(segment_bytes=120, compact=True, min_cleanable_ratio=0.0)


Keyed = list[tuple[bytes | None, bytes]]


def put(log: PartitionLog, messages: Keyed) -> None:
    append(log, *[value for _, value in messages], keys=[key for key, _ in messages], now_ms=1000)


def put_records(
    log: PartitionLog,
    *entries: tuple[bytes, bytes | None],
    now_ms: int = 1000,
    producer: tuple[int, int, int] = (0, 0, 0),
) -> None:
    """Appends a record batch of these keys and values to a log of such batches; `producer` is id, epoch,
    sequence.
    """
    made = [KafkaRecord(key, value, place, place) for place, (key, value) in enumerate(entries)]
    kafka = format_of(FORMAT_KAFKA)
    sent = memoryview(bytearray(record_batch.encode(made, base_timestamp_ms=STAMP_MS)))
    info = kafka.judge(sent, True)
    stored, first, span, flags = kafka.number(sent, info, None, log.last, 1)
    log.tail.stage(
        stored,
        messages=info.messages,
        first=first,
        span=span,
        max_timestamp_ms=info.timestamp_ms,
        leader_epoch=1,
        now_ms=now_ms,
        flags=flags,
        producer_id=producer[0],
        producer_epoch=producer[1],
        producer_sequence=producer[2],
    )
    log.tail.write()


def records_of(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Number -> key and value of all records in a log of record batches."""
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    for segment in log.segments.list:
        for record in segment.index.records():
            fd = log.disk.open(segment.path(LOG))
            batch = log.disk.read_at(fd, record.length, record.position)
            log.disk.close(fd)
            header = record_batch.verify(memoryview(batch))
            for each in iterate(record_batch.payload_of(batch, header), header.records_count):
                found[header.base_offset + 1 + each.offset_delta] = each.key, each.value
    return found


def compacted(folder: Folder) -> PartitionLog:
    log = folder.log()
    log.flush()
    maintain(log, 1000, log.last)
    return log
