"""What the compiler makes of definitions that TANK's own messages do not need, and of a whole repository."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_compiler.emit import module as emit_module
from tank_compiler.schema.loading import load_message
from tank_compiler.tools import corpus
from tank_compiler.tools.cli import main
from tank_compiler.tools.interpreter import lay_out
from tank_protos.wire.errors import OutOfRange, TrailingBytes, Truncated, UnsupportedVersion
from tests.support.compiled import compiled, definition, load, module_of
from tests.support.examples import examples
from tests.support.values.schema_values import as_values, values

ROOT = Path(__file__).parents[3]


def encoded(message: Any, version: int = 0) -> bytes:
    return b"".join(message.encode(version))


def test_integers_are_big_endian_unless_said() -> None:
    field = {"name": "A", "type": "int32", "default": "-2"}
    assert encoded(compiled(field)()) == b"\xff\xff\xff\xfe"
    assert encoded(compiled(field, byteOrder="little")()) == b"\xfe\xff\xff\xff"


@pytest.mark.parametrize(
    ("type_name", "value", "wire"),
    [
        ("int8", -1, "ff"),
        ("uint8", 255, "ff"),
        ("int16", -(1 << 15), "8000"),
        ("uint16", (1 << 16) - 1, "ffff"),
        ("int32", -1, "ffffffff"),
        ("uint32", 1, "00000001"),
        ("int64", -(1 << 63), "8000000000000000"),
        ("uint64", (1 << 64) - 1, "ffffffffffffffff"),
        ("float32", -1.5, "bfc00000"),
        ("float64", 1.5, "3ff8000000000000"),
        ("bool", True, "01"),
        ("varint", 300, "ac02"),
        ("str8", "é", "02c3a9"),
        ("str16", "é", "0002c3a9"),
        ("str32", "é", "00000002c3a9"),
    ],
)
def test_each_type_has_its_form(type_name: str, value: object, wire: str) -> None:
    codec = compiled({"name": "A", "type": type_name})
    assert encoded(codec(a=value)).hex() == wire
    assert codec.decode(bytes.fromhex(wire)).a == value


def test_a_field_is_there_in_its_versions_only() -> None:
    codec = compiled(
        {"name": "A", "type": "uint8"},
        {"name": "B", "type": "uint8", "versions": "1-2", "default": "7"},
        {"name": "C", "type": "str8", "versions": "2+"},
        validVersions="0-3",
    )
    assert encoded(codec(a=1), 0).hex() == "01"
    assert encoded(codec(a=1), 1).hex() == "0107"
    assert encoded(codec(a=1, b=9, c="x"), 2).hex() == "01090178"
    assert encoded(codec(a=1, c="x"), 3).hex() == "010178"
    assert codec.decode(bytes.fromhex("01"), 0) == codec(a=1, b=7, c="")
    assert codec.decode(bytes.fromhex("010178"), 3) == codec(a=1, b=7, c="x")


def test_a_value_without_a_place_in_its_version_is_refused() -> None:
    codec = compiled(
        {"name": "A", "type": "uint8"}, {"name": "B", "type": "uint8", "versions": "1+"}, validVersions="0-1"
    )
    with pytest.raises(UnsupportedVersion) as caught:
        codec(a=1, b=2).encode(0)
    assert str(caught.value) == "Example.B is set, but version 0 has no place for it; leave its default"


def test_a_struct_without_a_place_in_its_version_is_refused() -> None:
    inner = [{"name": "B", "type": "uint8", "about": "B."}]
    module = module_of(
        load({"name": "A", "type": "Thing", "versions": "1+", "fields": inner}, validVersions="0-1")
    )
    assert encoded(module.Example(module.Thing(2)), 1) == b"\2"
    assert encoded(module.Example(), 0) == b""
    with pytest.raises(UnsupportedVersion, match=r"Example\.A is set, but version 0 has no place for it"):
        module.Example(module.Thing(2)).encode(0)


def test_a_version_that_is_not_valid_is_refused() -> None:
    codec = compiled({"name": "A", "type": "uint8"}, validVersions="1-2")
    for version in (0, 3):
        with pytest.raises(UnsupportedVersion, match=f"Example has no version {version}; known: 1-2"):
            codec.decode(b"\0", version)
        with pytest.raises(UnsupportedVersion):
            codec().encode(version)
        with pytest.raises(UnsupportedVersion):
            codec.read(memoryview(b"\0"), 0, version)


def test_a_version_field_decides_for_itself() -> None:
    codec = compiled(
        {"name": "Version", "type": "uint8"},
        {"name": "A", "type": "uint8", "versions": "1+"},
        validVersions="0-1",
        versionField="Version",
    )
    assert codec.decode(b"\0").a == 0
    assert codec.decode(b"\1\5").a == 5
    with pytest.raises(UnsupportedVersion):
        codec.decode(b"\2\5")
    with pytest.raises(UnsupportedVersion):
        codec(version=2).encode()


def test_null_has_all_bits_of_the_length_set() -> None:
    codec = compiled(
        {"name": "A", "type": "str16", "nullableVersions": "0+", "default": "null"},
        {"name": "B", "type": "bytes", "length": "uint32", "nullableVersions": "0+", "default": "null"},
        {"name": "C", "type": "[]uint8", "count": "uint16", "nullableVersions": "0+", "default": "null"},
    )
    assert encoded(codec()).hex() == "ffff" + "ffffffff" + "ffff"
    assert codec.decode(bytes.fromhex("ffffffffffffffff")) == codec(a=None, b=None, c=None)
    full = codec(a="x", b=b"y", c=[3])
    assert encoded(full).hex() == "000178" + "0000000179" + "000103"
    assert codec.decode(encoded(full)) == full


def test_null_in_a_version_that_knows_none_is_refused() -> None:
    codec = compiled({"name": "A", "type": "str16", "nullableVersions": "1+"}, validVersions="0-1")
    assert encoded(codec(a=None), 1) == b"\xff\xff"
    assert codec.decode(b"\xff\xff", 1).a is None
    with pytest.raises(OutOfRange) as caught:
        codec(a=None).encode(0)
    assert str(caught.value) == "Example.A is null, which version 0 doesn't allow; give it a value"
    with pytest.raises(Truncated):
        codec.decode(b"\xff\xff", 0)


def test_a_length_that_would_mean_null_is_refused() -> None:
    codec = compiled({"name": "A", "type": "str16", "nullableVersions": "0+"})
    with pytest.raises(OutOfRange):
        codec(a="x" * 65535).encode()


def test_a_condition_reaches_into_the_enclosing_struct() -> None:
    inner = [
        {"name": "B", "type": "uint8", "about": "B."},
        {"name": "C", "type": "uint8", "when": "A == 1 and B != 0 or A & 4", "about": "C."},
    ]
    codec = compiled(
        {"name": "A", "type": "uint8"},
        {"name": "Things", "type": "[]Thing", "count": "uint8", "fields": inner},
    )
    for wire, c in {"01010203": 3, "010100": 0, "020109": 0, "05010007": 7}.items():
        decoded = codec.decode(bytes.fromhex(wire))
        assert decoded.things[0].c == c
        assert encoded(decoded).hex() == wire


def test_a_struct_can_stand_alone() -> None:
    inner = [{"name": "B", "type": "str8", "about": "B."}, {"name": "C", "type": "uint16", "about": "C."}]
    fields: list[dict[str, Any]] = [
        {"name": "Thing", "type": "Thing", "fields": inner},
        {"name": "D", "type": "uint8"},
    ]
    module = module_of(load(*fields))
    message = module.Example(module.Thing("x", 2), 3)
    assert encoded(message).hex() == "01780002" + "03"
    assert module.Example.decode(encoded(message)) == message
    assert module.Example() == module.Example(module.Thing("", 0), 0)


def test_a_kept_length_must_be_right() -> None:
    codec = compiled({"name": "A", "type": "bytes", "length": "varint", "keepPrefix": True})
    assert encoded(codec(a=b"\x02hi")) == b"\x02hi"
    for wrong in (b"", b"hi", b"\x03hi", b"\x80"):
        with pytest.raises(OutOfRange, match=r"Example\.A must begin with its own length"):
            codec(a=wrong).encode()


def test_a_marker_and_a_kept_length_follow_the_byte_order() -> None:
    fields: list[dict[str, Any]] = [
        {"name": "A", "type": "bool", "marker": {"type": "uint16", "value": "0x0102"}},
        {"name": "B", "type": "bytes", "length": "uint16", "keepPrefix": True},
    ]
    for order, wire in {"little": "0201" + "010009", "big": "0102" + "000109"}.items():
        codec = compiled(*fields, byteOrder=order)
        found = codec.decode(bytes.fromhex(wire))
        assert (found.a, bytes(found.b).hex()) == (True, wire[4:])
        assert encoded(found).hex() == wire


def test_a_length_from_a_field_must_agree_with_it() -> None:
    codec = compiled({"name": "Size", "type": "varint"}, {"name": "A", "type": "bytes", "lengthFrom": "Size"})
    assert encoded(codec(size=2, a=b"hi")) == b"\x02hi"
    with pytest.raises(OutOfRange, match=r"Example\.A has a length of 2; the field holds 3"):
        codec(size=3, a=b"hi").encode()


def test_bytes_of_a_fixed_length_are_never_padded() -> None:
    codec = compiled({"name": "A", "type": "bytes", "length": 4})
    assert encoded(codec(a=b"abcd")) == b"abcd"
    for wrong in (b"abc", b"abcde"):
        with pytest.raises(OutOfRange):
            codec(a=wrong).encode()


NOTE = {"about": "A field."}
EVERYTHING = load(
    {"name": "Version", "type": "int16"},
    {"name": "Flags", "type": "uint8"},
    {"name": "Ratio", "type": "float64", "versions": "1+"},
    {"name": "Sure", "type": "bool"},
    {"name": "Note", "type": "str16", "versions": "1-2", "nullableVersions": "2+"},
    {"name": "Numbers", "type": "[]int64", "count": "uint16", "nullableVersions": "1+"},
    {"name": "Sizes", "type": "[]varint", "count": "varint"},
    {"name": "Blob", "type": "bytes", "length": "uint32", "nullableVersions": "0+"},
    {"name": "Kept", "type": "bytes", "length": "uint16", "keepPrefix": True},
    {"name": "Seen", "type": "bool", "marker": {"type": "int16", "value": "-1"}},
    {"name": "Gap", "type": "bool"},  # 0 or 1, so that no marker is seen where none is
    {
        "name": "Things",
        "type": "[]Thing",
        "count": "uint8",
        "when": "Flags & 1 and Seen == 0",
        "fields": [
            {"name": "Name", "type": "str8", "about": "A name."},
            {"name": "Inner", "type": "Inner", "versions": "2+", "about": "An inner.", "fields": [
                {"name": "Depth", "type": "int8"} | NOTE,
                {"name": "More", "type": "[]str8", "count": "uint8", "when": "Depth < 0 or Flags > 9"} | NOTE,
            ]},
        ],
    },
    {"name": "Tail", "type": "[]Pair", "count": "rest", "fields": [
        {"name": "Left", "type": "uint16", "about": "Left."},
        {"name": "Right", "type": "bool", "about": "Right."}
    ]},
    validVersions="0-3",
    versionField="Version",
)  # fmt: skip
CODEC = module_of(EVERYTHING).Example


@settings(examples(120), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_a_message_with_everything_round_trips(data: st.DataObject) -> None:
    version = data.draw(st.integers(0, 3))
    chosen = data.draw(values(EVERYTHING, version))
    payload = lay_out(EVERYTHING, chosen, version)
    decoded = CODEC.decode(payload)
    assert as_values(decoded, EVERYTHING.root) == chosen
    assert encoded(decoded) == payload


@pytest.mark.parametrize(
    "about",
    ['It is called "x"', 'One """ within', '"""', "A path: C:\\new\\N", 'Ends in \\"', "", "One\nand two."],
)
def test_whatever_a_definition_says_about_a_field_can_be_imported(about: str) -> None:
    assert encoded(compiled({"name": "A", "type": "uint8", "about": about})(a=1)) == b"\1"


def test_a_message_with_everything_has_seeds() -> None:
    found = corpus.seeds(EVERYTHING)
    assert {name.split("-v")[1] for name, _ in found} == {"0", "1", "2", "3"}
    for _, payload in found:
        assert encoded(CODEC.decode(payload)) == payload


def test_generated_code_satisfies_the_linter(tmp_path: Path) -> None:
    """Also the code of features that no message here uses yet."""
    target = tmp_path / "example.py"
    target.write_text(emit_module.module(EVERYTHING, "example.json"))
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    # The formatter, which comes behind, sees to lengths of lines and blank ones.
    command = [*ruff, "--ignore", "E501,I001,W", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_pair_of_escapes_is_one_character() -> None:
    text = definition({"name": "A", "type": "str8"}).replace("A field.", r"\u0041\ud83d\ude00")
    assert load_message(text, "example.json").root.fields[0].about == "A\U0001f600"


def test_trailing_bytes_are_counted() -> None:
    with pytest.raises(TrailingBytes, match="2 bytes follow Example"):
        compiled({"name": "A", "type": "uint8"}).decode(b"\0\0\0")


# The command


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one definition, generated."""
    (tmp_path / "protos" / "toy").mkdir(parents=True)
    (tmp_path / "protos/toy/Example.json").write_text(definition({"name": "A", "type": "uint8"}))
    assert run("generate", tmp_path) == (0, "6 files: 6 written, 0 removed\n")
    return tmp_path


