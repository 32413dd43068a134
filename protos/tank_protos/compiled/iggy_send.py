"""The compiled twin of `tank_protos.iggy.sent_messages.record_batch`: messages of a send to a record batch.

Messages are walked twice: the first walk checks them and finds the size of the records, the second writes
them. No object is made for a message. Sends that are refused, or are rare, are left to the plain function.

Memory safety: the buffer is held over both walks, and between them no code runs that could change its bytes:
only a bytearray is made, which the garbage collector doesn't know.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint16_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c
from cython.cimports.tank_protos.compiled.iggy_sums import xxh3_64
from cython.cimports.tank_protos.compiled.iggy_walk import (
    BATCH,
    BATCH_HEAD_BYTES,
    BATCH_MESSAGE_BYTES,
    DEFAULT_KINDS,
    HEADER_56,
    HEADER_64,
    ID_BYTES,
    INDEX_BYTES,
    INDEX_END_AT,
    OURS_BYTES,
    OURS_VERSION,
    SEED,
    US_PER_MS,
    Sent,
    UserHeader,
    is_reserved,
    is_zero,
    put_bytes,
    put_u32,
    read_headed,
    read_in_batch,
    read_seed,
    read_user_header,
    u32_at,
    u64_at,
)
from cython.cimports.tank_protos.compiled.record_batch_head import (
    COVERED_FROM,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    write_i64,
    write_u32,
)
from cython.cimports.tank_protos.compiled.record_walk import write_zigzag, zigzag_bytes
from fastcrc.crc32 import iscsi

from tank_protos.iggy.eras import MessageLayout
from tank_protos.iggy.limits import MAX_SENT_MESSAGES

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
# Microseconds of it fit, too.
_MOST_MS: int = 2**53
_MOST_MESSAGES = cython.declare(cython.size_t, MAX_SENT_MESSAGES)
_MOST_BYTES = cython.declare(cython.size_t, 0x7FFFFFFF)
# Sums with a delta of 32 bits cannot overflow.
_FAR = cython.declare(uint64_t, 1 << 63)
# From here on the other library's checksum is faster than the call of it costs.
_LONG = cython.declare(cython.size_t, 8 * 1024)
_RESERVED_NAME = cython.declare(cython.p_const_uchar, b"iggy")
_NAME_BYTES = cython.declare(cython.size_t, 4)
# What a batch's checksum covers before the messages' checksums.
_FIELDS_BYTES = cython.declare(cython.size_t, 44)
_ORIGIN_AT = cython.declare(cython.size_t, 24)
_LENGTH_AT = cython.declare(cython.size_t, 32)
_CHECKSUM_AT = cython.declare(cython.size_t, 40)
_COUNT_AT = cython.declare(cython.size_t, 48)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def batch_matches(data: cython.p_const_uchar, count: cython.size_t, room: cython.p_uchar) -> cython.bint:
    """Whether the messages of a batch, which were checked, have its checksum. room: the bytes that it
    covers."""
    at: cython.size_t = BATCH_HEAD_BYTES
    to: cython.p_uchar = put_bytes(room, data, _CHECKSUM_AT)
    to = put_u32(to, u32_at(data + _COUNT_AT))
    for _ in range(count):
        to = put_bytes(to, data + at, 8)
        headers_bytes: cython.size_t = u32_at(data + at + 32)
        at += BATCH_MESSAGE_BYTES + headers_bytes + u32_at(data + at + 36)
    return xxh3_64(room, _FIELDS_BYTES + 8 * count) == u64_at(data + _CHECKSUM_AT)


@cython.final
@cython.cclass
class Sending:
    """The messages of a send, and the measures of the record batch that they become."""

    layout: cython.int
    has_key_kinds: cython.bint
    data: cython.p_const_uchar
    # Where the first message begins, and the last ends.
    start: cython.size_t
    end: cython.size_t
    # Of the batch of V11.
    origin_us: uint64_t
    # How many there are; found by the first walk in the layout that has no count.
    count: cython.size_t
    base_ms: int64_t
    most_ms: int64_t
    bytes: cython.size_t

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def read(self, at: cython.pointer[cython.size_t], message: cython.pointer[Sent]) -> cython.bint:
        """Reads the message at `at`, which moves behind it."""
        if self.layout == HEADER_64:
            return read_headed(self.data, self.end, at, 64, message)
        if self.layout == BATCH:
            return read_in_batch(self.data, self.end, at, self.origin_us, message)
        if self.layout == HEADER_56:
            return read_headed(self.data, self.end, at, 56, message)
        # The broker's time has no microseconds.
        message.time_us = cython.cast(uint64_t, self.base_ms) * US_PER_MS
        return read_seed(self.data, self.end, at, message)

    @cython.cfunc
    @cython.exceptval(check=False)
    def begin(self, size: cython.size_t) -> cython.bint:
        """Reads what stands before the messages; False: it is wrong, or the messages are too many."""
        self.start, self.end, self.origin_us = 0, size, 0
        if self.layout == SEED:
            self.count = 0
            return True
        if self.count == 0 or self.count > _MOST_MESSAGES:
            return False
        if self.layout == BATCH:
            self.start = BATCH_HEAD_BYTES
            if size < self.start or u64_at(self.data + _LENGTH_AT) != size:
                return False
            if u32_at(self.data + _COUNT_AT) != self.count:
                return False
            self.origin_us = u64_at(self.data + _ORIGIN_AT)
            return self.origin_us < _FAR and self.count * BATCH_MESSAGE_BYTES <= size
        self.start = self.count * INDEX_BYTES
        return self.start <= size

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure(self) -> cython.bint:
        """The first walk: whether every message can be stored; the size of the records."""
        message: Sent
        at: cython.size_t = self.start
        index: cython.size_t = 0
        has_index: cython.bint = self.layout == HEADER_56 or self.layout == HEADER_64
        self.bytes = 0
        while index < self.count if self.layout != SEED else at < self.end:
            if not self.read(cython.address(at), cython.address(message)):
                return False
            if has_index and u32_at(self.data + INDEX_BYTES * index + INDEX_END_AT) != at - self.start:
                return False
            time_ms: int64_t = message.time_us // US_PER_MS
            if index == 0:
                self.base_ms = self.most_ms = time_ms
            elif time_ms > self.most_ms:
                self.most_ms = time_ms
            length: cython.size_t = self.record_bytes(index, cython.address(message))
            if length == 0:
                return False
            self.bytes += zigzag_bytes(length) + length
            index += 1
            if self.bytes > _MOST_BYTES - HEADER_BYTES or index > _MOST_MESSAGES:
                return False
        self.count = index
        return index != 0 and at == self.end

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def record_bytes(self, index: cython.size_t, message: cython.pointer[Sent]) -> cython.size_t:
        """The size of a record without the length before it; 0: its headers can't be read."""
        headers: cython.size_t = 0
        content: cython.size_t = 0
        needs_ours: cython.bint = not is_zero(message.id) or message.time_us % US_PER_MS != 0
        if message.headers_bytes != 0 and not self.measure_headers(
            message, cython.address(headers), cython.address(content), cython.address(needs_ours)
        ):
            return 0
        if needs_ours:
            content += 1 + _NAME_BYTES + zigzag_bytes(OURS_BYTES + headers) + OURS_BYTES + headers
            headers += 1
        time_ms: int64_t = message.time_us // US_PER_MS
        return (
            2
            + zigzag_bytes(time_ms - self.base_ms)
            + zigzag_bytes(index)
            + zigzag_bytes(message.payload_bytes)
            + message.payload_bytes
            + zigzag_bytes(headers)
            + content
        )

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure_headers(
        self,
        message: cython.pointer[Sent],
        count: cython.pointer[cython.size_t],
        content: cython.pointer[cython.size_t],
        needs_ours: cython.pointer[cython.bint],
    ) -> cython.bint:
        """Counts the user headers of a message, and their bytes in a record; False: they can't be read."""
        header: UserHeader
        at: cython.size_t = 0
        while at < message.headers_bytes:
            if not read_user_header(
                message.headers,
                message.headers_bytes,
                cython.address(at),
                self.has_key_kinds,
                cython.address(header),
            ):
                return False
            if header.kinds != DEFAULT_KINDS or (count[0] == 0 and is_reserved(header.key, header.key_bytes)):
                needs_ours[0] = True
            count[0] += 1
            content[0] += zigzag_bytes(header.key_bytes) + header.key_bytes
            content[0] += zigzag_bytes(header.value_bytes) + header.value_bytes
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def write(self, to: cython.p_uchar) -> cython.void:
        """The second walk: the records."""
        message: Sent
        at: cython.size_t = self.start
        index: cython.size_t
        for index in range(self.count):
            self.read(cython.address(at), cython.address(message))
            to = write_zigzag(to, self.record_bytes(index, cython.address(message)))
            to[0] = 0
            to = write_zigzag(to + 1, cython.cast(int64_t, message.time_us // US_PER_MS) - self.base_ms)
            to = write_zigzag(to, index)
            # No key: null.
            to[0] = 1
            to = write_zigzag(to + 1, message.payload_bytes)
            to = put_bytes(to, message.payload, message.payload_bytes)
            to = self.write_headers(to, cython.address(message))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def write_headers(self, to: cython.p_uchar, message: cython.pointer[Sent]) -> cython.p_uchar:
        """Writes the headers of a record, ours first; returns the place behind them."""
        header: UserHeader
        headers: cython.size_t = 0
        content: cython.size_t = 0
        at: cython.size_t = 0
        rest_us: uint16_t = message.time_us % US_PER_MS
        needs_ours: cython.bint = not is_zero(message.id) or rest_us != 0
        if message.headers_bytes != 0:
            self.measure_headers(
                message, cython.address(headers), cython.address(content), cython.address(needs_ours)
            )
        to = write_zigzag(to, headers + (1 if needs_ours else 0))
        if needs_ours:
            to = put_bytes(write_zigzag(to, _NAME_BYTES), _RESERVED_NAME, _NAME_BYTES)
            to = write_zigzag(to, OURS_BYTES + headers)
            to[0] = OURS_VERSION
            to = put_bytes(to + 1, message.id, ID_BYTES)
            memcpy(to, cython.address(rest_us), 2)
            to += 2
            while at < message.headers_bytes:
                self.read_header(message, cython.address(at), cython.address(header))
                to[0] = header.kinds
                to += 1
        at = 0
        while at < message.headers_bytes:
            self.read_header(message, cython.address(at), cython.address(header))
            to = put_bytes(write_zigzag(to, header.key_bytes), header.key, header.key_bytes)
            to = put_bytes(write_zigzag(to, header.value_bytes), header.value, header.value_bytes)
        return to

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def read_header(
        self,
        message: cython.pointer[Sent],
        at: cython.pointer[cython.size_t],
        header: cython.pointer[UserHeader],
    ) -> cython.bint:
        return read_user_header(message.headers, message.headers_bytes, at, self.has_key_kinds, header)


@cython.cfunc
def has_its_checksum(sending: Sending) -> object:
    """Whether a batch of V11 says no checksum, or has that which it says. Raises MemoryError."""
    if u64_at(sending.data + _CHECKSUM_AT) == 0:
        return True
    room: cython.p_uchar = cython.cast(cython.p_uchar, malloc(_FIELDS_BYTES + 8 * sending.count))
    if room == cython.NULL:
        raise MemoryError
    good: cython.bint = batch_matches(sending.data, sending.count, room)
    free(room)
    return good


@cython.cfunc
def sealed(sending: Sending) -> bytearray:
    """The record batch of messages that were measured."""
    size: cython.size_t = HEADER_BYTES + sending.bytes
    made: bytearray = PyByteArray_FromStringAndSize(cython.NULL, size)
    begin: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(made))
    sending.write(begin + HEADER_BYTES)
    write_i64(begin, 0)
    write_u32(begin + 8, cython.cast(uint32_t, size - LENGTH_END))
    # No leader's epoch.
    write_u32(begin + 12, 0xFFFFFFFF)
    begin[16] = MAGIC
    # No attributes.
    begin[21] = begin[22] = 0
    write_u32(begin + 23, cython.cast(uint32_t, sending.count - 1))
    write_i64(begin + 27, sending.base_ms)
    write_i64(begin + 35, sending.most_ms)
    # No producer, with no epoch and no sequence.
    write_i64(begin + 43, -1)
    begin[51] = begin[52] = 0xFF
    write_u32(begin + 53, 0xFFFFFFFF)
    write_u32(begin + 57, cython.cast(uint32_t, sending.count))
    crc: uint32_t
    if size < _LONG:
        crc = crc32c(0, begin + COVERED_FROM, size - COVERED_FROM)
    else:
        crc = iscsi(memoryview(made)[COVERED_FROM:])
    write_u32(begin + 17, crc)
    return made


def record_batch(sent: Any, era: Any, now_ms: Any) -> bytearray:
    """The messages of a send as a record batch. Raises WireError."""
    view: Py_buffer
    sending: Sending = Sending()
    made: Any = None
    sending.layout = _LAYOUTS[era.layout]
    sending.has_key_kinds = era.has_key_kinds
    is_seed: cython.bint = sending.layout == SEED
    sending.count = 0 if is_seed else sent.messages_count
    if is_seed and not 0 <= now_ms <= _MOST_MS:
        return PLAIN["record_batch"](sent, era, now_ms)
    sending.base_ms = now_ms if is_seed else 0
    PyObject_GetBuffer(sent.messages, cython.address(view), PyBUF_SIMPLE)
    try:
        sending.data = cython.cast(cython.p_const_uchar, view.buf)
        if (
            sending.begin(view.len)
            and sending.measure()
            and (sending.layout != BATCH or has_its_checksum(sending))
        ):
            made = sealed(sending)
    finally:
        PyBuffer_Release(cython.address(view))
    return PLAIN["record_batch"](sent, era, now_ms) if made is None else made
