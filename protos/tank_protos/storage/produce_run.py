"""Runs of produce requests: handles many similar requests of one partition in few steps.

A producer's requests to one partition have the same bytes from its client id to the partition's number.
`ProduceRun` collects such requests from a receive buffer, and makes their answers and index records. A
request with other bytes, or with a sparse or malformed bundle, ends the run; the caller decodes that one.

There are two implementations, this one and `tank_protos.compiled.produce_run`; `tank_protos.kernel` chooses.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from struct import Struct
from typing import Final, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.bundle.header import COUNT_SHIFT, KEY, NEXT_NUMBER, SPARSE, first_timestamp_ms, validate
from tank_protos.kernel import twin
from tank_protos.storage.index_record import CRC_AT, POSITION_AT, RECORD, RECORD_BYTES
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, WireError
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES

PRODUCE: Final = 1
# The frame header, the client version and the request id, before the bytes that all requests share.
BEFORE_PREFIX: Final = 11
# `u8 1, u32 5, u32 request id, u8 error`: the answer to a produce request with one bundle.
ANSWER_BYTES: Final = 10

_read_head = FRAME_HEAD.unpack_from
_read_u64 = Struct("<Q").unpack_from
_pack_record = RECORD.pack
_STAMP_AT: Final = 32
# A record as its first number, its greatest time, and two pieces that are the same in a whole run.
_pack_alike = Struct(f"<Q{_STAMP_AT - 8}sQ{RECORD_BYTES - _STAMP_AT - 8}s").pack
_pack_number = Struct(f"<Q{RECORD_BYTES - 8}s").pack
_ANSWER = Struct("<BIIB").pack(PRODUCE, ANSWER_BYTES - HEADER_BYTES, 0, 0)
# From this many similar frames on, comparing them column by column is cheaper.
_MANY: Final = 8
_ID_AT: Final = 5
_ERROR_AT: Final = 9
# By flags: the count of messages of a dense, uncompressed bundle that has the count in its flags; else 0.
_SIMPLE: Final = [
    flags >> COUNT_SHIFT if flags < SPARSE and flags % (1 << COUNT_SHIFT) == 0 else 0 for flags in range(256)
]
_ONE_MESSAGE: Final = 1 << COUNT_SHIFT
_UNKNOWN_FLAGS: Final = ~(KEY | NEXT_NUMBER)
# Smaller batches are joined before they are written, which is cheaper than an entry of `writev` for each.
_COPY_BELOW: Final = 16 * 1024
# Batches below this size are copied when found: bytes are cheaper to check and to join than slices.
_COPY_AT_ONCE_BELOW: Final = 2 * 1024

Copies: TypeAlias = tuple[bytes, Sequence[bytes]]


def failed(answers: bytes, error: int) -> bytes:
    """Returns the answers of `find` with this error in each."""
    changed = bytearray(answers)
    changed[_ERROR_AT::ANSWER_BYTES] = bytes((error,)) * (len(answers) // ANSWER_BYTES)
    return bytes(changed)


def _answers(request_ids: bytes) -> bytes:
    """Makes the answers to requests with these ids, four bytes each."""
    count = len(request_ids) // 4
    if count == 1:
        return b"".join((_ANSWER[:_ID_AT], request_ids, _ANSWER[_ERROR_AT:]))
    answers = bytearray(_ANSWER * count)
    for i in range(4):
        answers[_ID_AT + i :: ANSWER_BYTES] = request_ids[i::4]
    return bytes(answers)


def _judge(
    buffer: bytearray, view: memoryview, found: int, stop: int, walk: bool
) -> tuple[int, int, int, int] | None:
    """Checks the batch buffer[found:stop], which has 12 bytes or more. Returns None if it isn't plain; else
    its count of messages, the first message's time (0: compressed), the offset of that time, and the offset
    up to which a batch of the same length must have the same bytes, apart from the time, to be valid, too (0
    and 0: each batch has to be checked)."""
    # The bundle must end with the frame: then a full decode finds the same bundle and nothing else.
    start = found + 1
    if (size := buffer[found]) > 0x7F:
        start += 1
        if (byte := buffer[found + 1]) < 0x80:
            size = size & 0x7F | byte << 7
        elif (high := buffer[found + 2]) < 0x80:
            size = size & 0x7F | (byte & 0x7F) << 7 | high << 14
            start += 1
        else:
            return None
    if start + size != stop:
        return None
    if messages := _SIMPLE[buffer[start]]:
        if size < 9 + 2 * messages or buffer[start + 1] & _UNKNOWN_FLAGS:
            return None
        known_to = start + 10
        if walk:
            known_to = _walked(buffer, view, found, start, stop)
            if known_to < 0:
                return None
        return messages, _read_u64(buffer, start + 2)[0], start + 2 if known_to else 0, known_to
    batch = view[found:stop]
    try:
        header = validate(batch, walk)
    except InvalidBundle:
        return None
    if header.sparse:
        return None
    stamp_at = 0 if header.codec or walk else found + header.body_offset + 1
    return header.messages, first_timestamp_ms(batch, header) or 0, stamp_at, stamp_at and stamp_at + 8


def _walked(buffer: bytearray, view: memoryview, found: int, start: int, stop: int) -> int:
    """Checks the messages of a simple bundle at `start` of the batch buffer[found:stop]. Returns the offset
    up to which a similar one must have the same bytes; 0: each has to be checked; -1: its lengths are
    wrong."""
    if buffer[start] == _ONE_MESSAGE and not buffer[start + 1] & KEY:
        try:
            size, at = varint.read(view[:stop], start + 10)
        except WireError:
            return -1
        return at if at + size == stop else -1
    try:
        validate(view[found:stop], True)
    except InvalidBundle:
        return -1
    return 0


@lru_cache(maxsize=64)
def _reader(frame_bytes: int, head_bytes: int, behind_bytes: int) -> Struct:
    """The format of frames of one length: message id, length, request id, the bytes up to the time, the time,
    and the bytes behind it."""
    rest = frame_bytes - BEFORE_PREFIX - head_bytes - 8 - behind_bytes
    return Struct(f"<BI2x4s{head_bytes}sQ{behind_bytes}s{rest}x")


def _alike(frames: memoryview, length: int, head: bytes, behind: bytes) -> tuple[bytes, list[int]]:
    """Reads frames of one length while they have `head` behind their request id, then a time, then `behind`.
    Returns their request ids and times."""
    ids: list[bytes] = []
    times: list[int] = []
    for message_id, found_length, request_id, found, timestamp_ms, found_behind in _reader(
        HEADER_BYTES + length, len(head), len(behind)
    ).iter_unpack(frames):
        if found != head or found_behind != behind or found_length != length or message_id != PRODUCE:
            break
        ids.append(request_id)
        times.append(timestamp_ms)
    return b"".join(ids), times


@lru_cache(maxsize=64)
def _cutters(frame_bytes: int, head_bytes: int, batch_bytes: int) -> tuple[Struct, Struct]:
    """Two formats of frames of one length: the bytes before the request id, and the head behind it; the
    request id, and the batch."""
    before = BEFORE_PREFIX - 4
    return (
        Struct(f"{before}s4x{head_bytes}s{frame_bytes - BEFORE_PREFIX - head_bytes}x"),
        Struct(f"{before}x4s{frame_bytes - BEFORE_PREFIX - batch_bytes}x{batch_bytes}s"),
    )


def _copies(
    frames: memoryview, start: bytes, head: bytes, batch_bytes: int, frame_bytes: int
) -> Copies | None:
    """Returns the request ids and copies of the batches of frames, if all have `start` before their request
    id and `head` behind it; else None."""
    heads, batches = _cutters(frame_bytes, len(head), batch_bytes)
    found = list(heads.iter_unpack(frames))
    if found.count((start, head)) != len(found):
        return None
    ids, copies = zip(*batches.iter_unpack(frames), strict=True)
    return b"".join(ids), copies


def _same(
    view: memoryview, at: int, stop: int, rows: int, found: int, stamp_at: int, known_to: int, copied: bool
) -> tuple[bytes, Sequence[bytes | memoryview], list[int]]:
    """Finds the frames, at most `rows`, behind the one in view[at:stop] that equal it up to `known_to`,
    except for the time at `stamp_at`. Returns their request ids, batches and times. `found`: the begin of
    that frame's batch."""
    step, size = stop - at, stop - found
    frames = view[stop : stop + rows * step]
    head = view[at + BEFORE_PREFIX : known_to].tobytes()
    time_at = stamp_at - at - BEFORE_PREFIX
    time, behind = head[time_at : time_at + 8], head[time_at + 8 :]
    # Requests that are sent together often have one time. The last frame is compared first: when a client's
    # requests take turns over partitions, few match, and all would be unpacked again for each run.
    last = stop + (rows - 1) * step + BEFORE_PREFIX
    if copied and rows >= _MANY and view[last : last + len(head)] == head:
        copies = _copies(frames, view[at : at + BEFORE_PREFIX - 4].tobytes(), head, size, step)
        if copies is not None:
            return *copies, [int.from_bytes(time, "little")] * rows
    ids, times = _alike(frames, step - HEADER_BYTES, head[:time_at], behind)
    places = range(found + step, found + step + len(times) * step, step)
    if copied:
        return ids, [view[i : i + size].tobytes() for i in places], times
    return ids, [view[i : i + size] for i in places], times


