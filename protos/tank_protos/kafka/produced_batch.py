"""Makes the record batches that TANK's own client produces: without producer, numbers or leader epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tank_protos import bundle
from tank_protos.bundle import MAX_KEY_BYTES, Codec
from tank_protos.kafka import record_batch, records, transcode
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, invalid
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import ANY_TIME, MAGIC, NO_EPOCH, NO_PRODUCER, RecordBatchHeader
from tank_protos.kafka.records import Headers
from tank_protos.wire.buffer import Buffer

_PACKED_FROM_BYTES: Final = 1024
"""From this size on records are compressed if nothing else is asked for, as messages of bundles are."""
_CODECS: Final = {None: None, True: Codec.SNAPPY, False: Codec.NONE}


def encode(
    values: Sequence[bytes | None],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[bytes | None] | None = None,
    headers: Mapping[int, Headers] | None = None,
    compression: bool | None = None,
) -> bytes:
    """Returns a batch of these messages, at least one. The same input gives the same bytes.

    `timestamps`: milliseconds from 0 on, one for all or one a message. `headers`: of the messages that have
    some, by their index. `compression`: True: by snappy, if that makes the records smaller; False: not; None:
    as bundles are compressed, see `tank_protos.bundle.encode`. Raises InvalidRecords for a timestamp that a
    batch can't hold.
    """
    last_ms = timestamps if isinstance(timestamps, int) else max(timestamps)
    if last_ms > ANY_TIME:
        sentence = f"record batches have no place for the timestamp {last_ms}"
        raise InvalidRecords(RecordsFault.INVALID_TIMESTAMP, sentence)
    if not headers and None not in values and _fits_bundles(keys):
        # Both steps are compiled, and take a tenth of the time of the other way.
        made = bundle.encode(values, timestamps=timestamps, keys=keys, codec=_CODECS[compression])
        return transcode.produced_to_kafka(bundle.as_batch(made), compacted=False)
    count = len(values)
    base_ms = timestamps if isinstance(timestamps, int) else timestamps[0]
    payload = records.encode_columns(
        range(count),
        [0] * count if isinstance(timestamps, int) else [time_ms - base_ms for time_ms in timestamps],
        [None] * count if keys is None else keys,
        values,
        headers,
    )
    packed, codec = payload, KafkaCodec.NONE
    if compression or (compression is None and len(payload) >= _PACKED_FROM_BYTES):
        packed = pack(KafkaCodec.SNAPPY, payload)
        if len(packed) < len(payload):
            codec = KafkaCodec.SNAPPY
        else:
            packed = payload
    header = RecordBatchHeader(
        0, 0, NO_EPOCH, MAGIC, 0, codec, count - 1, base_ms, last_ms, *NO_PRODUCER, count
    )
    return record_batch.seal(header, packed)


def _fits_bundles(keys: Sequence[bytes | None] | None) -> bool:
    """Whether bundles hold all of these keys: an empty key would read as none."""
    return keys is None or (b"" not in keys and max(map(len, filter(None, keys)), default=0) <= MAX_KEY_BYTES)


def as_bundle(batch: Buffer) -> bytes:
    """Returns the messages of a batch that `encode` has made as a bundle, with its length before it, for a
    broker that knows bundles alone. Raises InvalidRecords for what a bundle can't hold: headers, null values,
    empty keys, and keys above 255 bytes."""
    view = memoryview(batch)
    header = record_batch.read_header(view)
    if header.records_count > MAX_CONVERTED_RECORDS:
        raise invalid(f"a batch of {header.records_count} records, which are too many to be converted")
    return transcode.produced_to_tank(
        view, header, append_ms=0, compacted=False, lenient=False, max_bytes=MAX_UNPACKED_BYTES
    ).data
