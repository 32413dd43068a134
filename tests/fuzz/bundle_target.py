"""Targets for bundles and chunks: all decoders against a slow one that shares nothing with them.

`tests/support/values/slow_bundle.py` says what a bundle holds or that it is bad; tuples, columns and Arrow
batches must say the same, and nothing but InvalidBundle may come out of them.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from random import Random
from typing import Any, Final, TypeVar

import cramjam

from tank_protos import bundle
from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS, Chunk, decode_arrow
from tank_protos.wire.errors import InvalidBundle
from tests.fuzz import random_bundles
from tests.fuzz.codec_target import MEASURED_SHARE, within_memory
from tests.fuzz.random_bundles import BASE, Row, exact
from tests.support.values.slow_bundle import Bad, slow_decode

MAX_BYTES: Final = 1 << 20
"""What a compressed bundle may unpack to here: more than any good one of ours, and cheap to refuse."""

BOMB_SHARE: Final = 0.001
_PARTIAL_SHARE: Final = 0.2

T = TypeVar("T")


def batch(chance: Random) -> None:
    """One bundle, good or bad, in front of everybody who may be given it."""
    if chance.random() < BOMB_SHARE:
        _explode(chance)
        return
    if chance.random() < 0.2:
        made = random_bundles.good(chance)
        assert _slow(made.bundle) == made.rows, "what was encoded comes back as something else"
        data = made.bundle
    else:
        data = random_bundles.bad(chance)
    rows = _slow(data)
    _judged(data, rows)
    _decoded(data, rows)
    _renumbered(data, rows)
    if chance.random() < MEASURED_SHARE:
        within_memory(lambda: _quiet(lambda: bundle.decode(data, BASE)), len(data), more=_unpacked(data))


def _slow(data: bytes, base: int = BASE) -> list[Row] | None:
    try:
        return slow_decode(data, base)
    except Bad:
        return None


def _judged(data: bytes, rows: list[Row] | None) -> None:
    """The broker looks at the head alone: it may take what readers refuse, and never the other way."""
    batch = exact(bundle.as_batch(data))
    header, alone = _validated(batch), _header(data)
    if header is None:
        assert rows is None, "the broker refuses what is good"
        return
    # What a log and a reader's memory are laid out by must be possible, whether or not the rest is good.
    size = _unpacked(data) if header.codec else len(data)
    assert 2 * header.messages <= size <= max(len(data), 22 * len(data) * header.codec)
    assert header.messages - 1 <= header.span < bundle.MAX_SEQUENCE_NUMBER
    before = len(batch) - len(data)
    assert alone == header._replace(body_offset=header.body_offset - before)
    stamp = bundle.first_timestamp_ms(batch, header)
    assert (stamp is None) == (header.codec is bundle.Codec.SNAPPY)
    if rows is not None:
        assert stamp is None or stamp == rows[0][1]
        assert (header.messages, header.span) == (len(rows), rows[-1][0] - rows[0][0])
    for wrong in (batch[:-1], memoryview(bytes(batch) + b"\0")):
        assert _validated(wrong) is None, "a length that lies"


def _decoded(data: bytes, rows: list[Row] | None) -> None:
    found = _quiet(lambda: bundle.decode(data, BASE, max_bytes=MAX_BYTES))
    wanted = None if _unpacked(data) > MAX_BYTES else rows
    assert _plain(found) == wanted
    chunk = bundle.as_batch(data)
    columns = _quiet(lambda: bundle.decode_columns(chunk, BASE, max_bytes=MAX_BYTES))
    assert _plain(None if columns is None else columns.messages()) == wanted
    arrow = _quiet(lambda: list(decode_arrow([Chunk(BASE, chunk)], batch_bytes=512, max_bytes=MAX_BYTES)))
    assert (None if arrow is None else _arrow_rows(arrow)) == _clamped(wanted)


def _renumbered(data: bytes, rows: list[Row] | None) -> None:
    """A dense bundle can be told numbers, and keeps everything else."""
    again = _quiet(lambda: bundle.make_sparse(data, 7 * BASE))
    if again is None:
        assert rows is None
        return
    if rows is not None:
        first = rows[0][0] if data[0] & 0x40 else 7 * BASE
        assert _slow(again) == [(number - rows[0][0] + first, *rest) for number, *rest in rows]


def _explode(chance: Random) -> None:
    """Bombs are refused by what they say, before a byte of them is unpacked."""
    bomb = chance.choice(random_bundles.bombs())
    allowed = _unpacked(bomb) <= bundle.MAX_MESSAGE_SET_BYTES
    assert (_header(bomb) is not None) == allowed
    assert _quiet(lambda: bundle.decode(bomb, BASE, max_bytes=MAX_BYTES)) is None
    within_memory(lambda: _quiet(lambda: bundle.decode(bomb, BASE, max_bytes=MAX_BYTES)), len(bomb))


def chunk(chance: Random) -> None:
    """Several bundles as a consume answer brings them, of which some numbers are wanted."""
    pieces, number = [], chance.choice((1, BASE))
    base = number
    for _ in range(chance.choice((1, 2, 2, 3, 4))):
        made = random_bundles.good(chance, number)
        pieces.append(made.bundle)
        number = made.rows[-1][0] + chance.choice((1, 1, 1, 5))
    if chance.random() < 0.4:
        pieces[chance.randrange(len(pieces))] = random_bundles.bad(chance)
    if chance.random() < 0.1:
        chance.shuffle(pieces)
    data = b"".join(map(bundle.as_batch, pieces))
    if chance.random() < _PARTIAL_SHARE:
        data = data[: chance.randrange(len(data) + 1)]
    ends = (0, base, base + 1, (base + number) // 2, number - 1, number, bundle.MAX_SEQUENCE_NUMBER)
    lower, upper = chance.choice(ends[:5]), chance.choice(ends[2:])
    _read(data, base, lower, upper)


def _read(data: bytes, base: int, lower: int, upper: int) -> None:
    """Bundle by bundle: what came before a bad one was given out."""
    wanted, bad = _wanted(data, base, lower, upper)
    columns, refused = _until_bad(bundle.iter_columns(data, base, lower, upper, max_bytes=MAX_BYTES))
    found = list(chain.from_iterable(one.messages() for one in columns))
    assert (_plain(found), refused) == (wanted, bad)
    joined = _quiet(lambda: bundle.decode_columns(data, base, lower, upper, max_bytes=MAX_BYTES))
    assert _plain(None if joined is None else joined.messages()) == (None if bad else wanted)
    arrow, refused = _until_bad(
        decode_arrow([Chunk(base, data, lower, upper)], batch_bytes=2048, max_bytes=MAX_BYTES)
    )
    assert (_arrow_rows(arrow), refused) == (_clamped(wanted), bad)


def _wanted(data: bytes, base: int, lower: int, upper: int) -> tuple[list[Row], bool]:
    """The rows up to the first bad bundle that has to be looked into, and whether there is one."""
    rows: list[Row] = []
    previous = -1
    for piece in _pieces(data):
        header = None if piece is None else _header(piece)
        if piece is None or header is None:
            return rows, True
        first = header.first if header.sparse else base
        last = first + header.span
        if last > bundle.MAX_SEQUENCE_NUMBER or first <= previous:
            return rows, True
        previous, base = last, last + 1
        if first > upper:
            break
        if last >= lower:
            found = None if _unpacked(piece) > MAX_BYTES else _slow(piece, first)
            if found is None:
                return rows, True
            rows += [row for row in found if lower <= row[0] <= upper]
    return rows, False


def _pieces(data: bytes) -> Iterator[bytes | None]:
    """The bundles of a chunk, without a partial last one; None where there is no length."""
    at = 0
    while at < len(data):
        length = shift = 0
        while at < len(data):
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift == 35:
                break
        else:
            return
        if byte > 0x7F or not 0 < length < 1 << 32:
            yield None
            return
        if at + length > len(data):
            return
        yield data[at : at + length]
        at += length


def _unpacked(data: bytes) -> int:
    """What a compressed bundle says that it unpacks to; 0 for others."""
    header = _header(data)
    if header is None or not header.codec:
        return 0
    size: int = cramjam.snappy.decompress_raw_len(data[header.body_offset :])
    return size


def _quiet(action: Callable[[], T]) -> T | None:
    try:
        return action()
    except InvalidBundle:
        return None


def _header(data: bytes) -> bundle.BundleHeader | None:
    return _quiet(lambda: bundle.read_header(data))


def _validated(batch: memoryview) -> bundle.BundleHeader | None:
    return _quiet(lambda: bundle.validate(batch))


def _until_bad(parts: Iterator[T]) -> tuple[list[T], bool]:
    """What came, and whether InvalidBundle came after it."""
    found: list[T] = []
    try:
        found.extend(parts)
    except InvalidBundle:
        return found, True
    return found, False


def _plain(messages: list[bundle.Message] | None) -> list[Row] | None:
    return None if messages is None else [(one[0], one[1], one[2], one[3]) for one in messages]


def _clamped(rows: list[Row] | None) -> list[Row] | None:
    if rows is None:
        return None
    return [(number, min(stamp, MAX_TIMESTAMP_MS), key, value) for number, stamp, key, value in rows]


def _arrow_rows(batches: list[Any]) -> list[Row]:
    rows: list[Row] = []
    for batch in batches:
        names = ("offset", "timestamp", "key", "value")
        rows += zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    return rows
