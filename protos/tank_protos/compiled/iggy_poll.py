"""The compiled twin of `tank_protos.iggy.polled_messages.messages_of`: a stored batch to messages of a poll.

A batch is walked twice: the first walk checks all of it and finds the size of the wanted messages, the second
writes them with their checksums. No object is made for a message. Batches that are damaged, and what is rare
(headers that clients can't read, offsets that don't rise, times far from today), are left to the plain
function.

Memory safety: the buffer is held over both walks, and between them no code runs that could change its bytes:
only `bytes` are made.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.tank_protos.compiled.bundle_walk import (
    SAME_TIMESTAMP,
    Found,
    Header,
    Message,
    has_delta,
    number_of,
    read_bundle_header,
    read_message,
    read_varint,
)
from cython.cimports.tank_protos.compiled.iggy_headers import Polled, next_header, read_headers
from cython.cimports.tank_protos.compiled.iggy_sums import gzip_crc, xxh3_64
from cython.cimports.tank_protos.compiled.iggy_walk import (
    BATCH,
    BATCH_HEAD_BYTES,
    BATCH_MESSAGE_BYTES,
    HEADER_56,
    HEADER_64,
    ID_BYTES,
    SEED,
    US_PER_MS,
    UserHeader,
    put_bytes,
    put_u32,
    put_u64,
    write_user_header,
)
from cython.cimports.tank_protos.compiled.record_batch_head import (
    CODEC_MASK,
    HEADER_BYTES,
    attributes_of,
    count_of,
    greatest_time_of,
    last_delta_of,
    read_i64,
)
from cython.cimports.tank_protos.compiled.record_walk import Record, read_record

from tank_protos.bundle import read_header as read_head_of_bundle
from tank_protos.bundle.decoding import unpacked
from tank_protos.iggy.eras import MessageChecksum, MessageLayout
from tank_protos.iggy.polled_messages import PolledPart
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import payload_of, read_header

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_LAYOUTS: dict[object, int] = {
    MessageLayout.SEED: SEED,
    MessageLayout.HEADER_56: HEADER_56,
    MessageLayout.HEADER_64: HEADER_64,
    MessageLayout.BATCH: BATCH,
}
_CRC32: object = MessageChecksum.CRC32
# Of the messages' heads: in a poll of the first eras with the payload's length.
_SEED_BYTES = cython.declare(cython.size_t, 45)
_AVAILABLE = cython.declare(uint8_t, 1)
_CHECKSUM_BYTES = cython.declare(cython.size_t, 8)
# What a batch's checksum covers before the messages' checksums.
_FIELDS_BYTES = cython.declare(cython.size_t, 44)
_MOST_DELTA_US = cython.declare(uint64_t, 0xFFFFFFFF)
# Microseconds of such a time fit 64 bits; and sums of two such numbers.
_MOST_MS = cython.declare(int64_t, 1 << 53)
_FAR = cython.declare(int64_t, 1 << 61)
_MOST_NUMBER = cython.declare(uint64_t, 0x7FFFFFFFFFFFFFFE)
_MOST_RECORDS = cython.declare(cython.Py_ssize_t, MAX_CONVERTED_RECORDS)
_MOST_PAYLOAD_BYTES = cython.declare(cython.size_t, MAX_UNPACKED_BYTES)
_MOST_BYTES = cython.declare(cython.size_t, 0x7FFFFFFF)
# A transaction's end. Its batch has no messages.
_CONTROL = cython.declare(cython.int, 0x20)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)


@cython.final
@cython.cclass
class PollPart:
    """The messages of one stored batch, and the part of an answer that they become."""

    # The era's form.
    layout: cython.int
    head_bytes: cython.size_t
    has_key_kinds: cython.bint
    is_crc: cython.bint
    # What is wanted.
    topic_id: uint64_t
    partition: uint64_t
    lowest: int64_t
    most: cython.Py_ssize_t
    # The batch.
    append_ms: int64_t
    data: cython.p_const_uchar
    end: cython.size_t
    # A bundle: where it lies, its first number, its last timestamp.
    is_bundle: cython.bint
    found: Found
    first: uint64_t
    number: uint64_t
    stamp: uint64_t
    # A record batch.
    count: cython.Py_ssize_t
    base_offset: int64_t
    base_ms: int64_t
    last_delta: int64_t
    # -1: each record has its own time.
    one_time_ms: int64_t
    # The first of the wanted messages: its place, and that of its bytes.
    begin: cython.Py_ssize_t
    begin_at: cython.size_t
    begin_number: uint64_t
    begin_stamp: uint64_t
    taken: cython.Py_ssize_t
    bytes: cython.size_t
    base: uint64_t
    last: uint64_t
    least_us: uint64_t
    greatest_us: uint64_t

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def read(
        self, index: cython.Py_ssize_t, at: cython.pointer[cython.size_t], polled: cython.pointer[Polled]
    ) -> cython.bint:
        """Reads the message at `at`, which moves behind it."""
        polled.id = cython.NULL
        polled.rest_us = 0
        polled.headers = 0
        polled.map_bytes = 0
        if self.is_bundle:
            return self.read_from_bundle(index, at, polled)
        record: Record
        if not read_record(self.data, self.end, at, cython.address(record)):
            return False
        polled.offset = self.base_offset + record.offset_delta
        polled.payload = record.value
        polled.payload_bytes = 0 if record.value_bytes < 0 else record.value_bytes
        polled.time_ms = self.one_time_ms
        if self.one_time_ms < 0:
            if record.timestamp_delta > _FAR or record.timestamp_delta < -_FAR:
                return False
            polled.time_ms = self.base_ms + record.timestamp_delta
            if polled.time_ms < 0:
                polled.time_ms = self.append_ms
        if record.headers == 0:
            return True
        return read_headers(self.data, cython.address(record), self.has_key_kinds, polled)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def read_from_bundle(
        self, index: cython.Py_ssize_t, at: cython.pointer[cython.size_t], polled: cython.pointer[Polled]
    ) -> cython.bint:
        message: Message
        if not read_message(
            self.data,
            self.end,
            at,
            has_delta(cython.address(self.found), index),
            cython.address(message),
        ):
            return False
        self.number = number_of(cython.address(self.found), index, self.number, cython.address(message))
        if message.flags & SAME_TIMESTAMP == 0:
            self.stamp = message.timestamp
        elif index == 0:
            return False
        if self.stamp > cython.cast(uint64_t, _MOST_MS):
            return False
        polled.offset = self.number - 1
        polled.time_ms = self.stamp
        polled.payload = message.value
        polled.payload_bytes = message.value_bytes
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure(self, at: cython.size_t) -> cython.bint:
        """The first walk: whether the batch is good, and all that is wanted of it can be written here; the
        place, count and size of what is wanted."""
        polled: Polled
        index: cython.Py_ssize_t
        previous: int64_t = self.base_offset - 1
        here: cython.size_t
        number: uint64_t
        stamp: uint64_t
        self.begin = self.taken = 0
        self.bytes = BATCH_HEAD_BYTES if self.layout == BATCH else 0
        self.number, self.stamp = self.first - 1, 0
        for index in range(self.count):
            here, number, stamp = at, self.number, self.stamp
            if not self.read(index, cython.address(at), cython.address(polled)):
                return False
            if polled.time_ms > _MOST_MS or cython.cast(int64_t, polled.offset) <= previous:
                return False
            previous = polled.offset
            if previous < self.lowest or self.taken >= self.most:
                continue
            origin_us: uint64_t = cython.cast(uint64_t, polled.time_ms) * US_PER_MS + polled.rest_us
            if self.taken == 0:
                self.begin, self.begin_at = index, here
                self.begin_number, self.begin_stamp = number, stamp
                self.base = polled.offset
                self.least_us = self.greatest_us = origin_us
            elif origin_us < self.least_us:
                self.least_us = origin_us
            elif origin_us > self.greatest_us:
                self.greatest_us = origin_us
            self.taken += 1
            self.last = polled.offset
            self.bytes += self.head_bytes + polled.payload_bytes + polled.map_bytes
            if self.bytes > _MOST_BYTES:
                return False
        if at != self.end:
            return False
        if self.is_bundle:
            return not self.found.sparse or self.number == self.found.last
        return previous <= self.base_offset + self.last_delta

    @cython.cfunc
    @cython.exceptval(check=False)
    def write(self, to: cython.p_uchar, sums: cython.p_uchar) -> cython.void:
        """The second walk: the wanted messages. sums: room for the checksums of a batch's messages and the
        fields before them."""
        polled: Polled
        at: cython.size_t = self.begin_at
        index: cython.Py_ssize_t
        append_us: uint64_t = cython.cast(uint64_t, self.append_ms) * US_PER_MS
        head: cython.p_uchar = to
        sums_to: cython.p_uchar = sums + _FIELDS_BYTES
        self.number, self.stamp = self.begin_number, self.begin_stamp
        if self.layout == BATCH:
            to += BATCH_HEAD_BYTES
        for index in range(self.begin, self.begin + self.taken):
            self.read(index, cython.address(at), cython.address(polled))
            if self.layout == SEED:
                to = self.write_seed(to, cython.address(polled), append_us)
                continue
            start: cython.p_uchar = to
            to = self.write_id(to + _CHECKSUM_BYTES, cython.address(polled))
            origin_us: uint64_t = cython.cast(uint64_t, polled.time_ms) * US_PER_MS + polled.rest_us
            if self.layout == BATCH:
                to = put_u32(to, cython.cast(uint32_t, polled.offset - self.base))
                to = put_u32(to, cython.cast(uint32_t, origin_us - self.least_us))
            else:
                to = put_u64(put_u64(put_u64(to, polled.offset), append_us), origin_us)
            to = put_u32(to, cython.cast(uint32_t, polled.map_bytes))
            to = put_u32(to, cython.cast(uint32_t, polled.payload_bytes))
            if self.layout != HEADER_56:
                to = put_u64(to, 0)
            if polled.payload_bytes != 0:
                to = put_bytes(to, polled.payload, polled.payload_bytes)
            to = self.write_headers(to, cython.address(polled))
            checksum: uint64_t
            if self.is_crc:
                checksum = gzip_crc(start + _CHECKSUM_BYTES, to - start - _CHECKSUM_BYTES)
            else:
                checksum = xxh3_64(start + _CHECKSUM_BYTES, to - start - _CHECKSUM_BYTES)
            put_u64(start, checksum)
            if self.layout == BATCH:
                sums_to = put_u64(sums_to, checksum)
        if self.layout == BATCH:
            self.write_head(head, to - head, append_us, sums)

    @cython.cfunc
    @cython.exceptval(check=False)
    def write_head(
        self, head: cython.p_uchar, length: cython.size_t, append_us: uint64_t, sums: cython.p_uchar
    ) -> cython.void:
        """Writes the header of a batch of V11."""
        to: cython.p_uchar = put_u64(put_u64(head, self.partition), self.base)
        to = put_u64(put_u64(put_u64(to, append_us), self.least_us), length)
        memcpy(sums, head, _FIELDS_BYTES - 4)
        put_u32(sums + _FIELDS_BYTES - 4, cython.cast(uint32_t, self.taken))
        to = put_u64(to, xxh3_64(sums, _FIELDS_BYTES + 8 * cython.cast(cython.size_t, self.taken)))
        to = put_u32(to, cython.cast(uint32_t, self.taken))
        memset(to, 0, BATCH_HEAD_BYTES - (to - head))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def write_seed(
        self, to: cython.p_uchar, polled: cython.pointer[Polled], append_us: uint64_t
    ) -> cython.p_uchar:
        """Writes a message of the first eras; returns the place behind it."""
        checksum: uint32_t = gzip_crc(polled.payload, polled.payload_bytes)
        to = put_u64(to, polled.offset)
        to[0] = _AVAILABLE
        to = self.write_id(put_u64(to + 1, append_us), polled)
        to = put_u32(put_u32(to, checksum), cython.cast(uint32_t, polled.map_bytes))
        to = put_u32(self.write_headers(to, polled), cython.cast(uint32_t, polled.payload_bytes))
        if polled.payload_bytes != 0:
            to = put_bytes(to, polled.payload, polled.payload_bytes)
        return to

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def write_id(self, to: cython.p_uchar, polled: cython.pointer[Polled]) -> cython.p_uchar:
        """Writes the id of a message, or what follows from its place; returns the place behind it."""
        if polled.id != cython.NULL:
            return put_bytes(to, polled.id, ID_BYTES)
        return put_u64(put_u64(to, polled.offset + 1), self.topic_id)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def write_headers(self, to: cython.p_uchar, polled: cython.pointer[Polled]) -> cython.p_uchar:
        """Writes the map of a message; returns the place behind it."""
        header: UserHeader
        at: cython.size_t = polled.headers_at
        place: cython.size_t
        for place in range(polled.headers):
            next_header(self.data, self.end, cython.address(at), place, polled, cython.address(header))
            to = write_user_header(to, cython.address(header), self.has_key_kinds)
        return to


@cython.cfunc
def written(part: PollPart, start: cython.size_t, unpacked_bytes: cython.Py_ssize_t) -> Any:
    """The part of an answer; None: it is left to the plain function. Raises MemoryError."""
    if not part.measure(start):
        return None
    if part.taken == 0:
        return PolledPart(b"", 0, -1, 0, unpacked_bytes)
    is_batch: cython.bint = part.layout == BATCH
    if is_batch and (
        part.greatest_us - part.least_us > _MOST_DELTA_US or part.last - part.base > _MOST_DELTA_US
    ):
        return None
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, part.bytes)
    room_bytes: cython.size_t = _FIELDS_BYTES
    if is_batch:
        room_bytes += 8 * cython.cast(cython.size_t, part.taken)
    room: cython.p_uchar = cython.cast(cython.p_uchar, malloc(room_bytes))
    if room == cython.NULL:
        raise MemoryError
    part.write(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)), room)
    free(room)
    return PolledPart(made, part.taken, part.last, 0, unpacked_bytes)


@cython.cfunc
def of_records(part: PollPart, batch: Any) -> Any:
    """The messages of a record batch; None: it is left to the plain function."""
    view: Py_buffer
    attributes: cython.int
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        if view.len < HEADER_BYTES:
            return None
        data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
        attributes = attributes_of(data)
        part.count, part.base_offset = count_of(data), read_i64(data)
        part.base_ms, part.last_delta = read_i64(data + 27), last_delta_of(data)
        part.one_time_ms = -1
        if attributes & _LOG_APPEND_TIME:
            part.one_time_ms = max(greatest_time_of(data), 0)
        if attributes & _CONTROL or not 0 < part.count <= _MOST_RECORDS or part.last_delta < 0:
            return None
        if not 0 <= part.base_offset <= _FAR or not -_FAR <= part.base_ms <= _FAR:
            return None
        if not attributes & CODEC_MASK:
            part.data, part.end = data, view.len
            if part.end - HEADER_BYTES > _MOST_PAYLOAD_BYTES:
                return None
            return written(part, HEADER_BYTES, 0)
    finally:
        PyBuffer_Release(cython.address(view))
    payload: bytes = payload_of(batch, read_header(batch))
    part.data = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(payload))
    part.end = len(payload)
    return written(part, 0, len(payload))


@cython.cfunc
def of_bundle(part: PollPart, batch: Any, first: uint64_t) -> Any:
    """The messages of a bundle with its length before it; None: it is left to the plain function."""
    view: Py_buffer
    header: Header
    at: cython.size_t = 0
    length: uint32_t = 0
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
        size: cython.size_t = view.len
        if not read_varint(data, size, cython.address(at), cython.address(length)) or length != size - at:
            return None
        if not read_bundle_header(data, at, size, cython.address(header)):
            return None
        if header.messages > _MOST_RECORDS:
            return None
        part.first = header.first if header.sparse else first
        if part.first < 1 or part.first > _MOST_NUMBER - header.messages:
            return None
        part.count, part.base_offset = header.messages, 0
        part.found.sparse = header.sparse
        part.found.announced, part.found.last = header.messages, header.last
        if header.codec == 0:
            part.data, part.end = data, size
            return written(part, header.body_offset, 0)
    finally:
        PyBuffer_Release(cython.address(view))
    bundle: Any = memoryview(batch)[at:]
    body: Any = unpacked(bundle, read_head_of_bundle(bundle))[0]
    part.data, part.end = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(body)), len(body)
    return written(part, 0, 0)


def messages_of(source: Any, era: Any, topic_id: Any, partition: Any, lowest_offset: Any, most: Any) -> Any:
    """The messages of a stored batch from an offset on, at most `most`, as clients of the era read them.
    Raises InvalidRecords, InvalidBundle."""
    made: Any = None
    if (
        0 <= source.append_ms <= _MOST_MS
        and 0 <= lowest_offset <= _FAR
        and 0 <= most <= _FAR
        and 0 <= source.first <= _FAR
    ):
        part: PollPart = PollPart()
        part.layout = _LAYOUTS[era.layout]
        part.has_key_kinds = era.has_key_kinds
        part.is_crc = era.checksum is _CRC32
        part.head_bytes = _SEED_BYTES
        if part.layout == HEADER_64:
            part.head_bytes = 64
        elif part.layout == HEADER_56:
            part.head_bytes = 56
        elif part.layout == BATCH:
            part.head_bytes = BATCH_MESSAGE_BYTES
        part.topic_id, part.partition = topic_id, partition + era.base
        part.lowest, part.most = lowest_offset, most
        part.append_ms = source.append_ms
        part.is_bundle = source.is_bundle
        data: object = source.data
        made = of_bundle(part, data, source.first) if part.is_bundle else of_records(part, data)
    if made is None:
        return PLAIN["messages_of"](source, era, topic_id, partition, lowest_offset, most)
    return made
