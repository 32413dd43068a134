"""What keys of a definition mean: ignorable, default, mapKey, commonStructs, those about the message."""

import copy
from typing import Any

import pytest

from tank_compiler.emit import package
from tank_compiler.schema.headers import header_of, header_version
from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.schema import Kind, Removed
from tank_protos.wire.errors import UnsupportedVersion
from tank_protos.wire.keyed import KeyedList
from tests.support.compiled import definition, load_api, module_of

INNER = {"name": "B", "type": "int8", "about": "B."}


def codec_of(*fields: dict[str, Any], **keys: Any) -> Any:
    return module_of(load_api(*fields, **keys)).Example


def encoded(message: Any, version: int = 0) -> bytes:
    return b"".join(message.encode(version))


# ignorable

LATE: dict[str, dict[str, Any]] = {
    "int8": {"type": "int8", "default": "3"},
    "bool": {"type": "bool", "default": "true"},
    "string": {"type": "string", "default": "gold"},
    "nullable string": {"type": "string", "nullableVersions": "1+", "default": "null"},
    "bytes": {"type": "bytes"},
    "nullable bytes": {"type": "bytes", "nullableVersions": "1+"},
    "records": {"type": "records", "nullableVersions": "1+"},
    "uuid": {"type": "uuid"},
    "float64": {"type": "float64"},
    "list": {"type": "[]int8"},
    "nullable list": {"type": "[]int8", "nullableVersions": "1+"},
    "struct": {"type": "Thing", "fields": [INNER]},
    "nullable struct": {"type": "Thing", "nullableVersions": "1+", "default": "null", "fields": [INNER]},
}
OTHER: dict[str, object] = {
    "int8": 4, "bool": False, "string": "", "nullable string": "", "bytes": b"x", "nullable bytes": None,
    "records": b"", "uuid": bytes([1] * 16), "float64": 0.5, "list": [1], "nullable list": None,
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("versions", ["1+", "1-1"])
def test_a_value_without_a_place_is_an_error_or_dropped_when_ignorable(name: str, versions: str) -> None:
    for ignorable in (False, True):
        field = {"name": "A", "versions": versions, "ignorable": ignorable} | LATE[name]
        module = module_of(load_api({"name": "Size", "type": "int8"}, field, validVersions="0-1"))
        other = module.Thing(7) if "struct" in name else OTHER[name]
        assert encoded(module.Example(size=1)) == b"\1"
        if ignorable:
            assert encoded(module.Example(size=1, a=other)) == b"\1"
            assert module.Example.decode(b"\1", 0) == module.Example(size=1)
            continue
        with pytest.raises(UnsupportedVersion, match=r"Example\.A is set, but version 0 has no place for it"):
            module.Example(size=1, a=other).encode(0)


def test_a_version_field_and_ignorable_go_together() -> None:
    codec = module_of(
        load_api(
            {"name": "Version", "type": "int8"},
            {"name": "A", "type": "int8", "versions": "1+", "ignorable": True},
            {"name": "B", "type": "[]int8", "versions": "1+", "nullableVersions": "1+"},
            validVersions="0-1",
            versionField="Version",
        )
    ).Example
    assert encoded(codec(0, a=5)) == b"\0"
    assert codec.decode(encoded(codec(1, 5, [2]))) == codec(1, 5, [2])
    for b in ([1], None):
        with pytest.raises(UnsupportedVersion, match=r"Example\.B is set"):
            codec(0, b=b).encode()


# Defaults


@pytest.mark.parametrize(
    ("type_name", "default", "value"),
    [
        ("int8", "-1", -1),
        ("int32", "0x7fffffff", 0x7FFF_FFFF),
        ("int32", "-0x10", -16),
        ("int16", "017", 15),
        ("int64", -2, -2),
        ("uint16", "65535", 65535),
        ("uint32", "0xffffffff", 0xFFFF_FFFF),
        ("bool", True, True),
        ("bool", "false", False),
        ("float64", "1.5", 1.5),
        ("string", "", ""),
        ("string", "gold", "gold"),
        ("bytes", "", b""),
        ("[]int8", "", []),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAQ", bytes(15) + b"\1"),
        ("uuid", "00000000-0000-0000-0000-000000000001", bytes(15) + b"\1"),
    ],
)
def test_a_default_of_every_kind(type_name: str, default: object, value: object) -> None:
    field = {"name": "A", "type": type_name, "default": default}
    assert codec_of(field)().a == value


@pytest.mark.parametrize("type_name", ["string", "bytes", "records", "[]int8"])
def test_null_is_a_default(type_name: str) -> None:
    field = {"name": "A", "type": type_name, "nullableVersions": "0+", "default": "null"}
    assert codec_of(field)().a is None


def test_records_are_null_when_nothing_is_said() -> None:
    assert codec_of({"name": "A", "type": "records", "nullableVersions": "0+"})().a is None
    assert codec_of({"name": "A", "type": "records"})().a == b""


def test_records_are_a_slice_of_the_payload() -> None:
    wire = bytes.fromhex("00000002aabb")
    decoded = codec_of({"name": "A", "type": "records"}).decode(wire)
    assert isinstance(decoded.a, memoryview)
    assert decoded.a.obj is wire
    assert decoded.encode()[-1] is decoded.a


# Keys of lists

PAIR = [
    {"name": "Kind", "type": "int8", "mapKey": True, "about": "Kind."},
    {"name": "Name", "type": "string", "mapKey": True, "about": "Name."},
    {"name": "Value", "type": "int8", "about": "Value."},
]


def test_a_list_with_a_key_finds_its_elements_and_keeps_their_order() -> None:
    module = module_of(load_api({"name": "A", "type": "[]Pair", "fields": PAIR}))
    pairs = [module.Pair(2, "x", 1), module.Pair(1, "x", 2), module.Pair(2, "y", 3)]
    message = module.Example(module.PairCollection(pairs))
    decoded = module.Example.decode(encoded(message))
    assert decoded == message
    assert isinstance(decoded.a, KeyedList)
    assert list(decoded.a) == pairs
    assert decoded.a.find((1, "x")) == pairs[1]
    assert decoded.a.find((1, "y")) is None


def test_elements_with_one_key_are_kept_as_kafka_does() -> None:
    module = module_of(load_api({"name": "A", "type": "[]Pair", "fields": PAIR}))
    pairs = [module.Pair(1, "x", 1), module.Pair(2, "x", 2), module.Pair(1, "x", 3)]
    decoded = module.Example.decode(encoded(module.Example(module.PairCollection(pairs))))
    assert [one.value for one in decoded.a] == [1, 2, 3]
    assert decoded.a.find((1, "x")) == pairs[0]
    assert decoded.a.find_all((1, "x")) == [pairs[0], pairs[2]]


def test_a_nullable_list_with_a_key() -> None:
    field = {"name": "A", "type": "[]Pair", "nullableVersions": "0+", "fields": PAIR}
    module = module_of(load_api(field))
    assert module.Example().a == []
    assert module.Example.decode(b"\xff" * 4).a is None
    assert module.Example.decode(bytes(4)).a == []


class Words(KeyedList[str, int]):
    """Finds words by their length."""

    KEY = len  # type: ignore[assignment]


CHANGES: dict[str, Any] = {
    "append": lambda words: words.append("four"),
    "extend": lambda words: words.extend(["four", "five5"]),
    "insert": lambda words: words.insert(0, "two"),
    "remove": lambda words: words.remove("one"),
    "pop": lambda words: words.pop(),
    "pop first": lambda words: words.pop(0),
    "clear": lambda words: words.clear(),
    "reverse": lambda words: words.reverse(),
    "sort": lambda words: words.sort(key=lambda word: word[-1]),
    "set": lambda words: words.__setitem__(0, "eleven"),
    "set a slice": lambda words: words.__setitem__(slice(0, 2), ["a"]),
    "delete": lambda words: words.__delitem__(0),
    "add": lambda words: words.__iadd__(["seven"]),
    "repeat": lambda words: words.__imul__(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_index_follows_every_change(change: str) -> None:
    words = Words(["one", "six", "three"])
    assert words.find(3) == "one"
    CHANGES[change](words)
    assert isinstance(words, Words)
    for length in range(8):
        assert words.find_all(length) == [word for word in words if len(word) == length]


def test_a_copy_of_a_keyed_list_has_an_index_of_its_own() -> None:
    words = Words(["one"])
    assert words.find(3) == "one"
    for made in (copy.copy(words), copy.deepcopy(words)):
        made.append("two")
        assert (made.find_all(3), words.find_all(3)) == (["one", "two"], ["one"])


# Structs of several places


def test_a_struct_of_several_places_is_one_class() -> None:
    shared = {
        "name": "Point",
        "versions": "0+",
        "fields": [INNER, {"name": "C", "type": "int8", "versions": "1+"}],
    }
    module = module_of(
        load_api(
            {"name": "A", "type": "Point"},
            {"name": "More", "type": "[]Point", "versions": "1+"},
            commonStructs=[shared, {"name": "Unused", "fields": []}],
            validVersions="0-1",
        )
    )
    message = module.Example(module.Point(1, 2), [module.Point(3, 4)])
    assert encoded(message, 1).hex() == "0102" + "00000001" + "0304"
    assert module.Example.decode(encoded(message, 1), 1) == message
    assert not hasattr(module, "Unused")


def test_shared_structs_hold_one_another() -> None:
    module = module_of(
        load_api(
            {"name": "A", "type": "Outer"},
            commonStructs=[
                {"name": "Outer", "fields": [{"name": "Parts", "type": "[]Inner"}]},
                {"name": "Inner", "fields": [INNER]},
            ],
        )
    )
    assert encoded(module.Example(module.Outer([module.Inner(5)]))).hex() == "00000001" + "05"


def test_a_field_of_versions_that_are_gone_is_left_out() -> None:
    codec = codec_of(
        {"name": "Old", "type": "int8", "versions": "0-2"}, {"name": "A", "type": "int8"}, validVersions="3-4"
    )
    assert encoded(codec(a=1), 3) == b"\1"
    assert not hasattr(codec(), "old")


# What a definition says about the message

HEADERS = [
    ("h.json", definition({"name": "Key", "type": "int16"}, id=None, type="header", name="RequestHeader",
                          validVersions="0-2", flexibleVersions="2+")),
    ("r.json", definition({"name": "Number", "type": "int32"}, id=None, type="header", name="ResponseHeader",
                          validVersions="0-1", flexibleVersions="1+")),
]  # fmt: skip


def api(name: str, kind: str, key: int, **keys: Any) -> tuple[str, str]:
    text = definition({"name": "A", "type": "int8"}, id=None, apiKey=key, name=name, type=kind, **keys)
    return f"{name}.json", text


def test_a_header_s_version_follows_from_the_message_s() -> None:
    flexible = {"validVersions": "0-3", "flexibleVersions": "2+"}
    protocol = load_protocol(
        "example",
        [
            *HEADERS,
            api("AskRequest", "request", 5, **flexible),
            api("AskResponse", "response", 5, **flexible),
            api("ShutRequest", "request", 7, validVersions="0-1"),
            api("VersionsResponse", "response", 18, **flexible),
        ],
    )
    messages = {message.root.name: message for message in protocol.messages}

    def version(name: str, of: int) -> int:
        header = header_of(protocol, messages[name])
        assert header is not None
        return header_version(header, messages[name], of)

    assert [version("AskRequest", of) for of in range(4)] == [1, 1, 2, 2]
    assert [version("AskResponse", of) for of in range(4)] == [0, 0, 1, 1]
    assert [version("ShutRequest", of) for of in range(2)] == [0, 1]
    assert [version("VersionsResponse", of) for of in range(4)] == [0, 0, 0, 0]
    assert header_of(protocol, messages["RequestHeader"]) is None

    module: dict[str, Any] = {}
    exec(package.files(protocol)["headers.py"], module)
    assert [module["request_header_version"](5, of) for of in range(4)] == [1, 1, 2, 2]
    assert [module["response_header_version"](18, of) for of in range(4)] == [0, 0, 0, 0]
    for of in (-1, 4):
        with pytest.raises(UnsupportedVersion, match=f"the api key 5 has no version {of}"):
            module["response_header_version"](5, of)


def test_a_protocol_without_headers_has_no_module_for_them() -> None:
    assert "headers.py" not in package.files(load_protocol("example", [api("A", "request", 1)]))


def test_a_message_without_versions_leaves_its_key() -> None:
    removed = '{"apiKey": 4, "type": "request", "name": "GoneRequest", "validVersions": "none"}'
    protocol = load_protocol("example", [("gone.json", removed), api("ARequest", "request", 5)])
    assert [message.root.name for message in protocol.messages] == ["ARequest"]
    (gone,) = protocol.removed
    assert isinstance(gone, Removed)
    assert (gone.name, gone.id, gone.kind) == ("GoneRequest", 4, Kind.REQUEST)
    assert "gone_request.py" not in package.files(protocol)


def test_what_a_definition_says_is_kept() -> None:
    message = load_api(
        {"name": "A", "type": "string", "entityType": "topicName", "zeroCopy": True},
        validVersions="0-5", deprecatedVersions="0-2", latestVersionUnstable=True, listeners=["broker"],
    )  # fmt: skip
    assert str(message.deprecated) == "0-2"
    assert message.is_latest_unstable
    assert message.listeners == ("broker",)
    assert message.root.fields[0].entity_type == "topicName"


def test_messages_without_a_key_have_no_id() -> None:
    message = load_api({"name": "A", "type": "int8"}, apiKey=None, type="data")
    assert message.id is None
    assert not hasattr(module_of(message).Example, "ID")


def test_flags_and_tags_may_be_strings_and_a_key_may_say_the_same_twice() -> None:
    text = definition({"name": "A", "type": "int8", "ignorable": "true", "versions": "0+"})
    protocol = load_protocol(
        "example", [("a.json", text.replace('"versions"', '"versions": "0+", "versions"'))]
    )
    assert protocol.messages[0].root.fields[0].is_ignorable
