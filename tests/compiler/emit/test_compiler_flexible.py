"""Flexible versions: compact lengths, tagged fields, unknown tags, and what strangers can do with them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tank_compiler.emit import module as emit_module
from tank_compiler.schema.layouts import of_version
from tank_compiler.tools.interpreter import lay_out
from tank_compiler.tools.json_form import from_json, to_json
from tank_protos.wire.errors import OutOfRange, Truncated, UnsupportedVersion, WireError
from tank_protos.wire.tagged import UnknownTag
from tests.support.compiled import load_api, module_of
from tests.support.examples import examples
from tests.support.values.schema_values import as_values, values

ROOT = Path(__file__).parents[3]
FLEXIBLE = {"validVersions": "0-1", "flexibleVersions": "1+"}


def codec_of(*fields: dict[str, Any], **keys: Any) -> Any:
    return module_of(load_api(*fields, **(FLEXIBLE | keys))).Example


def encoded(message: Any, version: int) -> bytes:
    return b"".join(message.encode(version))


@pytest.mark.parametrize(
    ("type_name", "value", "plain", "flexible"),
    [
        ("string", "gold", "0004676f6c64", "05676f6c64" + "00"),
        ("string", "", "0000", "01" + "00"),
        ("bytes", b"\1\2", "000000020102", "030102" + "00"),
        ("records", b"\1", "0000000101", "0201" + "00"),
        ("[]int16", [1, -1], "000000020001ffff", "030001ffff" + "00"),
        ("[]string", ["a"], "00000001000161", "020261" + "00"),
        ("uuid", bytes(range(16)), bytes(range(16)).hex(), bytes(range(16)).hex() + "00"),
        ("[]uuid", [bytes(16)], "00000001" + "00" * 16, "02" + "00" * 16 + "00"),
        ("uint16", 65535, "ffff", "ffff00"),
        ("uint32", 1 << 31, "80000000", "8000000000"),
        ("float64", -2.5, "c004000000000000", "c00400000000000000"),
        ("bool", True, "01", "0100"),
    ],
)
def test_each_type_has_two_forms(type_name: str, value: object, plain: str, flexible: str) -> None:
    codec = codec_of({"name": "A", "type": type_name})
    for version, wire in enumerate((plain, flexible)):
        assert encoded(codec(a=value), version).hex() == wire
        assert codec.decode(bytes.fromhex(wire), version).a == value


@pytest.mark.parametrize(
    ("type_name", "plain"),
    [("string", "ffff"), ("bytes", "ff" * 4), ("records", "ff" * 4), ("[]int8", "ff" * 4)],
)
def test_null_is_minus_one_or_a_compact_zero(type_name: str, plain: str) -> None:
    codec = codec_of({"name": "A", "type": type_name, "nullableVersions": "0+", "default": "null"})
    for version, wire in enumerate((plain, "0000")):
        assert encoded(codec(), version).hex() == wire
        assert codec.decode(bytes.fromhex(wire), version).a is None


@pytest.mark.parametrize("type_name", ["string", "bytes", "records", "[]int8", "[]string"])
@pytest.mark.parametrize(("version", "wire"), [(0, "ffffffff"), (0, "80000000"), (1, "0000")])
def test_null_where_there_is_none_is_refused(type_name: str, version: int, wire: str) -> None:
    codec = codec_of({"name": "A", "type": type_name})
    with pytest.raises(OutOfRange, match=r"Example\.A is null, or has a length below zero"):
        codec.decode(bytes.fromhex(wire), version)


def test_a_length_below_minus_one_is_not_null() -> None:
    codec = codec_of({"name": "A", "type": "string", "nullableVersions": "0+"})
    with pytest.raises(OutOfRange, match="a length below zero"):
        codec.decode(b"\xff\xfe", 0)


def test_null_in_a_version_that_knows_none_cannot_be_written() -> None:
    codec = codec_of({"name": "A", "type": "string", "nullableVersions": "1+"})
    assert encoded(codec(a=None), 1) == b"\0\0"
    with pytest.raises(
        OutOfRange, match=r"Example\.A is null, which version 0 doesn't allow; give it a value"
    ):
        codec(a=None).encode(0)


@pytest.mark.parametrize("nullable", [{}, {"nullableVersions": "0+"}])
def test_no_text_is_longer_than_an_int16_says(nullable: dict[str, Any]) -> None:
    codec = codec_of({"name": "A", "type": "string"} | nullable)
    longest = codec(a="x" * 32767)
    for version in (0, 1):
        assert codec.decode(encoded(longest, version), version) == longest
        with pytest.raises(OutOfRange, match=r"Example\.[Aa] has a length of 32768; the field "):
            codec(a="x" * 32768).encode(version)
    with pytest.raises(OutOfRange, match=r"has a length of 32768; the field holds( at most)? 32767"):
        codec.decode(b"\x81\x80\x02" + b"x" * 32768 + b"\0", 1)


@pytest.mark.parametrize("type_name", ["string", "bytes", "[]int8", "[]string", "[]uuid"])
def test_a_length_of_four_billion_is_truncated(type_name: str) -> None:
    codec = codec_of({"name": "A", "type": type_name})
    with pytest.raises((Truncated, OutOfRange)):
        codec.decode(b"\xff\xff\xff\xff\x0f" + bytes(100), 1)


def test_a_field_can_stay_plain_in_flexible_versions() -> None:
    codec = codec_of(
        {"name": "A", "type": "string", "flexibleVersions": "none"}, {"name": "B", "type": "string"}
    )
    assert encoded(codec(a="x", b="y"), 1).hex() == "000178" + "0279" + "00"


def test_a_message_without_fields_still_has_tags() -> None:
    codec = codec_of()
    assert encoded(codec(), 0) == b""
    assert encoded(codec(), 1) == b"\0"
    assert codec.decode(b"\0", 1) == codec()
    with pytest.raises(Truncated):
        codec.decode(b"", 1)


# Tagged fields

TAGGED = (
    {"name": "Plain", "type": "int8"},
    {"name": "Late", "type": "int16", "versions": "1+", "taggedVersions": "1+", "tag": 7, "default": "-1"},
    {"name": "Early", "type": "string", "versions": "1+", "taggedVersions": "1+", "tag": 0},
)


def test_tagged_fields_are_written_by_rising_tag_and_defaults_are_not() -> None:
    codec = codec_of(*TAGGED)
    assert encoded(codec(plain=1), 1).hex() == "01" + "00"
    assert encoded(codec(plain=1, late=2), 1).hex() == "01" + "01" + "07020002"
    assert encoded(codec(plain=1, late=2, early="x"), 1).hex() == "01" + "02" + "00020278" + "07020002"
    for message in (codec(plain=1), codec(late=2), codec(late=2, early="x")):
        assert codec.decode(encoded(message, 1), 1) == message


def test_a_tagged_field_at_its_default_can_be_read() -> None:
    codec = codec_of(*TAGGED)
    assert codec.decode(bytes.fromhex("01" + "01" + "0702ffff"), 1) == codec(plain=1)


def test_a_field_may_be_tagged_in_later_versions_only() -> None:
    codec = codec_of({"name": "A", "type": "int8", "taggedVersions": "1+", "tag": 3})
    assert encoded(codec(a=5), 0).hex() == "05"
    assert encoded(codec(a=5), 1).hex() == "01" + "030105"
    assert encoded(codec(a=0), 1).hex() == "00"


def test_unknown_tags_are_skipped_or_kept_and_written_back_in_their_place() -> None:
    codec = codec_of(*TAGGED)
    wire = bytes.fromhex("01" + "04" + "00020278" + "0501aa" + "07020002" + "ac0200")
    assert codec.decode(wire, 1) == codec(plain=1, late=2, early="x")
    kept = codec.decode(wire, 1, keep_unknown=True)
    assert kept.unknown_tags == (UnknownTag(5, b"\xaa"), UnknownTag(300, b""))
    assert encoded(kept, 1) == wire
    with pytest.raises(UnsupportedVersion, match=r"Example\.unknown_tags is set, but version 0"):
        codec(unknown_tags=kept.unknown_tags).encode(0)


def test_structs_in_lists_keep_their_own_unknown_tags() -> None:
    inner = [{"name": "B", "type": "int8", "about": "B."}]
    codec = codec_of({"name": "A", "type": "[]Thing", "fields": inner})
    wire = bytes.fromhex("03" + "01" + "00" + "02" + "01" + "0900" + "00")
    assert [one.unknown_tags for one in codec.decode(wire, 1).a] == [(), ()]
    kept = codec.decode(wire, 1, keep_unknown=True)
    assert [one.unknown_tags for one in kept.a] == [(), (UnknownTag(9, b""),)]
    assert encoded(kept, 1) == wire


@pytest.mark.parametrize(
    ("tags", "error", "what"),
    [
        ("02" + "07020002" + "000101", OutOfRange, "the tag 0 follows 7; tags must rise"),
        ("02" + "07020002" + "07020002", OutOfRange, "the tag 7 follows 7; tags must rise"),
        ("01" + "0703000200", OutOfRange, r"the tagged field 7 of Example ends -1 bytes from its stated end"),
        (
            "01" + "0701000200",
            OutOfRange,
            r"the tagged field 7 of Example ends \+1 bytes from its stated end",
        ),
        ("01" + "09ff", Truncated, "end inside a varint"),
        ("01" + "0905aa", Truncated, "ends in the tagged field 9"),
        ("ffffffff0f", Truncated, "end inside a varint"),
        ("ffffffff1f", OutOfRange, "varint"),
    ],
)
def test_wrong_tags_are_refused(tags: str, error: type[WireError], what: str) -> None:
    with pytest.raises(error, match=what):
        codec_of(*TAGGED).decode(bytes.fromhex("01" + tags), 1)


@pytest.mark.parametrize("tags", [(UnknownTag(7, b""), UnknownTag(7, b"")), (UnknownTag(-1, b""),)])
def test_unknown_tags_that_cannot_be_written(tags: tuple[UnknownTag, ...]) -> None:
    with pytest.raises(OutOfRange, match="occurs twice, or is below 0"):
        codec_of(*TAGGED)(unknown_tags=tags).encode(1)


def test_an_unknown_tag_that_is_known_is_refused() -> None:
    with pytest.raises(OutOfRange, match="the tag 7 occurs twice"):
        codec_of(*TAGGED)(late=2, unknown_tags=(UnknownTag(7, b""),)).encode(1)


def test_a_field_can_become_compact_later_than_its_message() -> None:
    codec = codec_of(
        {"name": "A", "type": "string", "flexibleVersions": "2+"}, validVersions="0-2", flexibleVersions="1+"
    )
    for version, wire in enumerate(("000161", "000161" + "00", "0261" + "00")):
        assert encoded(codec("a"), version).hex() == wire
        assert codec.decode(bytes.fromhex(wire), version).a == "a"


def test_bytes_of_a_tag_are_counted_with_it() -> None:
    codec = codec_of({"name": "A", "type": "bytes", "versions": "1+", "taggedVersions": "1+", "tag": 0})
    assert encoded(codec(a=b"\1\2\3"), 1).hex() == "01" + "0004" + "04010203"
    assert codec.decode(bytes.fromhex("01" + "0004" + "04010203"), 1).a == b"\1\2\3"


# Nullable structs

THING = [{"name": "B", "type": "int8", "default": "4", "about": "B."}]


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    field = {"name": "A", "type": "Thing", "nullableVersions": "0+", "default": "null", "fields": THING}
    module = module_of(load_api(field, **FLEXIBLE))
    for version, tags in ((0, ""), (1, "00")):
        assert encoded(module.Example(), version).hex() == "ff" + tags
        assert encoded(module.Example(module.Thing(2)), version).hex() == "0102" + tags + tags
        assert module.Example.decode(bytes.fromhex("ff" + tags), version).a is None
        assert module.Example.decode(bytes.fromhex("0102" + tags + tags), version).a == module.Thing(2)
        for mark in (0, 2, 127, -2):
            wire = mark.to_bytes(1, signed=True) + bytes.fromhex("02" + tags + tags)
            with pytest.raises(OutOfRange, match=rf"Example\.A begins with {mark}, which means neither"):
                module.Example.decode(wire, version)


def test_a_nullable_struct_whose_default_is_no_null() -> None:
    field = {"name": "A", "type": "Thing", "nullableVersions": "0+", "fields": THING}
    module = module_of(load_api(field, **FLEXIBLE))
    assert module.Example().a == module.Thing(4)
    assert encoded(module.Example(a=None), 0) == b"\xff"


@pytest.mark.parametrize("default", [{}, {"default": "null"}])
def test_a_tagged_nullable_struct_says_null_with_zero(default: dict[str, Any]) -> None:
    field = {"name": "A", "type": "Thing", "nullableVersions": "1+", "fields": THING}
    tagged = {"versions": "1+", "taggedVersions": "1+", "tag": 2}
    module = module_of(load_api(field | tagged | default, **FLEXIBLE))
    codec = module.Example
    null, there = bytes.fromhex("01" + "0201" + "00"), bytes.fromhex("01" + "0203" + "010900")
    assert codec.decode(null, 1).a is None
    assert codec.decode(there, 1).a == module.Thing(9)
    for mark in ("02", "7f"):
        with pytest.raises(OutOfRange, match=r"Example\.A begins with .*, which means neither"):
            codec.decode(bytes.fromhex("01" + "0203" + mark + "0900"), 1)
    assert encoded(codec(module.Thing(9)), 1) == there
    assert encoded(codec(), 1) == b"\0"
    assert encoded(codec(a=None), 1) == (b"\0" if default else null)


def test_a_tagged_struct_at_its_defaults_is_not_written() -> None:
    tagged = {"versions": "1+", "taggedVersions": "1+", "tag": 2}
    module = module_of(load_api({"name": "A", "type": "Thing", "fields": THING} | tagged, **FLEXIBLE))
    assert encoded(module.Example(module.Thing(4)), 1) == b"\0"
    assert encoded(module.Example(module.Thing(5)), 1).hex() == "01" + "0202" + "0500"


# Everything at once

DEEP: list[dict[str, Any]] = [
    {"name": "Id", "type": "uuid", "mapKey": True, "about": "Id."},
    {"name": "Name", "type": "string", "nullableVersions": "1+", "mapKey": True, "about": "Name."},
    {"name": "Old", "type": "int32", "versions": "0", "ignorable": True, "default": "0x10", "about": "Old."},
    {"name": "Spans", "type": "[]Span", "versions": "1+", "about": "Spans.", "nullableVersions": "2+",
     "fields": [
        {"name": "First", "type": "uint32", "about": "First."},
        {"name": "Sizes", "type": "[]int64", "nullableVersions": "2+", "about": "Sizes."},
        {"name": "Tag", "type": "string", "versions": "2+", "taggedVersions": "2+", "tag": 1, "about": ""},
        {"name": "Ids", "type": "[]uuid", "versions": "2+", "taggedVersions": "2+", "tag": 0, "about": ""},
    ]},
    {"name": "Shared", "type": "Common", "versions": "2+", "nullableVersions": "2+", "about": "Shared."},
]  # fmt: skip
EVERYTHING = load_api(
    {"name": "Things", "type": "[]Deep", "fields": DEEP},
    {"name": "Ratio", "type": "float64", "versions": "1+", "default": "1.5", "ignorable": True},
    {"name": "Data", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    {"name": "Ready", "type": "bool", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "true"},
    {"name": "Common", "type": "Common", "versions": "2+", "taggedVersions": "3+", "tag": 4},
    {"name": "Maybe", "type": "Common", "versions": "3+", "taggedVersions": "3+", "tag": 5,
     "nullableVersions": "3+", "default": "null"},
    {"name": "Words", "type": "[]string", "versions": "2+", "taggedVersions": "2+", "tag": 1,
     "nullableVersions": "2+"},
    {"name": "Port", "type": "uint16", "versions": "3+"},
    commonStructs=[{"name": "Common", "versions": "2+", "fields": [
        {"name": "Leader", "type": "int32", "default": "-1"},
        {"name": "More", "type": "bytes", "nullableVersions": "3+"},
        {"name": "Kept", "type": "int8", "versions": "3+", "taggedVersions": "3+", "tag": 9},
    ]}],
    validVersions="0-3",
    flexibleVersions="2+",
)  # fmt: skip
MODULE = module_of(EVERYTHING)


@settings(examples(150), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_a_message_with_everything_round_trips(data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 3))
    chosen = data.draw(values(EVERYTHING, version))
    payload = lay_out(EVERYTHING, chosen, version)
    decoded = MODULE.Example.decode(payload, version, keep_unknown=True)
    assert as_values(decoded, EVERYTHING.root) == chosen
    assert encoded(decoded, version) == payload


@settings(examples(60), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_the_json_of_a_message_builds_it_again(data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 3))
    payload = lay_out(EVERYTHING, data.draw(values(EVERYTHING, version)), version)
    decoded = MODULE.Example.decode(payload, version)
    struct = of_version(EVERYTHING, version).root
    assert from_json(MODULE, struct, to_json(struct, decoded)) == decoded


@settings(examples(40), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_what_is_cut_anywhere_is_truncated(data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 3))
    payload = lay_out(EVERYTHING, data.draw(values(EVERYTHING, version)), version)
    for end in range(len(payload)):
        with pytest.raises(Truncated):
            MODULE.Example.decode(payload[:end], version)


@settings(examples(800), suppress_health_check=list(HealthCheck), database=None)
@given(st.binary(max_size=80), st.integers(0, 3), st.booleans())
@example(b"\0\0\0\0\xff\xff\xff\xff", 0, False)
def test_any_bytes_decode_or_raise_a_typed_error(wire: bytes, version: int, keep: bool) -> None:
    try:
        decoded = MODULE.Example.decode(wire, version, keep_unknown=keep)
    except WireError:
        return
    assert_written_again(decoded, version)


def assert_written_again(decoded: Any, version: int) -> None:
    """Bytes are compared, not values: among them may be a float that is no number and equals nothing."""
    wire = encoded(decoded, version)
    assert encoded(MODULE.Example.decode(wire, version, keep_unknown=True), version) == wire


@settings(examples(800), suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_a_changed_byte_decodes_or_raises_a_typed_error(data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 3))
    payload = bytearray(lay_out(EVERYTHING, data.draw(values(EVERYTHING, version)), version))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = MODULE.Example.decode(payload, version, keep_unknown=True)
    except WireError:
        return
    assert_written_again(decoded, version)


def test_generated_code_satisfies_the_linter_and_strict_types(tmp_path: Path) -> None:
    """Also the code of features that no message here uses yet."""
    target = tmp_path / "example.py"
    target.write_text(emit_module.module(EVERYTHING, "example.json"))
    settings_file = str(ROOT / "pyproject.toml")
    ruff = ["ruff", "check", "--no-cache", "--config", settings_file, "--ignore", "E501,I001,W"]
    mypy = ["mypy", "--config-file", settings_file, "--cache-dir", str(tmp_path / "cache")]
    for command in (ruff, mypy):
        done = subprocess.run(
            [sys.executable, "-m", *command, str(target)],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
