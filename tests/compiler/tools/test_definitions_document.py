"""docs/protocol/definitions.md: its examples compile and verify, and it tells every key and type there is."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tank_compiler.schema.field_types import TEXTS, WIDTHS
from tank_compiler.schema.loading import load_message
from tank_compiler.schema.message_loading import MESSAGE_KEYS
from tank_compiler.schema.schema import Kind
from tank_compiler.schema.struct_loading import COMMON_KEYS, FIELD_KEYS
from tank_compiler.tools.cli import main

DOCUMENT = (Path(__file__).parents[3] / "docs/protocol/definitions.md").read_text()
EXAMPLES = re.findall(r"^```\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES[:2])
def test_the_definitions_compile(example: str) -> None:
    assert load_message(example, "example.json").root.fields


def test_the_vector_passes(tmp_path: Path) -> None:
    definition, vectors = tmp_path / "Reserve.json", tmp_path / "vectors.jsonl"
    definition.write_text(EXAMPLES[1])
    vectors.write_text(EXAMPLES[2])
    done = CliRunner().invoke(main, ["verify", str(definition), str(vectors)])
    assert done.output == "1 passed, 0 failed\n"


def test_the_bytes_in_the_text_are_those_of_the_vector() -> None:
    told = re.search(r"a limit of 500 is: `(.*?)`.*?then `(.*?)`", DOCUMENT, re.DOTALL)
    assert told is not None
    wire = "".join(told.groups()).replace(" ", "")
    assert f'"hex": "{wire}"' in EXAMPLES[2]


@pytest.mark.parametrize(
    "key", sorted(MESSAGE_KEYS | FIELD_KEYS | COMMON_KEYS | TEXTS.keys() | WIDTHS.keys())
)
def test_every_key_and_type_is_told(key: str) -> None:
    assert f"`{key}`" in DOCUMENT


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_told(kind: Kind) -> None:
    assert f"`{kind.value}`" in DOCUMENT
