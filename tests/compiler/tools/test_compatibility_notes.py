"""`tank-protos check` lets pass what breaks nobody; our own forms of definitions are judged like Kafka's."""

from typing import Any

import pytest

from tests.support.values.evolving import TAGGED, A, B, Keys, broken, definition, found, number, struct, text

PASSES: dict[str, tuple[str, str, list[str]]] = {
    "a new version with a new field": (
        definition(A),
        definition(A, B | {"versions": "4+"}, validVersions="0-4"),
        [],
    ),
    "a new version without a field": (
        definition(A, B),
        definition(A, B | {"versions": "0-3"}, validVersions="0-4"),
        [],
    ),
    "a tagged field, in flexible versions that exist": (
        definition(A),
        definition(A, text("C") | TAGGED),
        [],
    ),
    "a tagged field of a struct inside": (
        definition(struct("S", A)),
        definition(struct("S", A, text("C") | TAGGED)),
        [],
    ),
    "versions that say the same": (
        definition(A, B | {"versions": "0+"}),
        definition(A, B | {"versions": "0-3"}),
        [],
    ),
    "what was announced is dropped": (
        definition(A, deprecatedVersions="0-1"),
        definition(A, validVersions="2-3"),
        ["Example versions 0-1: gone, as deprecatedVersions announced"],
    ),
    "the unstable version changes": (
        definition(A, latestVersionUnstable=True),
        definition(A | {"versions": "0-2"}, B | {"versions": "3+"}),
        [],
    ),
    "the unstable version is dropped": (
        definition(A, latestVersionUnstable=True),
        definition(A, validVersions="0-2"),
        [],
    ),
    "a field has another name": (
        definition(A, B),
        definition(A | {"name": "Ab"}, B),
        ["Example.A versions 0-3: is called Ab now; the wire has no names"],
    ),
    "a tagged field has another name": (
        definition(A, text("C") | TAGGED),
        definition(A, text("D") | TAGGED),
        ["Example.C versions 2-3: is called D now; the wire has no names"],
    ),
    "a struct has another name": (
        definition(struct("S", A)),
        definition(struct("S", A) | {"type": "Other"}),
        ["Inner versions 0-3: the struct is called Other now; the wire has no names"],
    ),
    "the message has another name": (
        definition(A),
        definition(A, name="Other"),
        ["Example : is called Other now; the wire has no names"],
    ),
    "the default of a field that is always there": (
        definition(A | {"default": "1"}),
        definition(A | {"default": "2"}),
        ["Example.A versions 0-3: the default was 1, is 2: it changes what is written, not what is read"],
    ),
    "a default that is written another way": (
        definition(A, number("C", versions="2+", default="255")),
        definition(A, number("C", versions="2+", default="0xff")),
        [],
    ),
    "bytes become records": (
        definition(B | {"type": "bytes"}),
        definition(B | {"type": "records"}),
        [],
    ),
    "a value without place is dropped": (
        definition(A, B | {"versions": "2+"}),
        definition(A, B | {"versions": "2+", "ignorable": True}),
        ["Example.B versions 0-1: a value that has no place here is dropped now (ignorable)"],
    ),
    "what things are": (
        definition(B),
        definition(B | {"entityType": "topicName", "about": "Another text."}),
        [],
    ),
    "the order of bytes of what has one byte": (
        definition(A | {"type": "int8"}, flexibleVersions="none"),
        definition(A | {"type": "int8"}, flexibleVersions="none", byteOrder="little"),
        [],
    ),
}


@pytest.mark.parametrize(("old", "new", "notes"), PASSES.values(), ids=PASSES)
def test_a_change_that_breaks_nobody_passes(old: str, new: str, notes: list[str]) -> None:
    assert found(old, new) == ([], notes)


# The forms of our own protocol.


def tank(*fields: Keys, **keys: Any) -> str:
    own = {"apiKey": None, "flexibleVersions": None, "id": 1, "validVersions": "0-9"}
    return definition(*fields, **(own | keys))


OWN_CHANGES: dict[str, tuple[str, str, bool]] = {
    "a condition": (
        tank(number("A"), number("C", when="A == 1")),
        tank(number("A"), number("C", when="A == 2")),
        True,
    ),
    "a condition in other words": (
        tank(number("A"), number("C", when="A == 1 or A == 2 and A > 0")),
        tank(number("A"), number("C", when="A > 0 and A == 2 or A == 0x1")),
        False,
    ),
    "a condition that comes": (
        tank(number("A"), number("C")),
        tank(number("A"), number("C", when="A == 1")),
        True,
    ),
    "the name in a condition": (
        tank(number("A"), number("C", when="A == 1")),
        tank(number("D"), number("C", when="D == 1")),
        False,
    ),
    "the default of what a condition takes away": (
        tank(number("A"), number("C", when="A == 1")),
        tank(number("A"), number("C", when="A == 1", default="3")),
        True,
    ),
    "the width of a length": (
        tank({"name": "A", "type": "bytes", "length": "uint8"}),
        tank({"name": "A", "type": "bytes", "length": "uint16"}),
        True,
    ),
    "a length of its own": (
        tank({"name": "A", "type": "bytes", "length": 4}),
        tank({"name": "A", "type": "bytes", "length": 16}),
        True,
    ),
    "the field that counts": (
        tank(
            {"name": "N", "type": "uint8"},
            {"name": "M", "type": "uint8"},
            {"name": "A", "type": "[]int8", "countFrom": "N"},
        ),
        tank(
            {"name": "N", "type": "uint8"},
            {"name": "M", "type": "uint8"},
            {"name": "A", "type": "[]int8", "countFrom": "M"},
        ),
        True,
    ),
    "the name of the field that counts": (
        tank({"name": "N", "type": "uint8"}, {"name": "A", "type": "[]int8", "countFrom": "N"}),
        tank({"name": "M", "type": "uint8"}, {"name": "A", "type": "[]int8", "countFrom": "M"}),
        False,
    ),
    "a marker's value": (
        tank({"name": "A", "type": "bool", "marker": {"type": "uint16", "value": "0xffff"}}),
        tank({"name": "A", "type": "bool", "marker": {"type": "uint16", "value": "0xfffe"}}),
        True,
    ),
    "what is measured": (
        tank(number("A", type="uint32", measures=["B", "C"]), number("B"), number("C")),
        tank(number("A", type="uint32", measures=["B"]), number("B"), number("C")),
        True,
    ),
    "whether the value has its length": (
        tank({"name": "A", "type": "bytes", "length": "varint"}),
        tank({"name": "A", "type": "bytes", "length": "varint", "keepPrefix": True}),
        False,
    ),
    "which field states the version": (
        tank(number("A", type="uint8"), number("B", type="uint8"), versionField="A"),
        tank(number("A", type="uint8"), number("B", type="uint8"), versionField="B"),
        True,
    ),
    "the name of the field that states the version": (
        tank(number("A", type="uint8"), versionField="A"),
        tank(number("B", type="uint8"), versionField="B"),
        False,
    ),
}


@pytest.mark.parametrize(("old", "new", "breaks"), OWN_CHANGES.values(), ids=OWN_CHANGES)
def test_our_own_forms_are_compared_too(old: str, new: str, breaks: bool) -> None:
    assert bool(broken(old, new)) == breaks
    assert found(old, old) == found(new, new) == ([], [])
