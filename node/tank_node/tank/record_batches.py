"""ProduceRecordBatches (79): stores each record batch once, as it came, and answers with the messages'
numbers."""

from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.broker.broker import Topic
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Completion, ProducerStamp
from tank_node.tank.idempotent import NumberedReply, append_once, bound_entries
from tank_protos.generated.tank import (
    IdempotentPartition,
    ProduceRecordBatchesRequest,
    ProduceRecordBatchesResponse,
    RecordBatchesPartition,
    RecordBatchesPartitionResult,
)
from tank_protos.topic_settings import TopicSettings
from tank_protos.wire.buffer import Buffer

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession
    from tank_protos.kafka.record_batch import RecordBatchHeader

_ENTRY_BYTES: Final = 10
_MOST_SENTENCE: Final = 1_000
"""The most characters of a reason in an answer; the longest that is known has some 200."""

_Entry: TypeAlias = IdempotentPartition | RecordBatchesPartition


def produce_record_batches(session: "TankSession", payload: memoryview) -> None:
    """Appends each record batch once, and answers with the numbers. Only topics of Kafka's format take them:
    others would have to drop what bundles can't hold, which a client that asks for this does not want."""
    bound_entries(
        payload, session.limits.produce_entries, ProduceRecordBatchesRequest.count_partitions, _ENTRY_BYTES
    )
    request = ProduceRecordBatchesRequest.decode(payload)
    session.client_id = request.client_id
    answer = ProduceRecordBatchesResponse(request.request_id)
    reply = NumberedReply(session, answer, "produce_record_batches")
    append_once(session, request, reply, _RecordsAppend(reply))


class _RecordsAppend:
    """Appends the entries of one request."""

    __slots__ = ("_left", "_reply")

    def __init__(self, reply: NumberedReply) -> None:
        from tank_protos.kafka.limits import MAX_UNPACKED_BYTES  # see segment.batch_formats

        self._reply = reply
        self._left = MAX_UNPACKED_BYTES
        """What the batches that are unpacked may still have, all of the request together."""

    def append(
        self,
        topic: Topic,
        partition: Partition,
        entry: _Entry,
        completion: Completion,
        token: int,
        *,
        producer: ProducerStamp | None,
        timeout_ms: int,
    ) -> None:
        """Checks and appends one batch, or completes it with a refusal and its reason."""
        from tank_protos.kafka.errors import InvalidRecords, RecordsFault  # see segment.batch_formats

        assert isinstance(entry, RecordBatchesPartition)
        assert isinstance(entry.batch, memoryview)
        if partition.refusal or not partition.stores_record_batches:
            completion.complete(token, partition.refusal or Refusal.OTHER_FORMAT, 0, 0)
            return
        batch, settings, now_ms = entry.batch, topic.view.settings, partition.tick.now_ms
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        try:
            max_timestamp_ms = self._checked(batch, settings, now_ms, partition.limits.bundle_bytes)
        except InvalidRecords as invalid:
            result = self._reply.results[token]
            assert isinstance(result, RecordBatchesPartitionResult)
            result.message = str(invalid)[:_MOST_SENTENCE]
            name = f"a record batch for {partition.topic_name}/{partition.number}"
            partition.refusals.note(invalid.reason, name, partition.tick.monotonic_ms)
            is_large = invalid.fault is RecordsFault.TOO_LARGE
            completion.complete(token, Refusal.TOO_LARGE if is_large else Refusal.INVALID_BATCH, 0, 0)
            return
        partition.append(
            batch,
            completion,
            token,
            max_timestamp_ms=max_timestamp_ms,
            producer=producer,
            timeout_ms=timeout_ms,
        )

    def _checked(self, batch: memoryview, settings: TopicSettings, now_ms: int, most_bytes: int) -> int:
        """Checks a batch for a topic of Kafka's format as one of a Kafka client is checked, but for its size,
        which the broker's limit bounds, as for all of TANK's clients. Writes the time of the append into it
        where the topic wants it. Returns the greatest time of its records, 0: none has one. Raises
        InvalidRecords."""
        from tank_node.segment import produced_batch
        from tank_protos.kafka import record_batch
        from tank_protos.kafka.errors import invalid

        header = produced_batch.checked_header(batch, settings, now_ms, most_bytes)
        if header.producer_id >= 0:
            raise invalid("a batch that names a producer in its header, where the request names it")
        produced_batch.check_earliest(header, settings, now_ms)
        if produced_batch.walks_records(header, settings):
            self._walk(batch, header, settings)
        if produced_batch.has_append_time(settings):
            record_batch.patch_append_time(batch, header, now_ms)
        return produced_batch.stored_time_ms(header, settings, now_ms)

    def _walk(self, batch: memoryview, header: "RecordBatchHeader", settings: TopicSettings) -> None:
        """Reads through the records."""
        from tank_protos.kafka import record_batch, records
        from tank_protos.kafka.codecs import CODEC_MASK
        from tank_protos.kafka.errors import InvalidRecords

        payload: Buffer = batch[record_batch.HEADER_BYTES :]
        if header.attributes & CODEC_MASK:
            try:
                payload = record_batch.payload_of(batch, header, max_bytes=self._left)
            except InvalidRecords:
                self._left = 0  # what it has cost is not known
                raise
            self._left -= len(payload)
        keyed = settings.cleanup_policy.compacts
        records.walk(payload, header.records_count, header.last_offset_delta, keyed=keyed)