def run(command: str, root: Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*command.split(), "--root", str(root)])
    return result.exit_code, result.output


def test_generated_files_are_fresh_until_the_definition_changes(repository: Path) -> None:
    assert run("generate --check", repository) == (0, "6 files are fresh\n")
    (repository / "protos/toy/Example.json").write_text(definition({"name": "B", "type": "uint8"}))
    code, output = run("generate --check", repository)
    assert code == 1
    assert "protos/tank_protos/generated/toy/example.py is not made from its definition" in output
    assert "run: tank-protos generate" in output
    assert run("generate", repository)[0] == 0
    assert run("generate --check", repository)[0] == 0


def test_what_has_no_definition_any_more_is_stale_and_removed(repository: Path) -> None:
    left_over = repository / "protos/tank_protos/generated/toy/gone.py"
    left_over.write_text("")
    code, output = run("generate --check", repository)
    assert code == 1
    assert "protos/tank_protos/generated/toy/gone.py has no definition" in output
    assert run("generate", repository) == (0, "6 files: 0 written, 1 removed\n")
    assert not left_over.exists()


def test_a_protocol_that_is_gone_is_stale_and_removed(repository: Path) -> None:
    shutil.copytree(repository / "protos/toy", repository / "protos/other")
    assert run("generate", repository)[0] == 0
    shutil.rmtree(repository / "protos/other")
    assert "6 files are stale" in run("generate --check", repository)[1]
    assert run("generate", repository) == (0, "6 files: 0 written, 6 removed\n")


