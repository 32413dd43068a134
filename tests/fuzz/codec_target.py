"""Targets for generated codecs: whatever comes in, a typed error or exactly what the bytes say.

The oracle is the codec's own other half. What decodes must encode to the very bytes it came from, so a bound
that is not checked, a byte that is skipped or a field that is lost shows, not only a crash. `decode` and
`read` are generated twice and must agree. What was changed field by field must come back as it went out.
"""

import tracemalloc
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Final, TypeVar

from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.schema import Message as Schema
from tank_compiler.tools.dissect import dissect
from tank_protos.wire.errors import TrailingBytes, WireError
from tank_protos.wire.message import Message
from tests.fuzz import mutate, mutate_fields, seeds

WELL_FORMED_SHARE: Final = 0.2
MEASURED_SHARE: Final = 0.01
"""Of the cases: tracing every allocation makes them ten times slower."""

DISSECTED_SHARE: Final = 0.1
"""Of the cases, which a decoder that walks the schema byte by byte judges as well."""

MEMORY_BYTES: Final = 16 * 1024
MEMORY_PER_BYTE: Final = 200
"""A list entry of two bytes becomes an object with slots for all of its fields."""

_HAVE_VARINTS: Final = frozenset(("ProduceWithBaseSeqNumRequest", "CreateTopicRequest"))
"""Other messages keep theirs as they came."""
_BEFORE: Final = b"\xee" * 3

T = TypeVar("T")


def message(chance: Random) -> None:
    """One payload of one of TANK's messages."""
    everything = seeds.messages()
    seed = chance.choice(everything)
    if chance.random() < WELL_FORMED_SHARE:
        well_formed(chance, seed)
        return
    payload = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
    roll = chance.random()
    if roll < MEASURED_SHARE:
        within_memory(lambda: decoded(seed.codec, payload), len(payload))
        return
    found = decoded(seed.codec, payload)
    if roll < DISSECTED_SHARE:
        wrong = dissect(_schemas()[seed.codec.__name__], memoryview(payload), 0).error
        assert (found is None) == (wrong is not None), f"{payload.hex()}: {found}, dissected: {wrong!r}"


@cache
def _schemas() -> dict[str, Schema]:
    """By the message's name, from its definition."""
    folder = seeds.TESTS.parent / "protos/tank"
    texts = [(path.name, path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {schema.root.name: schema for schema in load_protocol("tank", texts).messages}


def decoded(codec: type[Message], payload: bytes, version: int = 0) -> Message | None:
    """What `codec` reads in the payload, None when it refused. It is written as it came."""
    found = read_both_ways(codec, payload, version)
    if found is None:
        return None
    wire = b"".join(found.encode(version))
    assert wire == payload or _is_shorter_form(codec, wire, payload, found, version), (
        f"{payload.hex()} came back as {wire.hex()}"
    )
    return found


def read_both_ways(codec: type[Message], payload: bytes, version: int) -> Message | None:
    """What `codec` reads in the payload, None when it refused; `decode` and `read` agree."""
    found, refusal = _try(lambda: codec.decode(payload, version))
    view = memoryview(_BEFORE + payload)
    pair, other = _try(lambda: codec.read(view, len(_BEFORE), version))
    if pair is not None:
        again, end = pair
        assert end <= len(view), f"{codec.__name__} was read to {end} of {len(view)} bytes"
        if end < len(view):
            assert type(refusal) is TrailingBytes, f"{len(view) - end} bytes too many: {refusal!r}"
            return None
        # A float that is no number equals nothing.
        assert again == found or repr(again) == repr(found), f"read as {again}, decoded as {found}"
    else:
        assert type(other) is type(refusal), f"read: {other!r}, decode: {refusal!r}"
        return None
    return found


def _is_shorter_form(codec: type[Message], wire: bytes, payload: bytes, found: Message, version: int) -> bool:
    """Whether the payload only had a number in more bytes than it needs: readers take those."""
    may = codec.__name__ in _HAVE_VARINTS and len(wire) < len(payload)
    return may and codec.decode(wire, version) == found


def well_formed(chance: Random, seed: seeds.Seed) -> None:
    """Fields changed within their bounds, and sometimes beyond: those cannot be encoded, and nothing but a
    WireError says so."""
    changed, _ = _try(lambda: mutate_fields.message(chance, seed, beyond=chance.random() < 0.2))
    if changed is None:
        return  # a capture that is wrong by intent
    wire, _ = _try(lambda: b"".join(changed.encode()))
    if wire is None:
        return
    found = decoded(seed.codec, wire)
    assert found is not None, f"{changed} was encoded and is refused"


def within_memory(action: Callable[[], object], size: int, *, more: int = 0) -> None:
    """Runs the action, and checks that it took no more memory than so many bytes of input deserve."""
    tracemalloc.start()
    try:
        action()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    allowed = MEMORY_BYTES + MEMORY_PER_BYTE * (size + more)
    assert peak <= allowed, f"{size} bytes took {peak} bytes of memory; {allowed} are plenty"


def _try(action: Callable[[], T]) -> tuple[T | None, WireError | None]:
    try:
        return action(), None
    except WireError as refusal:
        return None, refusal
