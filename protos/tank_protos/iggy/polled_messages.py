"""Stored batches as the answer to a poll, in the form of each era.

An answer is `u32 partition, u64 offset of the partition's last message, u32 count`, then the messages; in V11
these are in batches, each of the messages of one stored batch. A record keeps what it has: its client may be
one of Kafka's. Headers that Iggy can't carry are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tank_protos import bundle
from tank_protos.iggy import checksums, header_map, stored_header
from tank_protos.iggy.eras import Era, MessageChecksum, MessageLayout
from tank_protos.iggy.header_map import UserHeader
from tank_protos.iggy.kinds import HeaderKind
from tank_protos.iggy.limits import MAX_HEADER_FIELD_BYTES, MAX_HEADERS_BYTES
from tank_protos.iggy.sent_messages import BATCH_HEAD
from tank_protos.iggy.stored_header import NO_ID
from tank_protos.kafka import record_batch
from tank_protos.kafka.errors import invalid
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import CONTROL, LOG_APPEND_TIME
from tank_protos.kafka.records import Headers, placed_deltas
from tank_protos.kernel import twin
from tank_protos.wire.buffer import Buffer

NO_ASSIGNMENT: Final = 2**32 - 1
"""The partition's id, in an empty answer of V11, that tells a group's member to ask for its assignment."""
AVAILABLE: Final = 1
"""The state of a message that the first eras show."""

_ANSWER: Final = Struct("<IQI")
_SEED: Final = Struct("<QBQ16sII")
_LENGTH: Final = Struct("<I")
_CHECKSUM: Final = Struct("<Q")
_HEADER_56: Final = Struct("<16sQQQII")
_HEADER_64: Final = Struct("<16sQQQIIQ")
_IN_BATCH: Final = Struct("<16sIIIIQ")
_DERIVED_ID: Final = Struct("<QQ")
_US_PER_MS: Final = 1000
_MOST_US: Final = 2**64 - 1
_MOST_DELTA: Final = 2**32 - 1
"""What a batch of V11 can say: between the offsets of two messages, and between their times in
microseconds."""


class PollSource(NamedTuple):
    """A stored batch."""

    data: Buffer
    """A record batch with its offset, or a bundle with its length before it."""
    append_ms: int
    """When the leader appended it."""
    first: int
    """The number of a bundle's first message; a record batch says its own."""
    is_bundle: bool = False


class _Source(NamedTuple):
    """The messages of a stored batch in columns, in the form of records."""

    offsets: Sequence[int]
    times_ms: Sequence[int]
    values: Sequence[bytes | None]
    headers: dict[int, Headers]
    unpacked_bytes: int = 0
    """The size of records that were compressed."""


class _Message(NamedTuple):
    """A message on its way to a client."""

    offset: int
    message_id: bytes
    origin_us: int
    payload: bytes
    headers: bytes


_NO_MESSAGES: Final = _Source((), (), (), {})


class PolledPart(NamedTuple):
    """The messages of one stored batch, as an answer has them."""

    data: bytes
    messages: int
    """How many they are."""
    last_offset: int
    """That of the last one; -1: there is none."""
    lost_headers: int = 0
    """Headers that clients of the era can't read."""
    unpacked_bytes: int = 0
    """The size of the records, if they were compressed."""


class PollAnswer:
    """Collects the messages of one answer. `partition`: its number."""

    def __init__(self, era: Era, topic_id: int, partition: int, current_offset: int) -> None:
        self._era = era
        self._topic_id = topic_id
        self._partition = partition
        self._current_offset = current_offset
        self._parts: list[Buffer] = []
        self.messages = 0
        """How many are in the answer."""
        self.bytes = _ANSWER.size
        """The size of the payload."""
        self.last_offset: int | None = None
        """That of the last message in the answer; None: it has none."""
        self.lost_headers = 0
        """Headers that clients of this era can't read."""
        self.unpacked_bytes = 0
        """The size of the records that were compressed."""

    def add(self, source: PollSource, lowest_offset: int, most: int) -> int:
        """Adds the messages of a stored batch from an offset on, at most `most`; returns how many there were.

        Of a control batch there is none. Raises InvalidRecords or InvalidBundle for a batch that is damaged.
        """
        part = messages_of(source, self._era, self._topic_id, self._partition, lowest_offset, most)
        self.unpacked_bytes += part.unpacked_bytes
        if part.messages:
            self._parts.append(part.data)
            self.bytes += len(part.data)
            self.messages += part.messages
            self.last_offset = part.last_offset
            self.lost_headers += part.lost_headers
        return part.messages

    def payload(self) -> list[Buffer]:
        """Returns the payload of the answer, in pieces."""
        partition = self._partition + self._era.base
        return [_ANSWER.pack(partition, self._current_offset, self.messages), *self._parts]


