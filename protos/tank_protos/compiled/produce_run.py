"""The compiled twin of `tank_protos.storage.produce_run.ProduceRun`: see there for what it is.

What differs: small batches are moved together in the buffer as they are found, over the frame headers between
them, so that a run of them is written as one piece.

Memory safety: `find` checks `at` and `end` against the buffer, and every length against the frame, before
they are used; `_places` holds only what was checked so. A bytearray cannot be resized while a
memoryview of it exists, and `_view` is one.
"""

import sys

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcmp, memcpy, memmove, memset
from cython.cimports.tank_protos.compiled.bundle_walk import (
    KEY,
    NEXT_NUMBER,
    Header,
    begins_a_block,
    read_bundle_header,
    read_u64,
    read_varint,
    walk_messages,
)
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c
from cython.cimports.tank_protos.compiled.produce_places import Place, Record

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")
if sys.byteorder != "little":
    raise ImportError("the compiled kernel copies integers as they lie in memory: little-endian only")

PRODUCE = cython.declare(cython.uint, 1)
HEADER_BYTES = cython.declare(cython.Py_ssize_t, 5)
BEFORE_PREFIX = cython.declare(cython.Py_ssize_t, 11)
ANSWER_BYTES = cython.declare(cython.Py_ssize_t, 10)
# Smaller batches are moved together; moving a larger one costs more than a slice and an entry of `writev`.
MOVE_BELOW = cython.declare(cython.Py_ssize_t, 16 * 1024)
# Pieces that are smaller are copied together before they are written: the same holds for an entry of its own.
COPY_BELOW = cython.declare(cython.Py_ssize_t, 2 * 1024)
# Places that are kept allocated between ticks: there may be many thousands of partitions.
KEPT_PLACES = cython.declare(cython.Py_ssize_t, 64)

assert cython.sizeof(Record) == 64


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(p: cython.p_const_uchar) -> uint32_t:
    value: uint32_t
    memcpy(cython.address(value), p, 4)
    return value


@cython.cfunc
@cython.exceptval(check=False)
def _judge(
    data: cython.p_const_uchar, length: cython.size_t, found: cython.pointer[Place], walk: cython.bint
) -> cython.bint:
    """Whether at `found.offset` lie the length and the whole of a dense bundle that `bundle.validate` takes;
    fills in its messages and its timestamp."""
    p: cython.p_const_uchar = data + found.offset
    at: cython.size_t = 0
    size: uint32_t = 0
    header: Header
    # Three bytes of length: whatever needs more is no case for the short way.
    if not read_varint(p, length, cython.address(at), cython.address(size)) or at > 3 or at + size != length:
        return False
    if not read_bundle_header(p, at, length, cython.address(header)) or header.sparse:
        return False
    found.messages = header.messages
    found.timestamp_ms = 0
    if header.codec:
        return begins_a_block(p, length, header.body_offset)
    # There are ten bytes or more: the first message's flags, its timestamp, the length of its content.
    if p[header.body_offset] & ~(KEY | NEXT_NUMBER):  # no timestamp of its own, or unknown flags
        return False
    found.timestamp_ms = read_u64(p + header.body_offset + 1)
    return not walk or walk_messages(p, length, cython.address(header))


