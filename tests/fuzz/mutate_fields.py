"""Makes requests that are well-formed and odd: values at their ends, strange names, batches with mistakes.

They pass the decoder, so they try what lies behind it.
"""

from dataclasses import fields, is_dataclass
from random import Random
from typing import Final

from tank_protos.generated.tank import IdempotentPartition, ProduceBasePartition, ProducePartition
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tests.fuzz import mutate, seeds

_NAMES: Final = (
    "gold",
    "multi",
    "tail",
    "sparse",
    "",
    "nobody",
    "../etc",
    "\udcff",
    "x" * 255,
    "flush",
    "1",
    "é",
)
_TOO_LONG: Final = ("x" * 256, "\ud800", "y" * 70_000)
_VERSIONS: Final = (0, 1, 2, 3, 0xFF, 0x100, 0x101, 0x103, 0xFFFF)
_CHANGED_SHARE: Final = 0.25
"""Of the fields: the rest stays, so that a request still means something."""


def request(chance: Random, seed: seeds.Seed) -> bytes:
    """A payload that decodes; the seed's own where the changes cannot be encoded."""
    try:
        return b"".join(message(chance, seed).encode())
    except WireError:
        return seed.payload


def message(chance: Random, seed: seeds.Seed, *, beyond: bool = False) -> Message:
    """The seed's message with some fields changed; `beyond`: to values, too, that have no place on the wire.

    Raises WireError for a seed that is wrong by intent.
    """
    found = seed.codec.decode(seed.payload)
    _change(chance, found, beyond)
    return found


def _change(chance: Random, struct: object, beyond: bool) -> None:
    limits: dict[str, tuple[int, int]] = getattr(struct, "LIMITS", {})
    for one in fields(struct) if is_dataclass(struct) else ():
        value = getattr(struct, one.name)
        if isinstance(value, list):
            _change_list(chance, value, beyond)
        elif chance.random() >= _CHANGED_SHARE or one.name == "bundle_length":
            continue
        elif isinstance(value, bool):
            setattr(struct, one.name, not value)
        elif one.name == "client_version":
            setattr(struct, one.name, chance.choice(_VERSIONS) if chance.random() < 0.3 else value)
        elif isinstance(value, int):
            setattr(struct, one.name, _number(chance, *limits.get(one.name, (0, 255)), beyond))
        elif isinstance(value, str):
            setattr(struct, one.name, chance.choice((*_NAMES, *_TOO_LONG) if beyond else _NAMES))
        elif isinstance(value, bytes | memoryview) and one.name == "bundle":
            _change_bundle(chance, struct)


def _number(chance: Random, low: int, high: int, beyond: bool) -> int:
    """Small ones are likelier to name something; the ends are where mistakes are."""
    roll = chance.random()
    if beyond and roll < 0.2:
        return chance.choice((low - 1, high + 1, -1, 1 << 64))
    if roll < 0.5:
        return min(high, low + chance.randrange(6))
    return (
        chance.choice((low, high, high - 1, high // 2, high // 2 + 1))
        if roll < 0.9
        else chance.randint(low, high)
    )


def _change_bundle(chance: Random, struct: object) -> None:
    """A field that holds a batch, or a bundle whose length stands in a field of its own."""
    batch = _batch(chance)
    if isinstance(struct, ProduceBasePartition):
        _, start = varint.read(batch, 0)
        struct.bundle = batch[start:]
        struct.bundle_length = len(batch) - start
    elif isinstance(struct, ProducePartition | IdempotentPartition):
        struct.bundle = batch


def _batch(chance: Random) -> bytes:
    """A bundle with mistakes, behind a length that is right."""
    everything = seeds.batches()
    good, other = chance.choice(everything), chance.choice(everything)
    if chance.random() < 0.3:
        return good
    _, start = varint.read(good, 0)
    bundle = mutate.payload(chance, good[start:], other)
    return varint.encode(len(bundle)) + bundle


def _change_list(chance: Random, value: list[object], beyond: bool) -> None:
    for at, element in enumerate(value):
        if isinstance(element, str) and chance.random() < _CHANGED_SHARE:
            value[at] = chance.choice(_NAMES)
        elif is_dataclass(element):
            _change(chance, element, beyond)
    roll = chance.random()
    if value and roll < 0.05:
        value.pop(chance.randrange(len(value)))
    elif value and roll < 0.15:
        value += [chance.choice(value)] * chance.choice((1, 1, 3))
