"""The compiled twin of `tank_protos.kafka.produce_run.KafkaProduceRun`: see there for what it is.

Memory safety: the buffer is held from `find` to `clear`, so that it keeps its place and its size. `find`
checks `at` and `end` against the buffer, and every length against its frame, before they are used; `_places`
holds only what was checked so: offsets and lengths are not read from the buffer again.
"""

import sys
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c, crc32c_joined
from cython.cimports.tank_protos.compiled.produce_places import Record, RecordBatchPlace
from cython.cimports.tank_protos.compiled.record_batch_head import (
    CODEC_MASK,
    COVERED_FROM,
    HEADER_BYTES,
    TRANSACTIONAL,
    ZSTD,
    attributes_of,
    count_of,
    greatest_time_of,
    last_delta_of,
    may_be_sent,
    may_be_stored,
    producer_epoch_of,
    producer_id_of,
    read_i32,
    read_u32,
    sequence_of,
    write_i64,
    write_u32,
)
from cython.cimports.tank_protos.compiled.record_walk import are_good
from fastcrc.crc32 import iscsi

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")
if sys.byteorder != "little":
    raise ImportError("the compiled kernel copies integers as they lie in memory: little-endian only")

BEFORE_PREFIX = cython.declare(cython.Py_ssize_t, 12)
CORRELATION_AT = cython.declare(cython.Py_ssize_t, 8)
ID_AT = cython.declare(cython.Py_ssize_t, 4)
LENGTH_BYTES = cython.declare(cython.Py_ssize_t, 4)
TAIL_BYTES = cython.declare(cython.Py_ssize_t, 3)
FLEXIBLE_SINCE = cython.declare(cython.int, 9)
ZSTD_SINCE = cython.declare(cython.int, 7)
STORED_FLAGS = cython.declare(uint8_t, 4)
COPY_BELOW = cython.declare(cython.Py_ssize_t, 16 * 1024)
# From here on the other library's checksum is faster than the call of it costs, and joining two checksums
# faster than computing one again.
LONG = cython.declare(cython.Py_ssize_t, 8 * 1024)
# Places that are kept allocated between ticks.
KEPT_PLACES = cython.declare(cython.Py_ssize_t, 64)

assert cython.sizeof(Record) == 64


@cython.cfunc
@cython.exceptval(check=False)
def _varint(
    p: cython.p_const_uchar, left: cython.Py_ssize_t, begin: cython.pointer[cython.Py_ssize_t]
) -> int64_t:
    """Reads an integer of five bytes at most in the `left` bytes at p; moves `begin` behind it. -1: there is
    none."""
    value: uint64_t = 0
    at: cython.int
    for at in range(5):
        if at >= left:
            return -1
        value |= cython.cast(uint64_t, p[at] & 0x7F) << (7 * at)
        if p[at] < 0x80:
            begin[0] += at + 1
            return value if value <= 0xFFFFFFFF else -1
    return -1


