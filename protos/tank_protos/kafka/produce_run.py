"""Runs of Produce requests of one form: checks, numbers and answers the record batches of many requests in
few steps.

A producer's requests for one partition have the same bytes from its client id to the partition's number: they
differ in correlation id and record batch alone. `KafkaProduceRun` takes such requests from a receive buffer,
one behind another, and makes the index records of their batches and their answers. A request with other
bytes, or with a batch that `record_batch.check` or `records.walk` refuses, ends the run: the caller decodes
that one.

There are two implementations, this one and `tank_protos.compiled.kafka_run`; `tank_protos.kernel` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.kafka import record_batch, records
from tank_protos.kafka.codecs import CODEC_MASK, KafkaCodec
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.record_batch import HEADER_BYTES, RecordBatchHeader
from tank_protos.kernel import twin
from tank_protos.storage.index_record import RECORD
from tank_protos.wire.errors import WireError
from tank_protos.wire.varint import read as read_varint

BEFORE_PREFIX: Final = 12
"""The bytes of a request before those that all of its form share: size, key, version and correlation id."""
FLEXIBLE_SINCE: Final = 9
"""The first version whose lengths are of few bytes, and which ends in tagged fields."""
NO_TAGS: Final = b"\0\0\0"
"""The end of a request in flexible versions: no tagged fields of partition, topic and request."""
SEQUENCES: Final = 2**31
"""After as many messages a producer's sequence numbers begin again."""
STORED_FLAGS: Final = 4
"""Of the index records of these batches: they have their numbers in their own bytes."""

_read_head: Final = Struct(">ihh").unpack_from
_read_i32: Final = Struct(">i").unpack_from
_CORRELATION_AT: Final = 8
_LENGTH_BYTES: Final = 4
_ZSTD_SINCE: Final = 7
_COPY_BELOW: Final = 16 * 1024
"""Smaller batches are copied together before they are written: an entry of `writev` for each costs more, and
the buffer is free again."""
_ID_AT: Final = 4
"""The place of an answer's correlation id."""
_pack_i64: Final = Struct(">q").pack_into
_pack_record: Final = RECORD.pack