@twin("iggy_poll")
def messages_of(
    source: PollSource, era: Era, topic_id: int, partition: int, lowest_offset: int, most: int
) -> PolledPart:
    """Returns the messages of a stored batch from an offset on, at most `most`, as clients of the era read
    them. `partition`: its number.

    Of a control batch there is none. Raises InvalidRecords or InvalidBundle for a batch that is damaged.
    """
    found = _bundle_columns(source) if source.is_bundle else _record_columns(source)
    begin = 0
    count = len(found.values)
    while begin < count and found.offsets[begin] < lowest_offset:
        begin += 1
    end = min(count, begin + most)
    if begin >= end:
        return PolledPart(b"", 0, -1, 0, found.unpacked_bytes)
    part = _PartMaker(era, topic_id, partition)
    messages = [part.message(found, place) for place in range(begin, end)]
    part.write(messages, min(source.append_ms * _US_PER_MS, _MOST_US))
    last_offset = messages[-1].offset
    return PolledPart(
        b"".join(part.pieces), len(messages), last_offset, part.lost_headers, found.unpacked_bytes
    )


class _PartMaker:
    """Makes one part of an answer."""

    def __init__(self, era: Era, topic_id: int, partition: int) -> None:
        self._era = era
        self._topic_id = topic_id
        self._partition = partition
        self._maps: dict[Headers, tuple[bytes, bytes, int]] = {}
        """What `_read_headers` found of the headers behind ours, because they are often the same."""
        self.pieces: list[Buffer] = []
        self.lost_headers = 0

    def message(self, found: _Source, place: int) -> _Message:
        """Returns a message as clients read it."""
        offset = found.offsets[place]
        origin_us = found.times_ms[place] * _US_PER_MS
        of_record = found.headers.get(place)
        message_id, headers = NO_ID, b""
        if of_record:
            message_id, rest_us, headers = self._read_headers(of_record)
            origin_us += rest_us
        if message_id == NO_ID:
            message_id = _DERIVED_ID.pack(offset + 1, self._topic_id)
        return _Message(offset, message_id, min(origin_us, _MOST_US), found.values[place] or b"", headers)

    def _read_headers(self, of_record: Headers) -> tuple[bytes, int, bytes]:
        """Returns a message's id, its microseconds, and its headers as clients of the era read them."""
        message_id, rest_us, kinds = NO_ID, 0, b""
        name, value = of_record[0]
        rest = of_record
        if name == stored_header.NAME:
            ours = stored_header.unpack(value)
            if ours is not None:
                message_id, rest_us, kinds = ours
                rest = of_record[1:]
        if not rest:
            return message_id, rest_us, b""
        known = self._maps.get(rest)
        if known is None or known[0] != kinds:
            data, lost = _map(rest, kinds, self._era.has_key_kinds)
            known = self._maps[rest] = (kinds, data, lost)
        self.lost_headers += known[2]
        return message_id, rest_us, known[1]

    def write(self, messages: list[_Message], append_us: int) -> None:
        """Adds messages in the layout of the era."""
        if self._era.layout is MessageLayout.SEED:
            self._add_seed(messages, append_us)
        elif self._era.layout is MessageLayout.BATCH:
            self._add_batches(messages, append_us)
        else:
            self._add_headed(messages, append_us)

    def _add_seed(self, messages: list[_Message], append_us: int) -> None:
        for offset, message_id, _, payload, headers in messages:
            checksum = checksums.crc32(payload)
            self.pieces.append(_SEED.pack(offset, AVAILABLE, append_us, message_id, checksum, len(headers)))
            self.pieces += (headers, _LENGTH.pack(len(payload)), payload)

    def _add_headed(self, messages: list[_Message], append_us: int) -> None:
        is_64 = self._era.layout is MessageLayout.HEADER_64
        checksum = checksums.crc32 if self._era.checksum is MessageChecksum.CRC32 else checksums.xxh3
        for offset, message_id, origin_us, payload, headers in messages:
            sizes = (len(headers), len(payload))
            if is_64:
                head = _HEADER_64.pack(message_id, offset, append_us, origin_us, *sizes, 0)
            else:
                head = _HEADER_56.pack(message_id, offset, append_us, origin_us, *sizes)
            body = b"".join((head, payload, headers))
            self.pieces += (_CHECKSUM.pack(checksum(body)), body)

    def _add_batches(self, messages: list[_Message], append_us: int) -> None:
        begin = 0
        while begin < len(messages):
            end = _end_of_batch(messages, begin)
            self._add_batch(messages[begin:end], append_us)
            begin = end

    def _add_batch(self, messages: list[_Message], append_us: int) -> None:
        """Adds one batch, whose messages are not further apart than it can say."""
        base = messages[0].offset
        origin_us = min(message.origin_us for message in messages)
        parts: list[Buffer] = []
        sums: list[bytes] = []
        for offset, message_id, time_us, payload, headers in messages:
            head = _IN_BATCH.pack(
                message_id, offset - base, time_us - origin_us, len(headers), len(payload), 0
            )
            body = b"".join((head, payload, headers))
            checksum = _CHECKSUM.pack(checksums.xxh3(body))
            sums.append(checksum)
            parts += (checksum, body)
        length = BATCH_HEAD.size + sum(map(len, parts))
        partition = self._partition + self._era.base
        fields = (partition, base, append_us, origin_us, length)
        count = len(messages)
        checksum_of_all = checksums.batch_checksum((*fields, count), b"".join(sums))
        self.pieces += (BATCH_HEAD.pack(*fields, checksum_of_all, count), *parts)


