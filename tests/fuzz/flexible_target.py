"""Codecs with Kafka's features, from a definition of our own that has all of them in every form.

Nothing of it is checked in as a generated module, so it is compiled here, for versions before and after the
flexible ones. A decoder that walks the schema byte by byte says what is good; encoders are held against the
layout that the schema gives.
"""

from functools import cache
from random import Random
from typing import Any, Final

from tank_compiler.schema import layouts
from tank_compiler.schema.schema import Message
from tank_compiler.tools.dissect import dissect
from tank_compiler.tools.interpreter import lay_out
from tank_protos.wire.errors import WireError
from tests.fuzz import mutate
from tests.fuzz.codec_target import MEASURED_SHARE, WELL_FORMED_SHARE, within_memory
from tests.support.compiled import load_api, module_of
from tests.support.values.random_values import random_struct

VERSIONS: Final = range(5)
_EACH: Final = 40
"""Payloads to spoil, of each version."""

_INNER: Final = [
    {"name": "Number", "type": "int32", "versions": "0+", "about": "A number."},
    {"name": "Note", "type": "string", "versions": "1+", "nullableVersions": "3+", "about": "A text."},
    {"name": "Extra", "type": "int8", "versions": "2+", "tag": 0, "taggedVersions": "2+", "about": "A tag."},
]
_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "Flag", "type": "bool", "versions": "0+"},
    {"name": "Small", "type": "int8", "versions": "0+"},
    {"name": "Port", "type": "uint16", "versions": "0+", "default": "0x2404"},
    {"name": "Size", "type": "uint32", "versions": "1+", "ignorable": True},
    {"name": "Offset", "type": "int64", "versions": "0+", "default": "-1"},
    {"name": "Ratio", "type": "float64", "versions": "1+", "ignorable": True},
    {"name": "Id", "type": "uuid", "versions": "2+", "ignorable": True},
    {"name": "Name", "type": "string", "versions": "0+"},
    {"name": "Maybe", "type": "string", "versions": "1+", "nullableVersions": "1+", "default": "null"},
    {"name": "Raw", "type": "bytes", "versions": "0+", "nullableVersions": "2+"},
    {"name": "Batch", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    {"name": "Numbers", "type": "[]int32", "versions": "0+"},
    {"name": "Names", "type": "[]string", "versions": "0+", "nullableVersions": "2+"},
    {"name": "Inners", "type": "[]Inner", "versions": "0+", "fields": _INNER},
    {"name": "Keyed", "type": "[]Row", "versions": "1+", "ignorable": True, "fields": [
        {"name": "Key", "type": "string", "versions": "1+", "mapKey": True, "about": "Its key."},
        {"name": "Values", "type": "[]int64", "versions": "1+", "about": "What belongs to it."},
    ]},
    {"name": "Alone", "type": "Single", "versions": "4+", "nullableVersions": "4+", "default": "null",
     "ignorable": True, "fields": [
        {"name": "Deep", "type": "[]uuid", "versions": "4+", "about": "Deep inside."},
    ]},
    {"name": "TaggedText", "type": "string", "versions": "3+", "tag": 0, "taggedVersions": "3+",
     "nullableVersions": "3+", "default": "null", "ignorable": True},
    {"name": "TaggedList", "type": "[]int16", "versions": "2+", "tag": 1, "taggedVersions": "2+",
     "ignorable": True},
]  # fmt: skip


@cache
def example() -> tuple[Message, Any]:
    """The schema and the generated class."""
    schema = load_api(*_FIELDS, validVersions="0-4", flexibleVersions="2+")
    return schema, module_of(schema).Example


@cache
def _payloads(version: int) -> list[bytes]:
    """Good ones, always the same."""
    chance = Random(f"good payloads of version {version}")
    return [_good(chance, version, is_default=at == 0) for at in range(_EACH)]


def _good(chance: Random, version: int, *, is_default: bool = False) -> bytes:
    schema, _ = example()
    root = layouts.of_version(schema, version).root
    return lay_out(schema, random_struct(chance, root, is_default=is_default), version)


def flexible(chance: Random) -> None:
    """One payload in one version."""
    version = chance.choice(VERSIONS)
    if chance.random() < WELL_FORMED_SHARE:
        payload = _good(chance, version)
        wire = _read(payload, version)
        assert wire == payload, f"version {version}: {payload.hex()} came back as {wire and wire.hex()}"
        return
    other = chance.choice(_payloads(chance.choice(VERSIONS)))
    payload = mutate.payload(chance, chance.choice(_payloads(version)), other)
    if chance.random() < MEASURED_SHARE:
        within_memory(lambda: _read(payload, version, alone=True), len(payload))
    wire = _read(payload, version)
    if wire is not None:
        # Numbers in more bytes than they need, and any byte but 0 for true, are taken, and written as they
        # should be: what was written comes back as it is.
        assert _read(wire, version) == wire, f"version {version}: {payload.hex()} does not settle"
        assert len(wire) <= len(payload), f"version {version}: {payload.hex()} grew into {wire.hex()}"


def _read(payload: bytes, version: int, *, alone: bool = False) -> bytes | None:
    """What was decoded, encoded again; None when it was refused, which the slow decoder must do, too."""
    schema, codec = example()
    refused: WireError | None = None
    try:
        found = codec.decode(payload, version)
    except WireError as error:
        refused = error
    if alone:
        return None
    dissected = dissect(schema, memoryview(payload), version)
    assert (refused is None) == (dissected.error is None), (
        f"version {version}: {payload.hex()}: decoded: {refused!r}, dissected: {dissected.error!r}"
    )
    return None if refused is not None else b"".join(found.encode(version))
