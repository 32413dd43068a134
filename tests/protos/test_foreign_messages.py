"""Messages of a protocol that is not ours: Iggy's classic one, declared here and tried byte by byte.

Its commands are u32 numbers, its integers little-endian; texts and lists stand behind counts of
a stated width.
"""

from typing import Any

import pytest

from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.schema import Message, Protocol
from tank_compiler.tools.compatibility import compare
from tank_compiler.tools.interpreter import Value, lay_out
from tank_protos.wire.errors import OutOfRange, TrailingBytes, Truncated, WireError
from tests.support.compiled import load, module_of

Fields = list[dict[str, Any]]

IDENTIFIER: Fields = [
    {"name": "Kind", "type": "uint8", "default": "1", "about": "1: a number, 2: a text."},
    {"name": "NumberBytes", "type": "uint8", "default": "4", "when": "Kind == 1", "about": "Four."},
    {"name": "Number", "type": "uint32", "when": "Kind == 1", "about": "The number."},
    {"name": "Text", "type": "str8", "when": "Kind == 2", "about": "The text."},
]
PARTITIONING: Fields = [
    {"name": "Kind", "type": "uint8", "default": "1", "about": "1: balanced, 2: a partition, 3: a key."},
    {"name": "NothingBytes", "type": "uint8", "when": "Kind == 1", "about": "None."},
    {"name": "NumberBytes", "type": "uint8", "default": "4", "when": "Kind == 2", "about": "Four."},
    {"name": "Number", "type": "uint32", "when": "Kind == 2", "about": "The partition."},
    {"name": "Key", "type": "str8", "when": "Kind == 3", "about": "The key."},
]
INDEX: Fields = [
    {"name": "Offset", "type": "uint32", "about": "Zero."},
    {"name": "End", "type": "uint32", "about": "Where the message ends."},
    {"name": "Time", "type": "uint64", "about": "Zero."},
]
STORED: Fields = [
    {"name": "Checksum", "type": "uint64", "about": "Zero from clients."},
    {"name": "Id", "type": "bytes", "length": 16, "about": "A u128."},
    {"name": "Offset", "type": "uint64", "about": "Zero from clients."},
    {"name": "Timestamp", "type": "uint64", "about": "Zero from clients."},
    {"name": "OriginTimestamp", "type": "uint64", "about": "When it was made."},
    {"name": "HeadersBytes", "type": "uint32", "about": "Of the headers."},
    {"name": "PayloadBytes", "type": "uint32", "about": "Of the payload."},
    {"name": "Reserved", "type": "uint64", "about": "Zero."},
    {"name": "Payload", "type": "bytes", "lengthFrom": "PayloadBytes", "about": "The payload."},
    {"name": "Headers", "type": "bytes", "lengthFrom": "HeadersBytes", "about": "The headers."},
]
HITS: Fields = [
    {"name": "Partition", "type": "uint32", "about": "Which."},
    {"name": "Hits", "type": "uint64", "about": "Found."},
    {"name": "Ratio", "type": "float32", "about": "Of all."},
]


def iggy(number: int, *fields: dict[str, Any], **keys: Any) -> Message:
    return load(*fields, id=number, idType="uint32", byteOrder="little", **keys)


CREATE_TOPIC = iggy(
    302,
    {"name": "Stream", "type": "Identifier", "fields": IDENTIFIER},
    {"name": "Partitions", "type": "uint32"},
    {"name": "Compression", "type": "uint8", "default": "1"},
    {"name": "ExpiryUs", "type": "uint64"},
    {"name": "MaxBytes", "type": "uint64"},
    {"name": "Replication", "type": "uint8"},
    {"name": "Topic", "type": "str8"},
)
LOGIN = iggy(
    38,
    {"name": "User", "type": "str8"},
    {"name": "Password", "type": "str8"},
    {"name": "Version", "type": "str32"},
    {"name": "Context", "type": "bytes", "length": "uint32"},
)
STATS = iggy(
    10,
    {"name": "Process", "type": "uint32"},
    {"name": "Cpu", "type": "float32", "default": "0.1"},
    {"name": "Hostname", "type": "str32"},
    {"name": "Caches", "type": "[]CacheHits", "count": "uint32", "fields": HITS},
    type="response",
)
SEND = iggy(
    101,
    {"name": "HeadBytes", "type": "uint32", "measures": ["Stream", "Topic", "Partitioning", "Count"]},
    {"name": "Stream", "type": "Identifier", "fields": IDENTIFIER},
    {"name": "Topic", "type": "TopicIdentifier", "fields": IDENTIFIER},
    {"name": "Partitioning", "type": "Partitioning", "fields": PARTITIONING},
    {"name": "Count", "type": "uint32"},
    {"name": "Indexes", "type": "[]Index", "countFrom": "Count", "fields": INDEX},
    {"name": "Messages", "type": "[]Stored", "countFrom": "Count", "fields": STORED},
)

