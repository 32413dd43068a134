"""`tank-protos verify`: what passes, what differs, what is no vector, what is shown."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tank_compiler.emit.generated_import import imported
from tank_compiler.tools.cli import main
from tests.support.compiled import definition

FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "Name", "type": "string", "nullableVersions": "1+"},
    {"name": "Key", "type": "uuid"},
    {"name": "Data", "type": "bytes"},
    {"name": "Ratio", "type": "float64"},
    {"name": "Things", "type": "[]Thing", "fields": [{"name": "Id", "type": "int32", "mapKey": True}]},
    {"name": "Late", "type": "bool", "versions": "1+", "taggedVersions": "1+", "tag": 0},
)
FORM: dict[str, Any] = {
    "name": "gold",
    "key": "AAECAwQFBgcICQoLDA0O_w",
    "data": "+/8=",
    "ratio": 1.5,
    "things": [{"id": 1}, {"id": 1}],
}
PLAIN = "0004676f6c64" + "000102030405060708090a0b0c0d0eff" + "00000002fbff" + "3ff8000000000000"
PLAIN += "00000002" + "00000001" * 2
FLEXIBLE = "05676f6c64" + "000102030405060708090a0b0c0d0eff" + "03fbff" + "3ff8000000000000"
FLEXIBLE += "03" + "0000000100" * 2

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command on vectors: its exit code and its lines."""
    folder = tmp_path / "4.1-like"
    folder.mkdir()
    keys = {"id": None, "apiKey": 1, "validVersions": "0-1", "flexibleVersions": "1+"}
    (folder / "Example.json").write_text(definition(*FIELDS, **keys))

    def verified(*vectors: object, options: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        lines = [one if isinstance(one, str) else json.dumps(one) for one in vectors]
        (tmp_path / "vectors.jsonl").write_text("\n".join(lines) + "\n")
        done = CliRunner().invoke(main, ["verify", str(folder), str(tmp_path / "vectors.jsonl"), *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output.splitlines()

    return verified


def vector(version: int, wire: str, **form: object) -> dict[str, object]:
    return {"name": "Example", "version": version, "json": FORM | form, "hex": wire}


def test_vectors_that_pass(run: Run) -> None:
    tagged = vector(1, FLEXIBLE + "01000101", late=True)
    assert run(vector(0, PLAIN), vector(1, FLEXIBLE + "00"), tagged) == (0, ["3 passed, 0 failed"])


def test_null_passes_where_it_is_known(run: Run) -> None:
    null = "00" + FLEXIBLE[10:] + "00"
    assert run(vector(1, null, name=None)) == (0, ["1 passed, 0 failed"])


def test_unknown_tags_are_kept_and_said(run: Run) -> None:
    inside = FLEXIBLE[:-2] + "01" + "0502aabb" + "01" + "0900"
    said = "tagged fields that no definition has, kept and written back: 2"
    assert run(vector(1, inside)) == (0, [said, "1 passed, 0 failed"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"form": {"name": "silver"}},
            ['decoding: name is "gold" instead of "silver"', "encoding: from byte 1"],
        ),
        ({"form": {"ratio": 2}}, ["decoding: ratio is 1.5 instead of 2", "encoding: from byte 28"]),
        (
            {"form": {"things": []}},
            ["decoding: things has 2 elements instead of 0", "encoding: from byte 39"],
        ),
        (
            {"form": {"things": [{"id": 1}, {"id": 2}]}},
            [
                "decoding: things[1].id is 1 instead of 2",
                "encoding: from byte 47 on 02 instead of 01 (48 bytes",
            ],
        ),
        ({"form": {"ratio": True}}, ["decoding: ratio is 1.5 instead of true"]),
        (
            {"form": {"late": False}},
            ["decoding: late is not there", "encoding: FormError: Example.late: this"],
        ),
        ({"form": {"data": "?"}}, ["decoding: data is", "encoding: FormError: Example.data: no base64"]),
        (
            {"form": {"key": "AA"}},
            ["decoding: key is", "encoding: OutOfRange: Example.Key has a length of 1"],
        ),
        (
            {"form": {"name": 1}},
            ["decoding: name is", "encoding: FormError: Example.name: expected a string"],
        ),
        (
            {"form": {"things": 1}},
            ["decoding: things is", "encoding: FormError: Example.things: expected a list"],
        ),
        (
            {"form": {"things": [{"id": "x"}]}},
            ["decoding: things has 2", "encoding: FormError: Example.things[0].id: expected a whole number"],
        ),
        (
            {"form": {"things": [1]}},
            ["decoding: things", "encoding: FormError: Example.things[0]: expected an"],
        ),
        ({"form": {"name": None}}, ["decoding: name is", "encoding: OutOfRange: Example.Name is null"]),
        (
            {"hex": PLAIN[:-2]},
            ["decoding: Truncated: Example ends", "encoding: from byte 47 on 01 instead of no"],
        ),
        (
            {"hex": PLAIN + "00"},
            ["decoding: TrailingBytes: 1 bytes follow", "encoding: from byte 48 on nothing"],
        ),
    ],
)
def test_what_differs_is_said(run: Run, change: dict[str, Any], expected: list[str]) -> None:
    one = vector(0, change.get("hex", PLAIN), **change.get("form", {}))
    code, lines = run(one, vector(0, PLAIN))
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed"
    for line, part in zip(lines, expected, strict=False):
        assert line.startswith(f"vectors.jsonl:1: Example version 0: {part}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "vectors.jsonl:1: no JSON: "),
        ("[1]", 'vectors.jsonl:1: expected {"name": ..., "version": ..., "json": {...}, "hex": "..."}'),
        (
            '{"name": 1}',
            "vectors.jsonl:1: expected a string 'name', a whole number 'version' and a string 'hex'",
        ),
        (
            '{"name": "Example", "version": 0, "json": {}, "hex": "xy"}',
            "vectors.jsonl:1: 'hex' has other characters than pairs of hexadecimal digits",
        ),
        (
            '{"name": "Sample", "version": 0, "json": {}, "hex": ""}',
            "vectors.jsonl:1: Sample version 0: no definition is called Sample",
        ),
        (
            '{"name": "Example", "version": 9, "json": {}, "hex": ""}',
            "vectors.jsonl:1: Example version 9: Example has no version 9; known: 0-1",
        ),
    ],
)
def test_what_is_no_vector_fails(run: Run, line: str, expected: str) -> None:
    code, lines = run(line)
    assert code == 1
    assert lines[0].startswith(expected)
    assert lines[-1] == "0 passed, 1 failed"


def test_only_the_first_failures_are_shown(run: Run) -> None:
    code, lines = run(*["[]"] * 5, options=("--show", "2"))
    assert code == 1
    assert [line.split(": ")[0] for line in lines[:2]] == ["vectors.jsonl:1", "vectors.jsonl:2"]
    assert lines[2:] == ["... and 3 more; --show 5 shows them all", "0 passed, 5 failed"]


def test_a_file_without_vectors_is_no_success(run: Run) -> None:
    code, lines = run("")
    assert code == 1
    assert "has no vectors; give a file with one on each line" in lines[-1]


def test_what_was_imported_is_gone_again(run: Run) -> None:
    before = set(sys.path), {name for name in sys.modules if "tried" in name}
    run(vector(0, PLAIN))
    assert (set(sys.path), {name for name in sys.modules if "tried" in name}) == before


def test_it_is_the_generated_code_that_is_tried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in what is generated shows."""

    def broken(protocol: Any) -> Any:
        for message in protocol.messages:
            message.little_endian = True
        return imported(protocol)

    monkeypatch.setattr("tank_compiler.tools.cli_verify.imported", broken)
    assert run(vector(0, PLAIN))[1][-1] == "0 passed, 1 failed"
