"""The messages of a send as one record batch, or as one bundle.

All of them are checked before anything is made: a send is stored as a whole or not at all. Neither form is
compressed. Keys of the partitioning are not stored.
"""

from __future__ import annotations

from itertools import accumulate, repeat
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tank_protos import bundle
from tank_protos.iggy import checksums, header_map, stored_header
from tank_protos.iggy.eras import Era, MessageLayout
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.limits import MAX_HEADERS_BYTES, MAX_PAYLOAD_BYTES, MAX_SENT_MESSAGES
from tank_protos.iggy.send import SendRequest, too_many
from tank_protos.iggy.stored_header import DEFAULT_KINDS, NO_ID
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.record_batch import MAGIC, NO_EPOCH, NO_PRODUCER, RecordBatchHeader, seal
from tank_protos.kafka.records import Headers, encode_columns
from tank_protos.kernel import twin
from tank_protos.wire.errors import Truncated, WireError

_US_PER_MS: Final = 1000
_INDEX: Final = Struct("<IIQ")
_SEED_HEAD: Final = Struct("<16sI")
_LENGTH: Final = Struct("<I")
_HEADER_56: Final = Struct("<8x16s16xQII")
_HEADER_64: Final = Struct("<8x16s16xQII8x")
BATCH_HEAD: Final = Struct("<QQQQQQI204x")
"""Partition, base offset, base timestamp, origin timestamp, length, checksum, count."""
BATCH_MESSAGE: Final = Struct("<Q16sIIIIQ")
"""Checksum, id, offset delta, timestamp delta, sizes of headers and payload, zero."""
_CHECKSUM_BYTES: Final = 8


class SentColumns(NamedTuple):
    """The messages of a send in columns, all of one length but `headers`."""

    ids: list[bytes]
    """Sixteen bytes; all zero: the client leaves the choice to the server."""
    times_us: list[int] | None
    """When each was made, by its client; None: this era's messages don't say."""
    payloads: list[bytes]
    headers: dict[int, bytes]
    """Of the messages that have some, by index, as they came."""


def columns(sent: SendRequest, era: Era) -> SentColumns:
    """Returns the messages of a send. Raises WireError, as IggyRefusal with the message's index if it is one
    message that is refused."""
    if era.layout is MessageLayout.SEED:
        return _seed_columns(sent.messages)
    assert sent.messages_count is not None, "the layouts behind the seed's have a count"
    if era.layout is MessageLayout.BATCH:
        return _batch_columns(sent.messages, sent.messages_count)
    form = _HEADER_64 if era.layout is MessageLayout.HEADER_64 else _HEADER_56
    return _indexed_columns(sent.messages, sent.messages_count, form)


def _check_sizes(headers_bytes: int, payload_bytes: int, index: int) -> None:
    if not payload_bytes:
        raise IggyRefusal(IggyError.EMPTY_MESSAGE_PAYLOAD, "a message without a byte", index)
    if payload_bytes > MAX_PAYLOAD_BYTES:
        what = f"a message of {payload_bytes} bytes, where {MAX_PAYLOAD_BYTES} are possible"
        raise IggyRefusal(IggyError.TOO_BIG_MESSAGE_PAYLOAD, what, index)
    if headers_bytes > MAX_HEADERS_BYTES:
        what = f"headers of {headers_bytes} bytes, where {MAX_HEADERS_BYTES} are possible"
        raise IggyRefusal(IggyError.TOO_BIG_HEADERS, what, index)


def _seed_columns(area: memoryview) -> SentColumns:
    ids: list[bytes] = []
    payloads: list[bytes] = []
    headers: dict[int, bytes] = {}
    at, end, index = 0, len(area), 0
    try:
        while at < end:
            message_id, headers_bytes = _SEED_HEAD.unpack_from(area, at)
            start = at + _SEED_HEAD.size
            at = start + headers_bytes
            (payload_bytes,) = _LENGTH.unpack_from(area, at)
            _check_sizes(headers_bytes, payload_bytes, index)
            if headers_bytes:
                headers[index] = bytes(area[start:at])
            start = at + _LENGTH.size
            at = start + payload_bytes
            ids.append(message_id)
            payloads.append(bytes(area[start:at]))
            index += 1
            if index > MAX_SENT_MESSAGES:
                raise too_many(index)
    except StructError:
        raise Truncated("a send ends inside a message") from None
    if at != end:
        raise Truncated("a send ends inside a message")
    if not index:
        raise IggyRefusal(IggyError.INVALID_MESSAGES_COUNT, "a send of no messages")
    return SentColumns(ids, None, payloads, headers)