@twin("kafka_run")
class KafkaProduceRun:
    """Record batches for one partition, found in one receive buffer, in the order in which they came: all of
    one producer, whose sequence numbers follow one another, or all of none."""

    __slots__ = (
        "_batches",
        "_headers",
        "_ids",
        "_times",
        "at",
        "batch_bytes",
        "batches",
        "is_copied",
        "messages",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self) -> None:
        # What `find` has found: the count of batches, their bytes and messages, and where it ended.
        self.batches = 0
        self.batch_bytes = 0
        self.messages = 0
        self.at = 0
        # Of all batches; 0: they have no producer.
        self.producer_id = 0
        self.producer_epoch = 0
        # Whether `slices` makes copies: then the buffer may change after it.
        self.is_copied = False
        self._batches: list[memoryview] = []
        self._headers: list[RecordBatchHeader] = []
        self._times: list[int] = []
        self._ids: list[bytes] = []

    def find(
        self,
        view: memoryview,
        at: int,
        end: int,
        version: int,
        prefix: bytes,
        most: int,
        max_batch_bytes: int,
        latest_ms: int,
        now_ms: int,
        walks: bool,
        codecs: bool,
        keyed: bool,
    ) -> int:
        """Takes whole requests of this version from `at` on, at most `most`, and returns their number; what
        was found before is forgotten. `view`: of bytes that may be written; they must not change until
        `clear`.

        A request is taken while `prefix` follows its correlation id, and behind it one good record batch and
        nothing else. `latest_ms`: the greatest time that a batch may have. `now_ms`: the time of those that
        have none. `walks`: whether the records that are not compressed are checked. `codecs`: whether
        compressed batches are taken, whose records are not looked at. `keyed`: whether each record that is
        looked at needs a key. Batches of transactions are not taken.
        """
        self.clear()
        if not 0 <= at <= end <= len(view):
            raise ValueError(f"bytes {at} to {end} are outside the buffer of {len(view)} bytes")
        if view.readonly:
            return 0
        before = BEFORE_PREFIX + len(prefix)
        least = before + HEADER_BYTES + 1
        while end - at >= least and self.batches < most:
            size, key, found = _read_head(view, at)
            stop = at + 4 + size
            if key or found != version or stop > end or stop - at < least:
                break
            if view[at + BEFORE_PREFIX : at + before] != prefix:
                break
            batch = _batch_in(view[at + before : stop], version)
            if batch is None or not self._takes(
                batch, version, max_batch_bytes, latest_ms, walks, codecs, keyed
            ):
                break
            self._ids.append(bytes(view[at + _CORRELATION_AT : at + BEFORE_PREFIX]))
            self._times.append(max(self._headers[-1].max_timestamp_ms, 0) or now_ms)
            self.batch_bytes += len(batch)
            self.batches += 1
            at = stop
        self.at = at
        self.is_copied = self.batch_bytes < _COPY_BELOW * self.batches
        return self.batches

    def _takes(
        self,
        batch: memoryview,
        version: int,
        max_batch_bytes: int,
        latest_ms: int,
        walks: bool,
        codecs: bool,
        keyed: bool,
    ) -> bool:
        """Adds a batch, if it is good and goes on with the run."""
        try:
            header = record_batch.check(batch, max_bytes=max_batch_bytes, latest_ms=latest_ms)
            codec = header.attributes & CODEC_MASK
            if header.attributes & record_batch.TRANSACTIONAL or (codec and not codecs):
                return False
            if codec == KafkaCodec.ZSTD and version < _ZSTD_SINCE:
                return False
            if walks and not codec:
                payload = batch[HEADER_BYTES:]
                records.walk(payload, header.records_count, header.last_offset_delta, keyed=keyed)
        except InvalidRecords:
            return False
        has_producer = header.producer_id > 0
        producer = (header.producer_id, header.producer_epoch) if has_producer else (0, 0)
        if self._headers:
            newest = self._headers[-1]
            following = (newest.base_sequence + newest.records_count) % SEQUENCES
            if producer != (self.producer_id, self.producer_epoch):
                return False
            if has_producer and header.base_sequence != following:
                return False
        self.producer_id, self.producer_epoch = producer
        self._batches.append(batch)
        self._headers.append(header)
        self.messages += header.records_count
        return True

    def produced(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Returns the producer's first sequence number in each batch from `start` up to `stop`, and the count
        of messages."""
        self._check(start, stop)
        return [(header.base_sequence, header.records_count) for header in self._headers[start:stop]]

    def answers(self, answer: bytes, offset_at: int, offset: int) -> bytes:
        """Returns an answer like this one to each request, with its correlation id, and with the offset of
        its batch at `offset_at`. `offset`: of the first batch."""
        if not _ID_AT + 4 <= offset_at <= len(answer) - 8:
            raise ValueError(f"no offset fits at {offset_at} into an answer of {len(answer)} bytes")
        out = bytearray(answer * self.batches)
        for place, header in enumerate(self._headers):
            at = place * len(answer)
            out[at + _ID_AT : at + _ID_AT + 4] = self._ids[place]
            _pack_i64(out, at + offset_at, offset)
            offset += header.records_count
        return bytes(out)

    def records(
        self,
        start: int,
        number: int,
        position: int,
        room_bytes: int,
        most: int,
        append_ms: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        format: int,
    ) -> bytes:
        """Makes the index records of the batches from `start` on: at most `most`, and no more than
        `room_bytes` hold. Writes their offsets and the epoch into these batches.

        The first batch gets the number `number`, which is its first offset plus 1, and the position
        `position`. `max_timestamp_ms`: the greatest time of the partition so far.
        """
        self._check(start, self.batches)
        made = []
        for place in range(start, min(self.batches, start + most)):
            batch, header = self._batches[place], self._headers[place]
            length, count = len(batch), header.records_count
            if length > room_bytes:
                break
            room_bytes -= length
            record_batch.patch(batch, number - 1, leader_epoch)
            max_timestamp_ms = max(max_timestamp_ms, self._times[place] or append_ms)
            sequence = header.base_sequence if self.producer_id else 0
            producer = self.producer_id, sequence, leader_epoch, self.producer_epoch
            rest = append_ms, max_timestamp_ms, *producer, format, STORED_FLAGS, count
            crc = crc32c(_pack_record(number, count - 1, 0, length, 0, *rest), crc32c(batch))
            made.append(_pack_record(number, count - 1, position, length, crc, *rest))
            number += count
            position += length
        return b"".join(made)

    def slices(self, start: int, stop: int) -> Sequence[memoryview]:
        """Returns the bytes of the batches from `start` up to `stop`, in few pieces, for the log. Call it
        after `records`, which changes them."""
        self._check(start, stop)
        if self.is_copied and start < stop:
            return [memoryview(b"".join(self._batches[start:stop]))]
        return self._batches[start:stop]

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.batches:
            raise ValueError(f"there are no batches {start} to {stop}: {self.batches} were found")

    def clear(self) -> None:
        """Forgets all batches, so that the buffer may change."""
        self.batches = self.batch_bytes = self.messages = self.producer_id = self.producer_epoch = 0
        self.is_copied = False
        self._batches = []
        self._headers = []
        self._times = []
        self._ids = []


def _batch_in(rest: memoryview, version: int) -> memoryview | None:
    """The record batch in the bytes of a request behind its prefix, if these are its length, the batch, and
    the end of the request."""
    if version < FLEXIBLE_SINCE:
        (length,) = _read_i32(rest, 0)
        begin, tail = _LENGTH_BYTES, b""
    else:
        try:
            length, begin = read_varint(rest, 0)
        except WireError:
            return None
        length, tail = length - 1, NO_TAGS
    stop = begin + length
    if length < 0 or stop + len(tail) != len(rest) or rest[stop:] != tail:
        return None
    return rest[begin:stop]