@cython.cclass
class KafkaProduceRun:
    """Record batches for one partition, found in one receive buffer, in the order in which they came."""

    batches = cython.declare(cython.Py_ssize_t, visibility="readonly")
    batch_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    messages = cython.declare(uint64_t, visibility="readonly")
    at = cython.declare(cython.Py_ssize_t, visibility="readonly")
    producer_id = cython.declare(int64_t, visibility="readonly")
    producer_epoch = cython.declare(cython.int, visibility="readonly")
    is_copied = cython.declare(cython.bint, visibility="readonly")
    _view: Any
    _held: Py_buffer
    _is_held: cython.bint
    # `batches` of them are in use, of `_room`.
    _places: cython.pointer[RecordBatchPlace]
    _room: cython.Py_ssize_t

    def __dealloc__(self) -> None:
        if self._is_held:
            PyBuffer_Release(cython.address(self._held))
        free(self._places)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grow(self) -> cython.bint:
        """Makes room for more; False: there is no memory."""
        room: cython.Py_ssize_t = 2 * self._room if self._room else 8
        grown: cython.p_void = realloc(self._places, room * cython.sizeof(RecordBatchPlace))
        if grown == cython.NULL:
            return False
        self._places = cython.cast(cython.pointer[RecordBatchPlace], grown)
        self._room = room
        return True

    def find(
        self,
        view: memoryview,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        version: cython.int,
        prefix: bytes,
        most: cython.Py_ssize_t,
        max_batch_bytes: cython.Py_ssize_t,
        latest_ms: int64_t,
        now_ms: int64_t,
        walks: cython.bint,
        codecs: cython.bint,
        keyed: cython.bint,
    ) -> int:
        """Takes whole requests of this form from `at` on; returns their number."""
        self.clear()
        if at < 0 or at > end or end > len(view):
            raise ValueError(f"bytes {at} to {end} are outside the buffer of {len(view)} bytes")
        if view.readonly:
            return 0
        PyObject_GetBuffer(view, cython.address(self._held), PyBUF_WRITABLE)
        self._is_held = True
        self._view = view
        data: cython.p_uchar = cython.cast(cython.p_uchar, self._held.buf)
        wanted: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(prefix))
        prefix_bytes: cython.Py_ssize_t = PyBytes_GET_SIZE(prefix)
        before: cython.Py_ssize_t = BEFORE_PREFIX + prefix_bytes
        least: cython.Py_ssize_t = before + HEADER_BYTES + 1
        tail: cython.Py_ssize_t = TAIL_BYTES if version >= FLEXIBLE_SINCE else 0
        p: cython.p_const_uchar
        begin: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        length: int64_t
        while end - at >= least and self.batches < most:
            p = data + at
            stop = 4 + cython.cast(cython.Py_ssize_t, read_i32(p))
            if stop < least or stop > end - at:
                break
            if read_u32(p + 4) != cython.cast(uint32_t, version):  # and the key, which is 0
                break
            if memcmp(p + BEFORE_PREFIX, wanted, prefix_bytes) != 0:
                break
            begin = before
            if version < FLEXIBLE_SINCE:
                length = read_i32(p + begin)
                begin += LENGTH_BYTES
            else:
                length = _varint(p + begin, stop - begin, cython.address(begin)) - 1
            if length != stop - begin - tail or length > max_batch_bytes:
                break
            if tail and (p[stop - 1] or p[stop - 2] or p[stop - 3]):
                break
            if not self._takes(at + begin, length, version, latest_ms, now_ms, walks, codecs, keyed):
                break
            memcpy(cython.address(self._places[self.batches - 1].correlation_id), p + CORRELATION_AT, 4)
            at += stop
        self.at = at
        self.is_copied = self.batch_bytes < COPY_BELOW * self.batches
        return self.batches

    @cython.cfunc
    @cython.exceptval(-1)
    def _takes(
        self,
        offset: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        version: cython.int,
        latest_ms: int64_t,
        now_ms: int64_t,
        walks: cython.bint,
        codecs: cython.bint,
        keyed: cython.bint,
    ) -> cython.int:
        """Adds the batch of `size` bytes at `offset`, if it is good and goes on with the run."""
        p: cython.p_const_uchar = cython.cast(cython.p_const_uchar, self._held.buf) + offset
        if not may_be_stored(p, size) or not may_be_sent(p, latest_ms):
            return 0
        attributes: cython.int = attributes_of(p)
        codec: cython.int = attributes & CODEC_MASK
        if attributes & TRANSACTIONAL or (codec and not codecs) or (codec == ZSTD and version < ZSTD_SINCE):
            return 0
        producer_id: int64_t = producer_id_of(p)
        epoch: cython.int = producer_epoch_of(p)
        sequence: uint32_t = cython.cast(uint32_t, sequence_of(p))
        if producer_id <= 0:
            producer_id = epoch = sequence = 0
        newest: cython.pointer[RecordBatchPlace]
        if self.batches:
            newest = self._places + self.batches - 1
            if producer_id != self.producer_id or epoch != self.producer_epoch:
                return 0
            if producer_id and sequence != (newest.sequence + newest.messages & 0x7FFFFFFF):
                return 0
        crc: uint32_t = read_u32(p + 17)
        if size < LONG:
            if crc32c(0, p + COVERED_FROM, size - COVERED_FROM) != crc:
                return 0
        elif cython.cast(uint32_t, iscsi(self._view[offset + COVERED_FROM : offset + size])) != crc:
            return 0
        count: int32_t = count_of(p)
        if codec:
            walks = False
        if walks and not are_good(
            p + HEADER_BYTES, size - HEADER_BYTES, count, last_delta_of(p), True, keyed
        ):
            return 0
        if self.batches == self._room and not self._grow():
            return 0
        found: cython.pointer[RecordBatchPlace] = self._places + self.batches
        greatest_ms: int64_t = greatest_time_of(p)
        found.offset = offset
        found.length = cython.cast(uint32_t, size)
        found.messages = count
        found.timestamp_ms = cython.cast(uint64_t, greatest_ms if greatest_ms > 0 else now_ms)
        found.crc = crc
        found.sequence = sequence
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.batches += 1
        self.batch_bytes += size
        self.messages += count
        return 1

    def produced(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> list:
        """The sequence number and the count of messages of each batch from `start` up to `stop`."""
        self._check(start, stop)
        return [(self._places[i].sequence, self._places[i].messages) for i in range(start, stop)]

    def answers(self, answer: bytes, offset_at: cython.Py_ssize_t, offset: int64_t) -> bytes:
        """The answers to all requests, made like this one."""
        size: cython.Py_ssize_t = PyBytes_GET_SIZE(answer)
        if offset_at < ID_AT + 4 or offset_at > size - 8:
            raise ValueError(f"no offset fits at {offset_at} into an answer of {size} bytes")
        out: bytes = PyBytes_FromStringAndSize(cython.NULL, size * self.batches)
        p: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(out))
        i: cython.Py_ssize_t
        for i in range(self.batches):
            memcpy(p, PyBytes_AS_STRING(answer), size)
            memcpy(p + ID_AT, cython.address(self._places[i].correlation_id), 4)
            write_i64(p + offset_at, offset)
            offset += self._places[i].messages
            p += size
        return out

    def records(
        self,
        start: cython.Py_ssize_t,
        number: uint64_t,
        position: uint32_t,
        room_bytes: uint64_t,
        most: cython.Py_ssize_t,
        append_ms: uint64_t,
        max_timestamp_ms: uint64_t,
        leader_epoch: uint32_t,
        format: uint8_t,
    ) -> bytes:
        """The index records of the batches from `start` on, into which it writes offset and epoch."""
        self._check(start, self.batches)
        stop: cython.Py_ssize_t = start
        total: uint64_t = 0
        while stop < self.batches and stop - start < most and total + self._places[stop].length <= room_bytes:
            total += self._places[stop].length
            stop += 1
        if stop == start:
            return b""
        data: cython.p_uchar = cython.cast(cython.p_uchar, self._held.buf)
        out: bytes = PyBytes_FromStringAndSize(cython.NULL, (stop - start) * cython.sizeof(Record))
        to: cython.p_char = PyBytes_AS_STRING(out)
        record: Record
        memset(cython.address(record), 0, cython.sizeof(Record))
        record.append_ms = append_ms
        record.leader_epoch = leader_epoch
        record.format = format
        record.flags = STORED_FLAGS
        record.producer_id = self.producer_id
        record.producer_epoch = self.producer_epoch
        found: cython.pointer[RecordBatchPlace]
        p: cython.p_uchar
        crc: uint32_t
        i: cython.Py_ssize_t
        for i in range(start, stop):
            found = self._places + i
            p = data + found.offset
            write_i64(p, cython.cast(int64_t, number - 1))
            write_u32(p + 12, leader_epoch)
            record.first = number
            record.span = found.messages - 1
            record.length = found.length
            max_timestamp_ms = max(max_timestamp_ms, found.timestamp_ms if found.timestamp_ms else append_ms)
            record.max_timestamp_ms = max_timestamp_ms
            record.producer_sequence = found.sequence
            record.messages = found.messages
            record.position = record.crc32c = 0
            if found.length < LONG:
                crc = crc32c(0, p, found.length)
            else:
                crc = crc32c_joined(crc32c(0, p, COVERED_FROM), found.crc, found.length - COVERED_FROM)
            record.crc32c = crc32c(crc, cython.address(record), cython.sizeof(Record))
            record.position = position
            memcpy(to, cython.address(record), cython.sizeof(Record))
            to += cython.sizeof(Record)
            number += found.messages
            position += found.length
        return out

    def slices(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> list:
        """The bytes of the batches from `start` up to `stop`, as they go to the log, in few pieces."""
        self._check(start, stop)
        if self.is_copied and start < stop:
            return [memoryview(self._copied(start, stop))]
        return [self._slice(i) for i in range(start, stop)]

    @cython.cfunc
    def _slice(self, place: cython.Py_ssize_t) -> object:
        """One batch."""
        offset: cython.Py_ssize_t = self._places[place].offset
        return self._view[offset : offset + self._places[place].length]

    @cython.cfunc
    def _copied(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> bytes:
        """The batches from `start` up to `stop` in one piece."""
        total: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        for i in range(start, stop):
            total += self._places[i].length
        data: cython.p_uchar = cython.cast(cython.p_uchar, self._held.buf)
        copied: bytes = PyBytes_FromStringAndSize(cython.NULL, total)
        to: cython.p_char = PyBytes_AS_STRING(copied)
        for i in range(start, stop):
            memcpy(to, data + self._places[i].offset, self._places[i].length)
            to += self._places[i].length
        return copied

    @cython.cfunc
    def _check(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        if start < 0 or start > stop or stop > self.batches:
            raise ValueError(f"there are no batches {start} to {stop}: {self.batches} were found")
        return 0

    def clear(self) -> None:
        """Forgets all batches: the buffer may change."""
        if self._is_held:
            PyBuffer_Release(cython.address(self._held))
            self._is_held = False
        self._view = None
        self.batches = self.batch_bytes = 0
        self.messages = 0
        self.producer_id = 0
        self.producer_epoch = 0
        self.is_copied = False
        if self._room > KEPT_PLACES:
            free(self._places)
            self._places = cython.NULL
            self._room = 0
