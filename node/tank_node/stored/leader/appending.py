"""Appending a batch to a partition that this broker leads."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tank_node.broker.broker import Broker
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Completion
from tank_node.stored.outcome import StoredOutcome, of_refusal
from tank_node.stored.places import led_here
from tank_node.stored.results import Appended, Place
from tank_protos.topic_settings import TimestampType, TopicSettings

if TYPE_CHECKING:
    from tank_protos.kafka.record_batch import RecordBatchHeader


def append_stored(
    broker: Broker,
    place: Place,
    batch: memoryview,
    batch_format: int,
    told: Callable[[Appended], None],
    timeout_ms: int = 0,
) -> None:
    """Appends a batch. `told` gets the result once: when the high-water mark has passed it, or at once when
    it is refused.

    batch_format: of the batch, as in index records; the topic must store it. timeout_ms: how long to wait for
    replicas; 0: the default. `batch` must stay valid until the end of the tick; numbers may be written into
    it, and nothing else, so that it may be appended again if it is refused.
    """
    partition = led_here(broker, place)
    if isinstance(partition, StoredOutcome):
        told(Appended(partition))
        return
    if partition.refusal:
        told(Appended(of_refusal(partition.refusal)))
        return
    view = broker.link.view.topic_by_id(place[0])
    assert view is not None, "it has a partition that is led here"
    if broker.is_internal(view.name) or batch_format != partition.log.settings.format:
        told(Appended(StoredOutcome.REFUSED))
        return
    max_timestamp_ms = 0
    if partition.stores_record_batches:
        from tank_protos.kafka.errors import InvalidRecords, RecordsFault  # see segment.batch_formats

        if batch.readonly or view.settings.timestamp_type is TimestampType.LOG_APPEND_TIME:
            batch = memoryview(bytearray(batch))
        try:
            max_timestamp_ms = _checked(batch, view.settings, partition)
        except InvalidRecords as invalid:
            name = f"a record batch for {partition.topic_name}/{partition.number}"
            partition.refusals.note(invalid.reason, name, partition.tick.monotonic_ms)
            is_large = invalid.fault is RecordsFault.TOO_LARGE
            told(Appended(StoredOutcome.TOO_LARGE if is_large else StoredOutcome.REFUSED))
            return
    ack = StoredAck(broker, place, told)
    partition.append(batch, ack, 0, max_timestamp_ms=max_timestamp_ms, timeout_ms=timeout_ms)


class StoredAck(Completion):
    """The completion of one append."""

    __slots__ = ("_broker", "_place", "_told")

    def __init__(self, broker: Broker, place: Place, told: Callable[[Appended], None]) -> None:
        self._broker = broker
        self._place = place
        self._told = told

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        outcome = of_refusal(refusal)
        if refusal is Refusal.UNKNOWN_PARTITION:  # the topic went, or the replica: what was staged is dropped
            found = led_here(self._broker, self._place)
            outcome = found if isinstance(found, StoredOutcome) else StoredOutcome.NO_LEADER
        self._told(Appended(outcome, first, last))


def _checked(batch: memoryview, settings: TopicSettings, partition: Partition) -> int:
    """Checks a batch for a topic of Kafka's format, as one of a Kafka client is checked, but for its size,
    which the broker's limit bounds, and for the walk through its records, which a broker has made. Writes the
    time of the append into it where the topic wants it. Returns the greatest time of its records; 0: none has
    one. Raises InvalidRecords."""
    from tank_node.segment import produced_batch
    from tank_protos.kafka import record_batch
    from tank_protos.kafka.errors import invalid

    now_ms = partition.tick.now_ms
    header = produced_batch.checked_header(batch, settings, now_ms, partition.limits.bundle_bytes)
    if header.producer_id >= 0:
        raise invalid("a batch with a producer, which no session of another protocol has")
    produced_batch.check_earliest(header, settings, now_ms)
    if settings.cleanup_policy.compacts:
        _check_keys(batch, header, partition)
    if produced_batch.has_append_time(settings):
        record_batch.patch_append_time(batch, header, now_ms)
    return produced_batch.stored_time_ms(header, settings, now_ms)


def _check_keys(batch: memoryview, header: "RecordBatchHeader", partition: Partition) -> None:
    """Raises InvalidRecords if a record has no key: compaction needs them."""
    from tank_protos.kafka import record_batch, records
    from tank_protos.kafka.codecs import CODEC_MASK
    from tank_protos.wire.buffer import Buffer

    payload: Buffer = batch[record_batch.HEADER_BYTES :]
    if header.attributes & CODEC_MASK:
        payload = record_batch.payload_of(batch, header, max_bytes=partition.limits.bundle_bytes)
    records.walk(payload, header.records_count, header.last_offset_delta, keyed=True)