@cython.cclass
class ProduceRun:
    """Batches for one partition, found in one receive buffer, in the order in which they came."""

    batches = cython.declare(cython.Py_ssize_t, visibility="readonly")
    batch_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    messages = cython.declare(uint64_t, visibility="readonly")
    at = cython.declare(cython.Py_ssize_t, visibility="readonly")
    kept = cython.declare(cython.Py_ssize_t, visibility="readonly")
    walks = cython.declare(cython.bint, visibility="public")
    _view: memoryview | None
    _buffer: bytearray | None
    # `batches` of them are in use, of `_room`; each lies before `_reach`, which `_buffer` has.
    _places: cython.pointer[Place]
    _room: cython.Py_ssize_t
    _reach: cython.Py_ssize_t

    def __dealloc__(self) -> None:
        free(self._places)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grow(self) -> cython.bint:
        """Makes room for more; False: there is no memory."""
        room: cython.Py_ssize_t = 2 * self._room if self._room else 8
        grown: cython.p_void = realloc(self._places, room * cython.sizeof(Place))
        if grown == cython.NULL:
            return False
        self._places = cython.cast(cython.pointer(Place), grown)
        self._room = room
        return True

    @cython.cfunc
    def _look_into(
        self, buffer: bytearray, view: memoryview, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        if self._view is not view:
            if self.batches:
                raise ValueError("the batches before lie in another buffer")
            self._view = view
            self._buffer = buffer
        # The view keeps the buffer's memory where it is; this one must be that buffer.
        if buffer is not self._buffer:
            raise ValueError("not the buffer of this view")
        if at < 0 or at > end or end > len(buffer):
            raise ValueError(f"bytes {at} to {end} are outside the buffer of {len(buffer)} bytes")
        return 0

    def find(
        self,
        buffer: bytearray,
        view: memoryview,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        prefix: bytes,
        most: cython.Py_ssize_t,
        max_batch_bytes: cython.Py_ssize_t,
    ) -> bytes:
        """Takes whole produce frames from `at` on, and returns their answers (no error)."""
        self._look_into(buffer, view, at, end)
        data: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer))
        prefix_bytes: cython.Py_ssize_t = len(prefix)
        wanted: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(prefix))
        before: cython.Py_ssize_t = BEFORE_PREFIX + prefix_bytes
        to: cython.Py_ssize_t = at
        # Counted at the end: an error leaves all as it was.
        last: cython.Py_ssize_t = self.batches
        total: cython.Py_ssize_t = 0
        messages: uint64_t = 0
        length: cython.Py_ssize_t
        found: Place
        while end - at >= before + 12 and last - self.batches < most:
            length = HEADER_BYTES + cython.cast(cython.Py_ssize_t, _u32(data + at + 1))
            if data[at] != PRODUCE or length < before + 12 or length > end - at:
                break
            if memcmp(data + at + BEFORE_PREFIX, wanted, prefix_bytes) != 0:
                break
            found.offset = at + before
            length -= before
            if length > max_batch_bytes or not _judge(data, length, cython.address(found), self.walks):
                break
            found.length = cython.cast(uint32_t, length)
            if last == self._room and not self._grow():
                break
            found.request_id = _u32(data + at + 7)
            at = found.offset + length
            if length < MOVE_BELOW:
                if to != found.offset:
                    memmove(data + to, data + found.offset, length)
                    found.offset = to
                to += length
            else:
                to = at
            self._places[last] = found
            last += 1
            total += length
            messages += found.messages
        self.at = at
        self.kept = to
        if last == self.batches:
            return b""
        answers: bytes = self._answers(self.batches, last)
        self.batches = last
        self.batch_bytes += total
        self.messages += messages
        if at > self._reach:
            self._reach = at
        return answers

    @cython.cfunc
    def _answers(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> bytes:
        """The answers to the requests from `start` up to `stop`."""
        count: cython.Py_ssize_t = stop - start
        answers: bytes = PyBytes_FromStringAndSize(cython.NULL, count * ANSWER_BYTES)
        p: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(answers))
        i: cython.Py_ssize_t
        for i in range(start, stop):
            p[0] = PRODUCE
            p[1] = ANSWER_BYTES - HEADER_BYTES
            p[2] = p[3] = p[4] = p[9] = 0
            memcpy(p + 5, cython.address(self._places[i].request_id), 4)
            p += ANSWER_BYTES
        return answers

    @cython.cfunc
    def _data(self) -> cython.p_uchar:
        """The buffer's bytes; it still has all that was found."""
        if self._buffer is None or self._reach > len(self._buffer):
            raise ValueError("the buffer became smaller")
        return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self._buffer))

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
        """The index records of the batches from `start` on: of as many as have room in a segment, at most
        `most`."""
        if start < 0 or start > self.batches:
            raise ValueError(f"there is no batch {start}: {self.batches} were found")
        stop: cython.Py_ssize_t = start
        total: uint64_t = 0
        while stop < self.batches and stop - start < most and total + self._places[stop].length <= room_bytes:
            total += self._places[stop].length
            stop += 1
        if stop == start:
            return b""
        data: cython.p_uchar = self._data()
        out: bytes = PyBytes_FromStringAndSize(cython.NULL, (stop - start) * cython.sizeof(Record))
        to: cython.p_char = PyBytes_AS_STRING(out)
        record: Record
        memset(cython.address(record), 0, cython.sizeof(Record))
        record.append_ms = append_ms
        record.leader_epoch = leader_epoch
        record.format = format
        found: cython.pointer[Place]
        crc: uint32_t
        i: cython.Py_ssize_t
        for i in range(start, stop):
            found = self._places + i
            record.first = number
            record.span = found.messages - 1
            record.length = found.length
            max_timestamp_ms = max(max_timestamp_ms, found.timestamp_ms if found.timestamp_ms else append_ms)
            record.max_timestamp_ms = max_timestamp_ms
            record.messages = found.messages
            record.position = record.crc32c = 0
            crc = crc32c(0, data + found.offset, found.length)
            record.crc32c = crc32c(crc, cython.address(record), cython.sizeof(Record))
            record.position = position
            memcpy(to, cython.address(record), cython.sizeof(Record))
            to += cython.sizeof(Record)
            number += found.messages
            position += found.length
        return out

    def slices(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> list:
        """The bytes of the batches from `start` up to `stop`, as they go to the log, in few pieces."""
        if start < 0 or start > stop or stop > self.batches:
            raise ValueError(f"there are no batches {start} to {stop}: {self.batches} were found")
        if start == stop:
            return []
        count: cython.Py_ssize_t = 0
        total: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = -1
        i: cython.Py_ssize_t
        for i in range(start, stop):
            if self._places[i].offset != end:
                count += 1
            end = self._places[i].offset + self._places[i].length
            total += self._places[i].length
        if count > 1 and total < COPY_BELOW * count:
            return [memoryview(self._copied(start, stop, total))]
        pieces: list = []
        view: memoryview | None = self._view
        begin: cython.Py_ssize_t
        while view is not None and start < stop:
            begin = self._places[start].offset
            end = begin
            while start < stop and self._places[start].offset == end:
                end += self._places[start].length
                start += 1
            pieces.append(view[begin:end])
        return pieces

    @cython.cfunc
    def _copied(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, total: cython.Py_ssize_t) -> bytes:
        """The batches from `start` up to `stop`, `total` bytes, in one piece."""
        data: cython.p_uchar = self._data()
        copied: bytes = PyBytes_FromStringAndSize(cython.NULL, total)
        to: cython.p_char = PyBytes_AS_STRING(copied)
        i: cython.Py_ssize_t
        for i in range(start, stop):
            memcpy(to, data + self._places[i].offset, self._places[i].length)
            to += self._places[i].length
        return copied

    def clear(self) -> None:
        """Forgets all batches: the buffer may change."""
        self.batches = self.batch_bytes = self._reach = 0
        self.messages = 0
        self._view = None
        self._buffer = None
        if self._room > KEPT_PLACES:
            free(self._places)
            self._places = cython.NULL
            self._room = 0