def test_a_definition_that_is_not_utf_8_is_named(repository: Path) -> None:
    (repository / "protos/toy/Example.json").write_bytes(b"{\n\xff")
    assert run("generate --check", repository) == (
        1,
        "Error: protos/toy/Example.json:2: not UTF-8; save the file as UTF-8\n",
    )


def test_a_wrong_definition_is_reported_and_writes_nothing(repository: Path) -> None:
    (repository / "protos/toy/Example.json").write_text(definition({"name": "A", "type": "uint9"}))
    before = {path: path.read_bytes() for path in repository.rglob("*.py")}
    code, output = run("generate", repository)
    assert code == 1
    assert "protos/toy/Example.json:2: Example.A: unknown type 'uint9'" in output
    assert {path: path.read_bytes() for path in repository.rglob("*.py")} == before


def test_a_folder_without_definitions_is_explained(tmp_path: Path) -> None:
    code, output = run("generate --check", tmp_path)
    assert code == 1
    assert "give the repository with --root" in output


def test_this_repository_is_fresh() -> None:
    assert run("generate --check", ROOT)[0] == 0


def test_the_reference_names_every_field(repository: Path) -> None:
    shutil.copytree(ROOT / "protos/tank", repository / "protos/tank")
    assert run("generate", repository)[0] == 0
    page = (repository / "docs/protocol/tank/002_consume.md").read_text()
    assert "| `Flags` | uint8 | versions 3-65535 |" in page
    assert "`FirstAvailable` | uint64 | when Flag == 1 or Flag == 0xfa |" in page