def _end_of_batch(messages: list[_Message], begin: int) -> int:
    """Returns the place behind the messages from `begin` on whose offsets and times fit into one batch of
    V11."""
    base = messages[begin].offset
    least = greatest = messages[begin].origin_us
    for place in range(begin + 1, len(messages)):
        offset, time_us = messages[place].offset, messages[place].origin_us
        least, greatest = min(least, time_us), max(greatest, time_us)
        if greatest - least > _MOST_DELTA or offset - base > _MOST_DELTA:
            return place
    return len(messages)


def _record_columns(source: PollSource) -> _Source:
    view = memoryview(source.data)
    header = record_batch.read_header(view)
    if header.attributes & CONTROL or not header.records_count:
        return _NO_MESSAGES
    if header.base_offset < 0:
        raise invalid(f"a stored batch at offset {header.base_offset}")
    payload: bytes | None = None
    unpacked_bytes = 0
    if header.codec and header.records_count <= MAX_CONVERTED_RECORDS:
        payload = record_batch.payload_of(view, header)
        unpacked_bytes = len(payload)
    found = record_batch.columns_of(view, header, MAX_UNPACKED_BYTES, payload)
    deltas = placed_deltas(found.offset_deltas, header.last_offset_delta)
    base_ms = header.base_timestamp_ms
    times: Sequence[int]
    if header.attributes & LOG_APPEND_TIME:
        times = [max(header.max_timestamp_ms, 0)] * len(deltas)
    else:
        times = [base_ms + delta for delta in found.timestamp_deltas]
        if min(times) < 0:
            times = [time if time >= 0 else source.append_ms for time in times]
    offsets = [header.base_offset + delta for delta in deltas]
    return _Source(offsets, times, found.values, found.headers, unpacked_bytes)


def _bundle_columns(source: PollSource) -> _Source:
    found = bundle.decode_columns(source.data, source.first)
    return _Source([number - 1 for number in found.numbers], found.timestamps, found.values, {})


def _map(headers: Headers, kinds: bytes, has_key_kinds: bool) -> tuple[bytes, int]:
    """Returns a header map, and how many headers are not in it."""
    found: list[UserHeader] = []
    lost = size = 0
    beside = header_map.bytes_beside(has_key_kinds)
    for place, (key, value) in enumerate(headers):
        byte = kinds[place] if place < len(kinds) else stored_header.DEFAULT_KINDS
        key_kind, value_kind = stored_header.kinds_of(byte)
        most = MAX_HEADER_FIELD_BYTES
        fits = value is not None and 1 <= len(key) <= most and 1 <= len(value) <= most
        if key_kind == HeaderKind.STRING or not has_key_kinds:
            fits = fits and _is_text(key)
        size += len(key) + len(value or b"") + beside
        if not fits or value is None or size > MAX_HEADERS_BYTES:
            lost += 1
            continue
        found.append(UserHeader(key, value, value_kind, key_kind))
    return header_map.write(found, has_key_kinds), lost


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
