"""Bundles to begin with: good ones of every shape, bad ones that are bad inside, and bombs."""

from array import array
from functools import cache
from random import Random
from typing import Final, NamedTuple

import cramjam

from tank_protos import bundle
from tank_protos.wire import varint
from tests.fuzz import mutate, seeds

Row = tuple[int, int, bytes | None, bytes]
"""Number, timestamp, key and content of a message."""

BASE: Final = 1000
"""The number that a dense bundle is decoded from, unless the case says otherwise."""

_COUNTS: Final = (1, 1, 1, 2, 3, 4, 5, 14, 15, 16, 17, 40, 130)
_LENGTHS: Final = (0, 1, 3, 5, 20, 126, 127, 128, 129, 300)
_STAMPS: Final = (0, 1, 1_700_000_000_000, (1 << 63) // 1000, 1 << 63, (1 << 64) - 1)
_STEPS: Final = (1, 1, 2, 3, 128, 40_000)
_POOL: Final = 600
_SIZES: Final = (0, 1, 127, 128, 1 << 20, (64 << 20) + 1, (1 << 32) - 1)


class Made(NamedTuple):
    """A good bundle and the messages that must come out of it."""

    bundle: bytes
    rows: list[Row]


def good(chance: Random, first: int = BASE) -> Made:
    """A bundle whose first message has the number `first`: dense or sparse, any codec, keys and times."""
    count = chance.choice(_COUNTS)
    values = _values(chance, count)
    keys = _keys(chance, count)
    stamps = _stamps(chance, count)
    codec = chance.choice((None, *bundle.Codec))
    numbers = list(range(first, first + count))
    if chance.random() < 0.4:
        for at in range(1, count):
            numbers[at] = numbers[at - 1] + chance.choice(_STEPS)
        made = bundle.encode_sparse(numbers, values, timestamps=stamps, keys=keys, codec=codec)
    else:
        made = bundle.encode(values, timestamps=stamps, keys=keys, codec=codec)
    kept = [None] * count if keys is None else [key or None for key in keys]
    return Made(made, list(zip(numbers, stamps, kept, values, strict=True)))


def _values(chance: Random, count: int) -> list[bytes]:
    if chance.random() < 0.5:
        size = chance.choice(_LENGTHS)
        return [chance.randbytes(size) if chance.random() < 0.5 else bytes(size) for _ in range(count)]
    return [chance.randbytes(chance.choice(_LENGTHS)) for _ in range(count)]


def _keys(chance: Random, count: int) -> list[bytes | None] | None:
    roll = chance.random()
    if roll < 0.5:
        return None
    if roll < 0.7:
        return [chance.randbytes(chance.choice((1, 5, 255))) for _ in range(count)]
    return [chance.choice((None, b"", b"key", chance.randbytes(5))) for _ in range(count)]


def _stamps(chance: Random, count: int) -> list[int]:
    if chance.random() < 0.5:
        return [chance.choice(_STAMPS)] * count
    few = [chance.choice(_STAMPS), chance.getrandbits(chance.choice((8, 41, 64)))]
    return [chance.choice(few) for _ in range(count)]


def bad(chance: Random) -> bytes:
    """A bundle with something wrong, or by chance still right: outside, inside what is compressed, in the
    numbers of its head, or one that promises more than it has."""
    made = _any_good(chance)
    roll = chance.random()
    if roll < 0.15:
        return odd(chance)
    if roll < 0.5:
        return mutate.payload(chance, made, _any_good(chance))
    head, body = _split(made)
    if roll < 0.7:
        return _other_head(chance, head) + body
    if not made[0] & bundle.Codec.SNAPPY:
        return head + mutate.payload(chance, body, _any_good(chance))
    plain = bytes(cramjam.snappy.decompress_raw(body))
    if roll < 0.95:
        changed = mutate.payload(chance, plain, _any_good(chance))
        return head + bytes(cramjam.snappy.compress_raw(changed))
    size, block = varint.read(body, 0)
    lie = chance.choice((*_SIZES, size - 1, size + 1, 22 * len(body)))
    return head + varint.encode(lie % (1 << 32)) + body[block:]


def odd(chance: Random) -> bytes:
    """Messages that are laid out as their flags say, with any flags: some are nearly right."""
    count = chance.choice((1, 2, 3, 5, 16))
    sparse = chance.random() < 0.5
    body = b""
    number = BASE
    for at in range(count):
        flags = chance.choice((0, 1, 2, 2, 3, 4, 5, 6, 7)) if at or chance.random() < 0.3 else 0
        body += bytes((flags,))
        number += 1
        if sparse and at and not flags & 4 and at < count - 1:
            step = chance.choice((0, 1, 200))
            number += step
            body += varint.encode(step)
        body += b"" if flags & 2 else chance.getrandbits(64).to_bytes(8, "little")
        body += b"\x03key" if flags & 1 else b""
        content = bytes(chance.choice((0, 1, 4, 130)))
        body += varint.encode(len(content)) + content
    if chance.random() < 0.2:
        body = body[: chance.randrange(len(body) + 1)]  # behind any field of any message
    head = bytes((count << 2 if count < 16 else 0,)) + (b"" if count < 16 else varint.encode(count))
    if sparse:
        span = number - BASE - 1 + chance.choice((-1, 0, 0, 0, 1))
        head = bytes((head[0] | 0x40,)) + head[1:] + BASE.to_bytes(8, "little")
        head += varint.encode(max(span - 1, 0)) if count > 1 else b""
    if chance.random() < 0.5:
        return bytes((head[0] | 1,)) + head[1:] + bytes(cramjam.snappy.compress_raw(body))
    return head + body


def _any_good(chance: Random) -> bytes:
    return chance.choice(pool())


@cache
def pool() -> list[bytes]:
    """Good bundles to spoil: the captured ones, and so many of ours that every shape is there."""
    chance = Random("bundles to spoil")
    captured = [batch[varint.read(batch, 0)[1] :] for batch in seeds.batches()]
    return captured * 3 + [good(chance).bundle for _ in range(_POOL)]


def _split(made: bytes) -> tuple[bytes, bytes]:
    at = bundle.read_header(made).body_offset
    return made[:at], made[at:]


def _other_head(chance: Random, head: bytes) -> bytes:
    """Other flags, another count, other numbers: each may be right."""
    flags = head[0] ^ (1 << chance.randrange(8)) if chance.random() < 0.5 else head[0]
    count, rest = flags >> 2 & 15, head[1:]
    if not count and chance.random() < 0.5:
        count_end = varint.read(head + bytes(5), 1)[1]
        lie = chance.choice((0, 1, 15, 16, 17, 0x7F, 0x80, 0x4000, (1 << 32) - 1))
        rest = varint.encode(lie) + head[count_end:]
    if flags & 0x40 and chance.random() < 0.7:
        numbers = chance.choice((0, 1, BASE, (1 << 63) - 2, (1 << 63) - 1, (1 << 64) - 1))
        rest = (b"" if count else rest[:1]) + numbers.to_bytes(8, "little") + rest[8 if count else 9 :]
    return bytes((flags,)) + rest


def exact(data: bytes) -> memoryview:
    """The same bytes in memory that ends behind them: one byte more belongs to somebody else."""
    return memoryview(array("B", data)) if data else memoryview(b"")


@cache
def bombs() -> list[bytes]:
    """Few bytes that unpack to many: up to the limit of a message set, and beyond it."""
    made = []
    for size in (2 << 20, 64 << 20, (64 << 20) + 1):
        content = bytes(size - 14)  # flags, timestamp and a length of four bytes stand before it
        body = bytes(9) + varint.encode(len(content)) + content
        made.append(b"\x05" + bytes(cramjam.snappy.compress_raw(body)))
    return made
