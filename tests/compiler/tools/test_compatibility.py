"""`tank-protos check` refuses what breaks readers of a version that exists, and says why."""

import pytest

from tests.support.values.evolving import TAGGED, A, B, broken, definition, found, number, struct, text

CHANGES: dict[str, tuple[str, str, list[str]]] = {
    "a field is removed": (
        definition(A, B),
        definition(A),
        ["Example.B versions 0-3: is not there any more"],
    ),
    "a field is added to versions that exist": (
        definition(A),
        definition(A, B),
        ["Example.B versions 0-3: is there now; a version that is known can get no fields but tagged ones"],
    ),
    "a field is added to one version that exists": (
        definition(A),
        definition(A, B | {"versions": "3+"}),
        ["Example.B version 3: is there now; a version that is known can get no fields but tagged ones"],
    ),
    "a field has another type": (
        definition(A),
        definition(A | {"type": "int64"}),
        ["Example.A versions 0-3: was int32, is int64"],
    ),
    "a number has no sign any more": (
        definition(A | {"type": "int16"}),
        definition(A | {"type": "uint16"}),
        ["Example.A versions 0-3: was int16, is uint16"],
    ),
    "a text becomes bytes": (
        definition(B),
        definition(B | {"type": "bytes"}),
        [
            "Example.B versions 0-1: was string (int16 length), is bytes (int32 length)",
            "Example.B versions 2-3: was string (compact length), is bytes (compact length)",
        ],
    ),
    "the elements have another type": (
        definition(A | {"type": "[]int32"}),
        definition(A | {"type": "[]int16"}),
        [
            "Example.A versions 0-1: was []int32 (int32 count), is []int16 (int32 count)",
            "Example.A versions 2-3: was []int32 (compact count), is []int16 (compact count)",
        ],
    ),
    "a value becomes a list": (
        definition(struct("S", A)),
        definition(struct("S", A) | {"type": "[]Inner"}),
        [
            "Example.S versions 0-1: was struct, is []struct (int32 count)",
            "Example.S versions 2-3: was struct, is []struct (compact count)",
        ],
    ),
    "two fields change places": (
        definition(A, number("C"), B),
        definition(B, A, number("C")),
        ["Example.B versions 0-3: stands in another place among the fields"],
    ),
    "a field inside of a struct is removed": (
        definition(struct("S", A, B)),
        definition(struct("S", A)),
        ["Inner.B versions 0-3: is not there any more"],
    ),
    "a field begins later": (
        definition(A, B),
        definition(A, B | {"versions": "2+"}),
        ["Example.B versions 0-1: is not there any more"],
    ),
    "a field begins earlier": (
        definition(A, B | {"versions": "2+"}),
        definition(A, B | {"versions": "1+"}),
        ["Example.B version 1: is there now; a version that is known can get no fields but tagged ones"],
    ),
    "a field ends": (
        definition(A, B),
        definition(A, B | {"versions": "0-1"}),
        ["Example.B versions 2-3: is not there any more"],
    ),
    "a field can be null": (
        definition(B),
        definition(B | {"nullableVersions": "1+"}),
        ["Example.B versions 1-3: can be null now, which old readers of this version can't read"],
    ),
    "a field can be null no more": (
        definition(B | {"nullableVersions": "0+"}),
        definition(B | {"nullableVersions": "2+"}),
        ["Example.B versions 0-1: could be null, and can't be any more"],
    ),
    "the default of a field that came later": (
        definition(A, number("C", versions="2+", default="-1")),
        definition(A, number("C", versions="2+", default="0")),
        ["Example.C versions 0-1: the default was -1, is 0: it is read where the version has no such field"],
    ),
    "the default of a struct's field, where the struct came later": (
        definition(A, struct("S", number("C", versions="2+", default="-1"), versions="2+")),
        definition(A, struct("S", number("C", versions="2+", default="7"), versions="2+")),
        ["Inner.C versions 0-1: the default was -1, is 7: it is read where the version has no such field"],
    ),
    "the default of a tagged field": (
        definition(A, number("C", default="5") | TAGGED),
        definition(A, number("C", default="6") | TAGGED),
        [
            "Example.C versions 0-1: the default was 5, is 6: it is read where the version has no such field",
            "Example.C versions 2-3: the default was 5, is 6: it is read where the tag is missing",
        ],
    ),
    "null for empty in a tagged field": (
        definition(A, text("C", nullableVersions="2+") | TAGGED),
        definition(A, text("C", nullableVersions="2+", default="null") | TAGGED),
        [
            "Example.C versions 0-1: the default was empty, is null: "
            "it is read where the version has no such field",
            "Example.C versions 2-3: the default was empty, is null: it is read where the tag is missing",
        ],
    ),
    "another tag": (
        definition(A, text("C") | TAGGED),
        definition(A, text("C") | TAGGED | {"tag": 1}),
        ["Example.C versions 2-3: was tag 0, is tag 1"],
    ),
    "a tagged field is removed": (
        definition(A, text("C") | TAGGED),
        definition(A),
        ["Example.C versions 2-3: is not there any more"],
    ),
    "two tags are exchanged": (
        definition(A, text("C") | TAGGED, text("D") | TAGGED | {"tag": 1}),
        definition(A, text("C") | TAGGED | {"tag": 1}, text("D") | TAGGED),
        [
            "Example.C versions 2-3: was tag 0, is tag 1",
            "Example.D versions 2-3: was tag 1, is tag 0",
            "Example.C versions 2-3: has the tag 1, which was D's; take another one",
            "Example.D versions 2-3: has the tag 0, which was C's; take another one",
        ],
    ),
    "a tag is reused for another type": (
        definition(A, text("C") | TAGGED),
        definition(A, number("D") | TAGGED),
        ["Example.C versions 2-3: was string (compact length), is int32"],
    ),
    "a field becomes tagged": (
        definition(A, B),
        definition(A, B | TAGGED | {"versions": "0+"}),
        ["Example.B versions 2-3: was a field without tag, is tag 0"],
    ),
    "a tagged field becomes a plain one": (
        definition(A, B | TAGGED),
        definition(A, B | {"versions": "2+"}),
        ["Example.B versions 2-3: was tag 0, is a field without tag"],
    ),
    "flexible versions begin earlier": (
        definition(A),
        definition(A, flexibleVersions="1+"),
        [
            "Example version 1: was not flexible, is flexible: "
            "lengths, tagged fields and the header before it differ"
        ],
    ),
    "flexible versions end": (
        definition(A, B),
        definition(A, B, flexibleVersions="none"),
        [
            "Example versions 2-3: was flexible, is not flexible: "
            "lengths, tagged fields and the header before it differ"
        ],
    ),
    "a field is not written the compact way any more": (
        definition(B),
        definition(B | {"flexibleVersions": "none"}),
        ["Example.B versions 2-3: was string (compact length), is string (int16 length)"],
    ),
    "old versions are dropped": (
        definition(A),
        definition(A, validVersions="2-3"),
        ["Example versions 0-1: gone: no reader is left for messages in it"],
    ),
    "the newest version is dropped": (
        definition(A),
        definition(A, validVersions="0-2"),
        ["Example version 3: gone: no reader is left for messages in it"],
    ),
    "all versions are dropped": (
        definition(A),
        definition(A, validVersions="none"),
        ["Example versions 0-3: gone, with the message: no reader is left for messages in it"],
    ),
    "more is dropped than was announced": (
        definition(A, deprecatedVersions="0"),
        definition(A, validVersions="2-3"),
        ["Example version 1: gone: no reader is left for messages in it"],
    ),
    "another api key": (
        definition(A),
        definition(A, apiKey=2),
        ["Example : had the id 1, has 2: senders of the old one are misread"],
    ),
    "a request becomes a response": (
        definition(A),
        definition(A, type="response"),
        ["Example : was a request, is a response"],
    ),
    "another order of bytes": (
        definition(A),
        definition(A, byteOrder="little"),
        ["Example versions 0-3: was big-endian, is little-endian"],
    ),
    "a version that was stable is said to change": (
        definition(A),
        definition(A, latestVersionUnstable=True),
        ["Example version 3: it was stable, and latestVersionUnstable says that it may change"],
    ),
}