def _like(pattern: bytes, numbers: range, times: list[int]) -> list[bytes]:
    """Makes records like `pattern`, except for the first number and the greatest time up to each."""
    if max(times) == times[0]:
        return list(map(_pack_number, numbers, repeat(pattern[8:])))
    before, behind = repeat(pattern[8:_STAMP_AT]), repeat(pattern[_STAMP_AT + 8 :])
    return list(map(_pack_alike, numbers, before, accumulate(times, max), behind))


@twin("produce_run")
class ProduceRun:
    """Batches for one partition, found in one receive buffer, in their order.

    Large batches are views of the buffer, so it must not change until `clear`.
    """

    __slots__ = (
        "_batches",
        "_counts",
        "_timestamps",
        "_view",
        "at",
        "batch_bytes",
        "batches",
        "kept",
        "messages",
        "walks",
    )

    def __init__(self) -> None:
        # The count of batches found since `clear`, their bytes, and their messages.
        self.batches = 0
        self.batch_bytes = 0
        self.messages = 0
        # The offset at which the last `find` ended, and the offset up to which the buffer must not change.
        self.at = 0
        self.kept = 0
        # Whether messages are checked, as `bundle.validate` does with `walk`.
        self.walks = False
        self._view: memoryview | None = None
        self._batches: list[bytes | memoryview] = []
        self._counts: list[int] = []
        self._timestamps: list[int] = []

    def find(
        self, buffer: bytearray, view: memoryview, at: int, end: int,
        prefix: bytes, most: int, max_batch_bytes: int,
    ) -> bytes:  # fmt: skip
        """Takes whole produce frames from `at` on, at most `most`, and returns their answers, without errors.

        It takes frames while `prefix` follows their request id, and behind it only one dense bundle that
        `bundle.validate` accepts, of at most `max_batch_bytes` with its length. Sets `self.at`. `view` is
        over all of `buffer`, and the same object until `clear`.
        """
        self._look_into(buffer, view, at, end)
        batches: list[bytes | memoryview] = []
        counts: list[int] = []
        timestamps: list[int] = []
        request_ids = b""
        began = kept = at
        prefix_bytes = len(prefix)
        shortest = BEFORE_PREFIX + prefix_bytes + 12
        while end - at >= shortest and len(batches) < most:
            message_id, length = _read_head(buffer, at)
            stop = at + HEADER_BYTES + length
            if message_id != PRODUCE or stop > end or not buffer.startswith(prefix, at + BEFORE_PREFIX):
                break
            found = at + BEFORE_PREFIX + prefix_bytes
            size = stop - found
            judged = _judge(buffer, view, found, stop, self.walks) if 12 <= size <= max_batch_bytes else None
            if judged is None:
                break
            messages, timestamp_ms, stamp_at, known_to = judged
            copied = size < _COPY_AT_ONCE_BELOW
            batches.append(view[found:stop].tobytes() if copied else view[found:stop])
            counts.append(messages)
            timestamps.append(timestamp_ms)
            request_ids += buffer[at + BEFORE_PREFIX - 4 : at + BEFORE_PREFIX]
            rows = min((end - stop) // (stop - at), most - len(batches)) if stop < end and stamp_at else 0
            if (
                rows
                and buffer[stop : stop + HEADER_BYTES] == buffer[at : at + HEADER_BYTES]
                and buffer.startswith(prefix, stop + BEFORE_PREFIX)
            ):
                # Most producers send similar bundles: one that equals this, except for the time, is valid.
                ids, more, times = _same(view, at, stop, rows, found, stamp_at, known_to, copied)
                at = stop
                stop += len(times) * (HEADER_BYTES + length)
                batches += more
                counts += [messages] * len(times)
                timestamps += times
                request_ids += ids
            at = stop
            if not copied:
                kept = at
        self.at = at
        self.kept = kept
        if not batches:
            return b""
        self.batch_bytes += at - began - len(batches) * (BEFORE_PREFIX + prefix_bytes)
        self._add(batches, counts, timestamps)
        return _answers(request_ids)

    def _add(self, batches: list[bytes | memoryview], counts: list[int], timestamps: list[int]) -> None:
        self.batches += len(batches)
        self.messages += sum(counts)
        self._batches += batches
        self._counts += counts
        self._timestamps += timestamps

    def _look_into(self, buffer: bytearray, view: memoryview, at: int, end: int) -> None:
        if self._view is not view:
            if self.batches:
                raise ValueError("the batches before lie in another buffer")
            self._view = view
        if not 0 <= at <= end <= len(buffer):
            raise ValueError(f"bytes {at} to {end} are outside the buffer of {len(buffer)} bytes")

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
        `room_bytes` hold.

        The first batch gets the number `number` and the position `position`. `max_timestamp_ms`: the greatest
        time of the partition so far. `tank_protos.storage.index_record` describes the records.
        """
        if not 0 <= start <= self.batches:
            raise ValueError(f"there is no batch {start}: {self.batches} were found")
        batches = self._batches[start : start + most] if start or most < self.batches else self._batches
        lengths = list(map(len, batches))
        if not lengths or sum(lengths) > room_bytes:
            if not (stop := bisect_right(list(accumulate(lengths)), room_bytes)):
                return b""
            batches, lengths = batches[:stop], lengths[:stop]
        counts = self._counts[start : start + len(batches)]
        times = [time or append_ms for time in self._timestamps[start : start + len(batches)]]
        times[0] = max(times[0], max_timestamp_ms)
        count, length, rest = counts[0], lengths[0], (leader_epoch, 0, format, 0)
        if counts.count(count) == lengths.count(length) == len(counts):
            pattern = _pack_record(0, count - 1, 0, length, 0, append_ms, times[0], 0, 0, *rest, count)
            packed = _like(pattern, range(number, number + count * len(counts), count), times)
            places = array("I", range(position, position + length * len(lengths), length))
        else:
            spans, zeros = [count - 1 for count in counts], repeat(0)
            numbers = accumulate(chain((number,), counts))
            same = [repeat(value) for value in rest]
            parts = (
                numbers,
                spans,
                zeros,
                lengths,
                zeros,
                repeat(append_ms),
                accumulate(times, max),
                zeros,
                zeros,
            )
            packed = list(map(_pack_record, *parts, *same, counts))
            places = array("I", accumulate(chain((position,), lengths[:-1])))
        crcs = map(crc32c, packed, map(crc32c, batches))
        out = bytearray().join(packed)
        with memoryview(out) as bytes_, bytes_.cast("I") as words:
            words[POSITION_AT // 4 :: RECORD_BYTES // 4] = memoryview(places)
            words[CRC_AT // 4 :: RECORD_BYTES // 4] = memoryview(array("I", crcs))
        return bytes(out)

    def slices(self, start: int, stop: int) -> list[memoryview]:
        """Returns the bytes of the batches from `start` up to `stop`, in few pieces, for the log."""
        if not 0 <= start <= stop <= self.batches:
            raise ValueError(f"there are no batches {start} to {stop}: {self.batches} were found")
        batches = self._batches[start:stop]
        if len(batches) > 1 and self.batch_bytes < _COPY_BELOW * self.batches:
            return [memoryview(b"".join(batches))]
        return [memoryview(batch) for batch in batches]

    def clear(self) -> None:
        """Forgets all batches, so that the buffer may change."""
        self.batches = self.batch_bytes = self.messages = 0
        self._view = None
        self._batches = []
        self._counts = []
        self._timestamps = []