NUMBER_7 = "010407000000"
ORDERS = "02066f7264657273"
VECTORS = [
    (CREATE_TOPIC, f"{NUMBER_7} 03000000 02 ffffffffffffffff 0000000000000000 01 066f7264657273"),
    (CREATE_TOPIC, f"{ORDERS} 01000000 01 0000000000000000 0000000000000000 00 0174"),
    (LOGIN, "0469676779 0469676779 05000000 302e392e30 00000000"),
    (STATS, "d2040000 0000c03f 02000000 6e31 01000000 03000000 0900000000000000 0000003f"),
    (
        SEND,
        f"14000000 {NUMBER_7} {ORDERS} 0100 01000000"
        "00000000 42000000 0000000000000000"
        "0000000000000000 01000000000000000000000000000000 0000000000000000 0000000000000000"
        "1500000000000000 00000000 02000000 0000000000000000 6869",
    ),
]
"""A message, and its payload piece by piece."""
WIRES = [(message, bytes.fromhex(wire)) for message, wire in VECTORS]


@pytest.mark.parametrize(("message", "wire"), WIRES)
def test_the_bytes_are_read_and_written_back(message: Message, wire: bytes) -> None:
    codec = module_of(message).Example
    assert b"".join(codec.decode(wire).encode()) == wire


def test_the_values_are_those_that_the_bytes_say() -> None:
    topic = module_of(CREATE_TOPIC).Example.decode(WIRES[0][1])
    assert (topic.stream.number, topic.partitions, topic.expiry_us, topic.topic) == (
        7,
        3,
        2**64 - 1,
        "orders",
    )
    login = module_of(LOGIN).Example.decode(WIRES[2][1])
    assert (login.user, login.password, login.version, login.context) == ("iggy", "iggy", "0.9.0", b"")
    stats = module_of(STATS).Example.decode(WIRES[3][1])
    assert (stats.process, stats.cpu, stats.hostname, stats.caches[0].ratio) == (1234, 1.5, "n1", 0.5)
    sent = module_of(SEND).Example.decode(WIRES[4][1])
    assert (sent.head_bytes, sent.topic.text, sent.indexes[0].end) == (20, "orders", 66)
    assert (sent.messages[0].id, bytes(sent.messages[0].payload)) == ((1).to_bytes(16, "little"), b"hi")


@pytest.mark.parametrize(("message", "wire"), WIRES)
def test_every_cut_is_truncated_and_every_byte_too_much_is_trailing(message: Message, wire: bytes) -> None:
    codec = module_of(message).Example
    for end in range(len(wire)):
        with pytest.raises(Truncated):
            codec.decode(wire[:end])
    with pytest.raises(TrailingBytes):
        codec.decode(wire + b"\0")


@pytest.mark.parametrize(("message", "wire"), WIRES)
def test_every_wrong_byte_is_read_or_refused(message: Message, wire: bytes) -> None:
    codec = module_of(message).Example
    read = refused = 0
    for at in range(len(wire)):
        for value in (0, 1, 127, 128, 255):
            spoiled = wire[:at] + bytes([value]) + wire[at + 1 :]
            try:
                assert b"".join(codec.decode(spoiled).encode()) == spoiled
                read += 1
            except WireError:
                refused += 1
    assert read
    assert refused


def test_the_encoder_writes_what_the_definition_says() -> None:
    values: dict[str, Value] = {"Process": 7, "Cpu": 0.5, "Hostname": "é", "Caches": []}
    wire = bytes.fromhex("07000000 0000003f 02000000 c3a9 00000000")
    assert lay_out(STATS, values, 0) == wire
    assert b"".join(module_of(STATS).Example(7, 0.5, "é").encode()) == wire


def test_a_number_too_large_for_a_float32_is_refused_by_name() -> None:
    module = module_of(STATS)
    with pytest.raises(OutOfRange, match=r"Example\.cpu"):
        module.Example(cpu=1e39).encode()
    with pytest.raises(OutOfRange, match=r"Example\.cpu"):
        module.Example(cpu=10**400).encode()
    with pytest.raises(OutOfRange, match=r"CacheHits\.ratio"):
        module.Example(caches=[module.CacheHits(ratio=-1e39)]).encode()
    assert module.Example.decode(b"".join(module.Example(cpu=float("inf")).encode())).cpu == float("inf")


def test_a_default_is_what_a_float32_makes_of_it() -> None:
    codec = module_of(STATS).Example
    assert codec.decode(b"".join(codec().encode())) == codec()
    with pytest.raises(DefinitionError, match="the default '1e39' is no float32"):
        iggy(1, {"name": "A", "type": "float32", "default": "1e39"})


@pytest.mark.parametrize(("width", "most"), [("uint8", 255), ("uint16", 65535), ("uint32", 2**32 - 1)])
def test_an_id_fits_into_its_type(width: str, most: int) -> None:
    number = module_of(load(id=most, idType=width)).Example.ID
    assert number == most
    with pytest.raises(
        DefinitionError, match=f"the id {most + 1} does not fit into a {width}; use 0..{most}"
    ):
        load(id=most + 1, idType=width)


def test_an_id_type_belongs_to_an_id() -> None:
    with pytest.raises(DefinitionError, match="'idType' is 'uint24'; use one of uint8, uint16, uint32"):
        load(idType="uint24")
    with pytest.raises(DefinitionError, match="a message without an 'id' has none; remove 'idType'"):
        load(id=None, apiKey=1, idType="uint16")


def test_another_width_of_the_id_is_a_break() -> None:
    old, new = load(id=10), load(id=10, idType="uint32")
    found = compare(Protocol("old", [old]), Protocol("new", [new]))
    assert [finding.what for finding in found.findings] == ["had an id of uint8, has one of uint32"]
    assert found.breaks == 1
