"""Messages as types of fields in other messages: one class for all of them, with all of its versions."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tank_compiler.emit import package
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_protocol
from tank_compiler.tools import reference
from tests.support.compiled import definition

MONEY = definition(
    {"name": "Cents", "type": "uint32"},
    {"name": "Currency", "type": "str8", "versions": "1+", "ignorable": True},
    id=None,
    type="data",
    name="Money",
    byteOrder="little",
    validVersions="0-2",
)
PRICE = definition(
    {"name": "Price", "type": "Money"},
    {"name": "Others", "type": "[]Money", "count": "rest"},
    byteOrder="little",
    name="Offer",
    validVersions="1-2",
)
BILL = definition({"name": "Sum", "type": "Money"}, byteOrder="little", id=2, name="Bill")


def protocol(*texts: str) -> Any:
    return load_protocol("example", [(f"{at}.json", text) for at, text in enumerate(texts)])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The generated package of the three messages."""
    for name, text in package.files(protocol(MONEY, PRICE, BILL), "shop").items():
        (tmp_path / "shop").mkdir(exist_ok=True)
        (tmp_path / "shop" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("shop")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_a_message_is_one_class_wherever_it_is_a_field(shop: Any) -> None:
    offer = shop.Offer(shop.Money(5, "EUR"), [shop.Money(7, "USD")])
    wire = b"".join(offer.encode(1))
    assert wire == bytes.fromhex("05000000 03455552 07000000 03555344")
    found = shop.Offer.decode(wire, 1)
    assert found == offer
    assert type(found.price) is type(found.others[0]) is shop.Money
    assert b"".join(shop.Bill(found.price).encode()) == bytes.fromhex("05000000")
    assert shop.Bill.decode(bytes.fromhex("05000000")).sum == shop.Money(5)


def test_a_message_that_lacks_its_first_versions_still_has_their_fields(shop: Any) -> None:
    old = definition(
        {"name": "Old", "type": "uint8", "versions": "0"},
        {"name": "New", "type": "uint8", "versions": "1+"},
        id=None,
        type="data",
        name="Part",
        byteOrder="little",
        validVersions="0-1",
    )
    whole = definition({"name": "Part", "type": "Part"}, byteOrder="little", validVersions="1")
    [part] = [m for m in protocol(old, whole).messages if m.root.name == "Part"]
    [example] = [m for m in protocol(old, whole).messages if m.root.name == "Example"]
    names = [field.name for field in example.structs[0].fields]
    assert names == [field.name for field in part.root.fields] == ["Old", "New"]


def test_the_package_has_the_class_from_the_messages_own_module() -> None:
    files = package.files(protocol(MONEY, PRICE, BILL), "shop")
    assert "from shop.money import Money" in files["offer.py"]
    assert "class Money" in files["money.py"]
    assert not any("class Money" in text for name, text in files.items() if name != "money.py")
    assert '"Money": "money"' in files["__init__.py"]


def test_a_message_needs_all_versions_of_the_fields_that_use_it() -> None:
    late = definition({"name": "Sum", "type": "Money"}, byteOrder="little", validVersions="0-3")
    with pytest.raises(DefinitionError, match="'Money' is there in versions 0-2, this field in 0-3"):
        protocol(MONEY, late)


def test_a_message_of_the_other_byte_order_is_refused() -> None:
    big = definition({"name": "Sum", "type": "Money"}, byteOrder="big")
    with pytest.raises(DefinitionError, match="the other byte order"):
        protocol(MONEY, big)


def test_a_message_cannot_hold_itself() -> None:
    keys: dict[str, Any] = {"id": None, "type": "data", "byteOrder": "little"}
    one = definition({"name": "Other", "type": "Two"}, name="One", **keys)
    two = definition({"name": "Other", "type": "One"}, name="Two", **keys)
    with pytest.raises(DefinitionError):
        protocol(one, two)
    with pytest.raises(DefinitionError, match="has no fields"):
        protocol(definition({"name": "Other", "type": "One"}, name="One", **keys))


def test_only_data_without_an_id_can_be_a_field() -> None:
    notice = definition({"name": "A", "type": "uint8"}, id=7, type="data", name="Money", byteOrder="little")
    with pytest.raises(DefinitionError, match="'Money' has no fields"):
        protocol(notice, BILL)


def test_the_reference_shows_versions_of_a_protocol_with_frames_of_its_own() -> None:
    text = definition({"name": "A", "type": "uint8"}, id=302, idType="uint32", validVersions="0-7")
    pages = reference.pages(load_protocol("iggy", [("a.json", text)]))
    assert "| 302 (0x12e) | [Example](302_example.md) | request | 0-7 | An example. |" in pages["README.md"]
    assert "(../iggy.md)" in pages["README.md"]
