"""The dissector takes what the generated decoders take, with the same values, and nothing else."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_compiler.schema import layouts
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_message, load_protocol
from tank_compiler.schema.schema import UUID, Array, Kind, Message, Struct
from tank_compiler.tools import corpus
from tank_compiler.tools.dissect import UNKNOWN_TAGS, DissectedValue, dissect
from tank_compiler.tools.interpreter import default_of, lay_out
from tank_protos.generated.tank import NOTICES, REQUESTS, RESPONSES
from tank_protos.wire.errors import TrailingBytes, Truncated, WireError
from tests.support.compiled import module_of
from tests.support.examples import examples
from tests.support.values.random_evolution import Evolution, text_of
from tests.support.values.random_values import random_struct

ROOT = Path(__file__).parents[3]
TANK = load_protocol(
    "tank", [(path.name, path.read_text()) for path in (ROOT / "protos/tank").glob("*.json")]
)
CODECS = {Kind.REQUEST: REQUESTS, Kind.RESPONSE: RESPONSES, Kind.DATA: NOTICES}


def mutated(random: Random, payload: bytes) -> bytes:
    """The payload, cut, lengthened or with some bytes changed."""
    found = bytearray(payload)
    for _ in range(random.randint(0, 3)):
        if found:
            found[random.randrange(len(found))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    choice = random.random()
    if choice < 0.2:
        return bytes(found[: random.randrange(len(found) + 1)])
    return bytes(found + random.randbytes(1)) if choice < 0.3 else bytes(found)


def seen(value: object, kind: object) -> object:
    """A value of a generated object as the dissector gives it; structs are compared by `same`."""
    if kind is UUID and isinstance(value, bytes):
        return value.hex()
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def same(kind: Struct, read: dict[str, DissectedValue], decoded: object) -> bool:
    for field in kind.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        value = getattr(decoded, field.python_name)
        if field.name not in read:
            if not isinstance(inner, Struct) and seen(value, inner) != seen(default_of(field), inner):
                return False
            continue
        found = read[field.name]
        if isinstance(inner, Struct) and found is not None:
            founds = found if isinstance(found, list) else [found]
            values = value if isinstance(found, list) else [value]
            pairs = zip(founds, values, strict=True)
            if not all(isinstance(one, dict) and same(inner, one, other) for one, other in pairs):
                return False
        elif inner is UUID and isinstance(found, str):
            if found.replace("-", "") != seen(value, inner):
                return False
        elif found != seen(value, inner) and found == found:  # but for NaN
            return False
    return True


def verdicts_agree(message: Message, codec: type, payload: bytes, version: int) -> bool:
    """Whether both take the payload, with the same values, or both refuse it."""
    found = dissect(message, memoryview(payload), version)
    try:
        decoded = codec.decode(payload, version)  # type: ignore[attr-defined]
    except WireError:
        return found.error is not None
    layout = layouts.of_version(message, version)
    return found.error is None and same(layout.root, found.fields, decoded)


@pytest.mark.parametrize("message", TANK.messages, ids=lambda message: message.root.name)
def test_payloads_of_tank_are_read_alike(message: Message) -> None:
    codec = CODECS[message.kind][message.id or 0]
    random = Random(message.root.name)
    for _, payload in corpus.seeds(message):
        assert verdicts_agree(message, codec, payload, message.versions.low)
        for _ in range(40):
            changed = mutated(random, payload)
            assert verdicts_agree(message, codec, changed, message.versions.low), changed.hex()


def compilable(random: Random) -> Message:
    """A random definition of Kafka's kind."""
    while True:
        try:
            message = load_message(text_of(Evolution(random).definition()), "example.json")
        except DefinitionError:
            continue
        assert isinstance(message, Message)
        return message


@settings(examples(40), deadline=None, derandomize=True)
@given(st.integers(0, 1 << 60))
def test_payloads_of_random_definitions_are_read_alike(seed: int) -> None:
    random = Random(seed)
    message = compilable(random)
    codec = module_of(message).Example
    for version in range(4):
        root = layouts.of_version(message, version).root
        for at in range(10):
            payload = lay_out(message, random_struct(random, root, is_default=at == 0), version)
            assert verdicts_agree(message, codec, payload, version)
            for _ in range(5):
                changed = mutated(random, payload)
                assert verdicts_agree(message, codec, changed, version), (version, changed.hex())


# What it says where a payload is wrong.

CONSUME = next(message for message in TANK.messages if message.root.name == "ConsumeRequest")


@pytest.mark.parametrize("size", range(1, 27))
def test_a_cut_payload_shows_what_came_before_and_where_it_ends(size: int) -> None:
    whole = bytes.fromhex("0300 02000000 03646f63 e803000000000000 00000000 00 00".replace(" ", ""))
    complete = dissect(CONSUME, memoryview(whole), 0)
    assert complete.error is None
    if size >= len(whole):
        return
    cut = dissect(CONSUME, memoryview(whole[:size]), 0)
    assert isinstance(cut.error, Truncated)
    assert cut.end <= size
    shown = list(complete.fields.items())[: len(cut.fields)]
    assert dict(shown) == cut.fields
    assert cut.error_field == f"ConsumeRequest.{list(complete.fields)[len(cut.fields)]}"


def test_bytes_too_many_are_counted_behind_all_fields() -> None:
    found = dissect(CONSUME, memoryview(bytes(21) + b"xyz"), 0)
    assert isinstance(found.error, TrailingBytes)
    assert (found.end, found.error_field) == (20, "")
    assert list(found.fields)[-1] == "Topics"


TAGGED = load_message(
    """{"type": "data", "name": "Example", "validVersions": "0", "flexibleVersions": "0+", "fields": [
    {"name": "A", "type": "int8", "versions": "0+"},
    {"name": "B", "type": "int16", "versions": "0+", "taggedVersions": "0+", "tag": 3}]}""",
    "example.json",
)


def test_unknown_tags_are_kept() -> None:
    found = dissect(TAGGED, memoryview(bytes.fromhex("05 01 09 02 6162")), 0)
    assert found.fields == {"A": 5, UNKNOWN_TAGS: {"9": b"ab"}}


@pytest.mark.parametrize(
    ("tags", "field", "what"),
    [
        ("02 09 00 09 00", UNKNOWN_TAGS, "the tag 9 follows 9; tags must rise"),
        ("02 09 00 03 02 0001", UNKNOWN_TAGS, "the tag 3 follows 9; tags must rise"),
        ("01 03 01 0001", "B", "tag 3 ends at byte 6; 5 was stated"),
        ("01 03 03 0001 00", "B", "tag 3 ends at byte 6; 7 was stated"),
        ("01 03 03 0001", UNKNOWN_TAGS, "3 bytes are needed, 2 are left"),
        ("02 03 02 0001", UNKNOWN_TAGS, "the bytes end inside a varint"),
    ],
)
def test_wrong_tags_are_refused_where_they_stand(tags: str, field: str, what: str) -> None:
    found = dissect(TAGGED, memoryview(bytes.fromhex("05" + tags)), 0)
    assert (str(found.error), found.error_field) == (what, f"Example.{field}")
