"""The protocol reference: numbers as the protocol has them, and versions in words."""

from typing import Any

from tank_compiler.emit import module, package
from tank_compiler.schema.loading import load_protocol
from tank_compiler.tools import reference
from tests.support.compiled import definition, load_api

NAME = {"name": "Name", "type": "string", "versions": "1+", "nullableVersions": "2", "about": "Its name."}


def pages(*definitions: str) -> dict[str, str]:
    texts = [(f"{at}.json", text) for at, text in enumerate(definitions)]
    return reference.pages(load_protocol("example", texts))


def api(*fields: dict[str, Any], **keys: Any) -> str:
    """A definition with an api key, in versions 0 to 2 of which the last is flexible."""
    stated = {"id": None, "apiKey": 18, "validVersions": "0-2", "flexibleVersions": "2+"}
    return definition(*fields, **(stated | keys))


def test_an_api_key_is_a_plain_number() -> None:
    found = pages(api(NAME))
    assert set(found) == {"README.md", "018_example.md"}
    assert found["018_example.md"].startswith("# 18: Example\n")
    assert "| Key | Message | Kind | Versions | What it is for |" in found["README.md"]
    assert "| 18 | [Example](018_example.md) | request | 0-2 | An example. |" in found["README.md"]
    assert "definitions.md#on-the-wire-in-kafkas-messages" in found["README.md"]


def test_the_id_of_a_frame_is_shown_as_a_dump_has_it() -> None:
    found = pages(definition({"name": "A", "type": "uint8"}, id=64))
    assert found["064_example.md"].startswith("# 64 (0x40): Example\n")
    assert "| Id | Message | Kind | What it is for |" in found["README.md"]
    assert "| 64 (0x40) | [Example](064_example.md) |" in found["README.md"]
    assert "error bytes" in found["README.md"]


def test_a_message_without_a_number_has_a_page_of_its_name() -> None:
    found = pages(api(NAME), api(NAME, apiKey=None, type="data", name="Other"))
    assert found["other.md"].startswith("# Other\n")
    assert "|  | [Other](other.md) | data |" in found["README.md"]


def test_one_version_is_no_versions() -> None:
    page = pages(api(NAME))["018_example.md"]
    assert "Big-endian; versions 0-2. Version 2 is flexible: compact lengths" in page
    assert "length, UTF-8; null in version 2 | versions 1-2 | Its name." in page
    tagged = NAME | {"versions": "2+", "taggedVersions": "2+", "tag": 4}
    page = pages(api(tagged, flexibleVersions="1+", deprecatedVersions="0"))["018_example.md"]
    assert "Versions 1-2 are flexible" in page
    assert "Version 0 is deprecated." in page
    assert "| version 2 with the tag 4 | Its name." in page


def test_one_version_is_no_versions_in_generated_code_either() -> None:
    fields = [NAME, {"name": "Size", "type": "int8", "versions": "2+", "about": "Its size."}]
    text = module.module(load_api(*fields, validVersions="0-2", flexibleVersions="2+"), "example.json")
    assert '"""Its name. Versions 1-2."""' in text
    assert '"""Its size. Version 2."""' in text


def test_the_tables_by_number_say_which_number() -> None:
    for text, number in ((api(NAME), "api key"), (definition({"name": "A", "type": "uint8"}), "frame id")):
        tables = package.files(load_protocol("example", [("a.json", text)]))["by_id.py"]
        assert tables.startswith(f'"""The messages of example by {number}.')
