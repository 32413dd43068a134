"""The records of groups of the consumer protocol, byte by byte as Kafka's, and what is read from them."""

import pytest

from tank_node.coordinators.machine.topics import TopicShape
from tank_node.coordinators.records.consumer_member import ClassicSide, MemberStanding, Said, ShareProgress
from tank_node.coordinators.records.consumer_records import (
    ConsumerImage,
    ConsumerRecord,
    Key,
    KeyKind,
    Value,
    record,
)
from tank_node.coordinators.records.group_records import read

ONE, TWO = bytes(15) + b"\1", bytes(15) + b"\2"
PLACES = frozenset({(TWO, 0), (ONE, 1), (ONE, 0)})
SAID = Said(
    "one",
    "rack",
    "client",
    "/10.0.0.7",
    frozenset({"orders", "bills"}),
    "o.*",
    60_000,
    "range",
    ClassicSide(10_000, (("range", b"\1\2"),)),
)
STANDING = MemberStanding(5, 4, ShareProgress.REVOKING, PLACES, frozenset({(ONE, 7)}))

RECORDS: list[tuple[Key, Value]] = [
    ((KeyKind.GROUP, ""), 7),
    ((KeyKind.TOPICS, ""), {"orders": TopicShape(ONE, "orders", 8)}),
    ((KeyKind.MEMBER, "a"), SAID),
    ((KeyKind.MEMBER, "a"), Said(topics=frozenset({"orders"}))),
    ((KeyKind.TARGETS, ""), 6),
    ((KeyKind.TARGET, "a"), PLACES),
    ((KeyKind.CURRENT, "a"), STANDING),
]


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_what_is_written_is_read(key: Key, value: Value) -> None:
    found = read(*record("g", key, value))
    assert isinstance(found, ConsumerRecord)
    assert (found.group_id, found.key, found.value) == ("g", key, value)


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_a_record_without_a_value_says_that_it_is_gone(key: Key, value: Value) -> None:
    found = read(*record("g", key, None))
    assert isinstance(found, ConsumerRecord)
    assert (found.group_id, found.key, found.value) == ("g", key, None)
    image = ConsumerImage()
    image.take(key, value)
    assert not image.is_gone
    image.take(key, None)
    assert image.is_gone


@pytest.mark.parametrize(
    ("key", "value", "key_bytes", "value_bytes"),
    [
        ((KeyKind.GROUP, ""), 7, "0003 0001 67", "0000 00000007 00"),
        ((KeyKind.TARGETS, ""), 7, "0006 0001 67", "0000 00000007 00"),
        (
            (KeyKind.TARGET, "a"),
            frozenset({(ONE, 2)}),
            "0007 0001 67 0001 61",
            "0000 02 00000000000000000000000000000001 02 00000002 00 00",
        ),
        (
            (KeyKind.CURRENT, "a"),
            MemberStanding(5, 4, ShareProgress.WAITING),
            "0008 0001 67 0001 61",
            "0000 00000005 00000004 02 01 01 00",
        ),
        (
            (KeyKind.MEMBER, "a"),
            Said(None, None, "c", "/h", frozenset({"t"}), "", 9, None),
            "0005 0001 67 0001 61",
            "0000 00 00 02 63 03 2f68 02 02 74 00 00000009 00 00",
        ),
        (
            (KeyKind.MEMBER, "a"),
            Said(None, None, "c", "/h", frozenset(), "", 9, None, ClassicSide(6, (("r", b"m"),))),
            "0005 0001 67 0001 61",
            "0000 00 00 02 63 03 2f68 01 00 00000009 00 01 00 0c 01 00000006 02 02 72 02 6d 00 00",
        ),
        (
            (KeyKind.TOPICS, ""),
            {"t": TopicShape(ONE, "t", 3)},
            "0004 0001 67",
            "0000 02 00000000000000000000000000000001 02 74 00000003 01 00 00",
        ),
        ((KeyKind.CLASSIC, ""), None, "0002 0001 67", ""),
    ],
)
def test_the_bytes_are_kafkas(key: Key, value: Value, key_bytes: str, value_bytes: str) -> None:
    written = record("g", key, value)
    assert written[0] == bytes.fromhex(key_bytes)
    assert (written[1] or b"") == bytes.fromhex(value_bytes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0003 0001 67", "0009 00000007 00"),
        ("0003 0001 67", "0000 0000"),
        ("0003 0005 67", "0000 00000007 00"),
        ("0008 0001 67 0001 61", "0000 00000005 00000004 09 01 01 00"),
        ("0009 0001 67", "0000 00000007 00"),
    ],
)
def test_what_can_not_be_read_is_nothing(key: str, value: str) -> None:
    assert read(bytes.fromhex(key), bytes.fromhex(value)) is None
