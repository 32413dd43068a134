"""Bundles of TANK's clients for topics of Kafka's format: each becomes a record batch before it is stored."""

from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Completion, ProducerStamp
from tank_protos import bundle
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle


def append_converted(
    partition: Partition,
    batch: memoryview,
    completion: Completion,
    token: int,
    *,
    first: int | None = None,
    producer: ProducerStamp | None = None,
    timeout_ms: int = 0,
) -> None:
    """Does the same as `Partition.append`, for a partition with `stores_record_batches`.

    A bundle that could not be given back to TANK's clients as it came is refused. Where the topic is
    compacted, empty content with a key is stored as a null value.
    """
    from tank_protos.kafka import record_batch, transcode  # see segment.batch_formats.format_of
    from tank_protos.kafka.errors import InvalidRecords

    if partition.refusal:
        completion.complete(token, partition.refusal, 0, 0)
        return
    if len(batch) > partition.limits.bundle_bytes:
        _refuse(partition, completion, token, Refusal.TOO_LARGE, "bundle_too_large")
        return
    try:
        made = transcode.produced_to_kafka(batch, compacted=partition.log.settings.compact)
        _, start = varint.read(batch, 0)
        if bundle.read_header(batch, start).sparse:  # its own numbers win over `first`
            first = record_batch.read_header(made).base_offset + 1
    except (InvalidBundle, InvalidRecords) as invalid:
        _refuse(partition, completion, token, Refusal.INVALID_BATCH, invalid.reason)
        return
    metrics = partition.metrics
    metrics.converted["produced_bundle"] += 1
    metrics.converted_bytes["produced_bundle"] += len(made)
    partition.append(
        memoryview(bytearray(made)),
        completion,
        token,
        first=first,
        producer=producer,
        timeout_ms=timeout_ms,
    )


def _refuse(partition: Partition, completion: Completion, token: int, refusal: Refusal, reason: str) -> None:
    name = f"a bundle for {partition.topic_name}/{partition.number}"
    partition.refusals.note(reason, name, partition.tick.monotonic_ms)
    completion.complete(token, refusal, 0, 0)