@pytest.mark.parametrize(("old", "new", "breaks"), CHANGES.values(), ids=CHANGES)
def test_a_change_that_breaks_readers_is_refused_with_its_reason(
    old: str, new: str, breaks: list[str]
) -> None:
    assert broken(old, new) == breaks


@pytest.mark.parametrize(("old", "new"), [change[:2] for change in CHANGES.values()], ids=CHANGES)
def test_what_did_not_change_breaks_nobody(old: str, new: str) -> None:
    assert found(old, old) == found(new, new) == ([], [])


# Messages among each other.


def test_a_message_that_is_gone_breaks_whoever_sends_it() -> None:
    other = definition(A, name="Other", apiKey=2)
    assert broken([definition(A), other], other) == [
        "Example versions 0-3: gone, with the message: no reader is left for messages in it"
    ]


def test_a_new_message_breaks_nobody() -> None:
    assert found(definition(A), [definition(A), definition(A, name="Other", apiKey=2)]) == ([], [])


def test_an_id_is_not_given_to_another_message() -> None:
    gone = definition(A, validVersions="none")
    assert broken(gone, definition(A, name="Other")) == [
        "Other : the id 1 was Example's, and peers that still send that are misread; take another"
    ]


def test_an_id_goes_to_nobody_in_the_step_that_ends_its_message() -> None:
    ended = definition(A, validVersions="none")
    announced = definition(A, deprecatedVersions="0-3")
    assert broken(announced, [ended, definition(A, name="Other")]) == [
        "Other : the id 1 was Example's, and peers that still send that are misread; take another"
    ]


def test_ids_that_are_exchanged_break_both() -> None:
    old = [definition(A), definition(A, name="Other", apiKey=2)]
    new = [definition(A, apiKey=2), definition(A, name="Other")]
    assert len(broken(old, new)) == 2


def test_a_response_keeps_what_its_request_announced() -> None:
    """Kafka's definitions say of a request what holds for both."""
    answer = definition(A, type="response", name="ExampleResponse")
    kept = definition(A, type="response", name="ExampleResponse", validVersions="1-3")
    announced = definition(A, deprecatedVersions="0")
    assert broken([announced, answer], [definition(A, validVersions="1-3"), kept]) == []
    assert len(broken([definition(A), answer], [definition(A), kept])) == 1


def test_a_response_is_as_unstable_as_its_request() -> None:
    answer = definition(A, type="response", name="ExampleResponse")
    changed = definition(B, type="response", name="ExampleResponse")
    unstable = definition(A, latestVersionUnstable=True)
    breaks = broken([unstable, answer], [unstable, changed])
    assert breaks
    assert all("versions 0-2" in text or "versions 0-1" in text or "version 2" in text for text in breaks)