def _indexed_columns(area: memoryview, count: int, form: Struct) -> SentColumns:
    begin = count * _INDEX.size
    if begin > len(area):
        what = f"{len(area)} bytes, where the indexes of {count} messages have {begin}"
        raise IggyRefusal(IggyError.MISSING_INDEX, what)
    ids: list[bytes] = []
    times_us: list[int] = []
    payloads: list[bytes] = []
    headers: dict[int, bytes] = {}
    at, end, index, size = begin, len(area), 0, form.size
    try:
        for index, (_, stated_end, _) in enumerate(_INDEX.iter_unpack(area[:begin])):
            message_id, time_us, headers_bytes, payload_bytes = form.unpack_from(area, at)
            _check_sizes(headers_bytes, payload_bytes, index)
            start = at + size
            at = start + payload_bytes
            payloads.append(bytes(area[start:at]))
            if headers_bytes:
                start, at = at, at + headers_bytes
                headers[index] = bytes(area[start:at])
            if at - begin != stated_end or at > end:
                raise _wrong_area(f"a message ends at {at - begin}, and its index says {stated_end}", index)
            ids.append(message_id)
            times_us.append(time_us)
    except StructError:
        raise _wrong_area(f"the messages end inside message {index} of {count}", index) from None
    if at != end:
        raise _wrong_area(f"{end - at} bytes follow the {count} messages")
    return SentColumns(ids, times_us, payloads, headers)


def _wrong_area(what: str, index: int | None = None) -> IggyRefusal:
    return IggyRefusal(IggyError.INVALID_MESSAGES_BYTES, what, index)


def _batch_columns(area: memoryview, count: int) -> SentColumns:
    if len(area) < BATCH_HEAD.size:
        raise Truncated("a send ends inside the header of its batch")
    head = BATCH_HEAD.unpack_from(area)
    _, _, _, origin_us, length, checksum, stated = head
    if length != len(area):
        raise _wrong_area(f"the batch says {length} bytes and brings {len(area)}")
    if stated != count:
        what = f"the batch says {stated} messages, and its send {count}"
        raise IggyRefusal(IggyError.INVALID_MESSAGES_COUNT, what)
    if count * BATCH_MESSAGE.size > length:
        raise _wrong_area(f"{count} messages in {length} bytes")
    ids: list[bytes] = []
    times_us: list[int] = []
    payloads: list[bytes] = []
    headers: dict[int, bytes] = {}
    sums: list[bytes] = []
    at, end, index = BATCH_HEAD.size, len(area), 0
    try:
        for index in range(count):
            _, message_id, _, delta_us, headers_bytes, payload_bytes, zero = BATCH_MESSAGE.unpack_from(
                area, at
            )
            if zero:
                what = f"the reserved bytes of a message are {zero}"
                raise IggyRefusal(IggyError.INVALID_RESERVED_FIELD, what, index)
            _check_sizes(headers_bytes, payload_bytes, index)
            sums.append(bytes(area[at : at + _CHECKSUM_BYTES]))
            start = at + BATCH_MESSAGE.size
            at = start + payload_bytes
            payloads.append(bytes(area[start:at]))
            if headers_bytes:
                start, at = at, at + headers_bytes
                headers[index] = bytes(area[start:at])
            if at > end:
                raise _wrong_area("a message leads out of its batch", index)
            ids.append(message_id)
            times_us.append(origin_us + delta_us)
    except StructError:
        raise _wrong_area("the batch ends inside a message", index) from None
    if at != end:
        raise _wrong_area(f"{end - at} bytes follow the {count} messages")
    if checksum and checksum != checksums.batch_checksum((*head[:5], stated), b"".join(sums)):
        raise IggyRefusal(IggyError.INVALID_BATCH_CHECKSUM, "the batch doesn't match its checksum")
    return SentColumns(ids, times_us, payloads, headers)


class _Map(NamedTuple):
    """A header map as a record has it."""

    headers: Headers
    kinds: bytes
    is_plain: bool
    """Whether a record needs no reserved header for it."""


def _map_of(data: bytes, has_key_kinds: bool, index: int) -> _Map:
    try:
        found = header_map.read(data, has_key_kinds)
    except IggyRefusal as refusal:
        refusal.index = index
        raise
    except WireError as error:
        raise IggyRefusal(IggyError.INVALID_HEADER_VALUE, str(error), index) from None
    kinds = bytes([stored_header.kinds_byte(header.key_kind, header.value_kind) for header in found])
    is_plain = kinds.count(DEFAULT_KINDS) == len(kinds) and found[0].key != stored_header.NAME
    return _Map(tuple([(header.key, header.value) for header in found]), kinds, is_plain)


def _headers(sent: SentColumns, has_key_kinds: bool) -> dict[int, Headers]:
    """Returns the headers of the records that have some, ours first."""
    found: dict[int, Headers] = {}
    known: dict[bytes, _Map] = {}
    for index, data in sent.headers.items():
        of_data = known.get(data)
        if of_data is None:
            of_data = known[data] = _map_of(data, has_key_kinds, index)
        rest_us = 0 if sent.times_us is None else sent.times_us[index] % _US_PER_MS
        message_id = sent.ids[index]
        if of_data.is_plain and not rest_us and message_id == NO_ID:
            found[index] = of_data.headers
        else:
            value = stored_header.pack(message_id, rest_us, of_data.kinds)
            found[index] = ((stored_header.NAME, value), *of_data.headers)
    pack = stored_header.pack
    for index, (message_id, time_us) in enumerate(zip(sent.ids, sent.times_us or repeat(0), strict=False)):
        rest_us = time_us % _US_PER_MS
        if (rest_us or message_id != NO_ID) and index not in found:
            found[index] = ((stored_header.NAME, pack(message_id, rest_us, b"")),)
    return found


@twin("iggy_send")
def record_batch(sent: SendRequest, era: Era, now_ms: int) -> bytearray:
    """Returns the messages as a record batch without producer, whose first offset is 0. A log writes its own
    fields into it.

    `now_ms`: the timestamp of messages that have none. Raises WireError, as IggyRefusal if the client can
    learn the reason.
    """
    found = columns(sent, era)
    count = len(found.payloads)
    times = [now_ms] * count if found.times_us is None else [time // _US_PER_MS for time in found.times_us]
    base_ms = times[0]
    payload = encode_columns(
        range(count),
        [time - base_ms for time in times],
        [None] * count,
        found.payloads,
        _headers(found, era.has_key_kinds),
    )
    header = RecordBatchHeader(
        0, 0, NO_EPOCH, MAGIC, 0, KafkaCodec.NONE, count - 1, base_ms, max(times), *NO_PRODUCER, count
    )
    return bytearray(seal(header, payload))


def tank_batch(sent: SendRequest, era: Era, now_ms: int) -> bytes:
    """Returns the messages as a bundle with its length before it, for a topic of TANK's format: ids and
    microseconds are forgotten. Raises as `record_batch`, and IggyRefusal (INVALID_HEADER_KEY) for a message
    with headers."""
    found = columns(sent, era)
    if found.headers:
        index = min(found.headers)
        raise IggyRefusal(IggyError.INVALID_HEADER_KEY, "this topic keeps no headers", index)
    times: list[int] | int = now_ms
    if found.times_us is not None:
        times = [time // _US_PER_MS for time in found.times_us]
    made = bundle.encode(found.payloads, timestamps=times, codec=bundle.Codec.NONE)
    return bundle.as_batch(made)


def index_of(ends: list[int]) -> bytes:
    """Returns the indexes of messages that end at these places, as a client writes them."""
    return b"".join(_INDEX.pack(0, end, 0) for end in ends)


def ends_of(messages: list[bytes]) -> list[int]:
    """Returns the places where messages end that stand one behind the other."""
    return list(accumulate(map(len, messages)))
