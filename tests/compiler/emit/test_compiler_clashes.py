"""What the messages of one protocol, and the code made of them, cannot share: ids, names, modules."""

import ast
import builtins
from pathlib import Path

import pytest

from tank_compiler.emit import module as emit_module
from tank_compiler.emit import package as emit_package
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.names import RESERVED_STRUCTS, STRUCT_NAME
from tank_protos.wire import message as wire
from tank_protos.wire import tagged
from tests.support.compiled import definition, load_api

GENERATED = Path(__file__).parents[3] / "protos/tank_protos/generated/tank"
U8 = {"name": "Size", "type": "uint8"}
INNER = {"name": "Deep", "type": "uint8", "about": "A field."}


def test_two_messages_with_one_id() -> None:
    texts = [("a.json", definition(U8, name="First")), ("b.json", definition(U8, name="Second"))]
    with pytest.raises(DefinitionError) as caught:
        load_protocol("example", texts)
    assert str(caught.value) == "b.json:1: Second: the request First has the id 1, too; give it another one"


def test_a_request_and_its_response_share_an_id() -> None:
    texts = [
        ("a.json", definition(U8, name="Ask")),
        ("b.json", definition(U8, name="Answer", type="response")),
    ]
    assert [message.root.name for message in load_protocol("example", texts).messages] == ["Ask", "Answer"]


def test_two_messages_with_structs_of_one_name_keep_them_in_their_modules() -> None:
    inner = {"name": "A", "type": "[]Thing", "count": "uint8", "fields": [INNER]}
    alone = {"name": "B", "type": "Other", "fields": [INNER]}
    texts = [
        ("a.json", definition(inner, alone, name="First")),
        ("b.json", definition(inner, name="Second", id=2)),
    ]
    package = emit_package.files(load_protocol("example", texts))["__init__.py"]
    assert '"Other": "first"' in package
    assert "Thing" not in package


def test_a_message_called_as_a_struct_of_another() -> None:
    inner = {"name": "A", "type": "Second", "fields": [INNER]}
    texts = [("a.json", definition(inner, name="First")), ("b.json", definition(U8, name="Second", id=2))]
    package = emit_package.files(load_protocol("example", texts))["__init__.py"]
    assert '"Second": "second"' in package
    assert '"Second": "first"' not in package


def test_two_messages_of_one_module() -> None:
    texts = [("a.json", definition(U8, name="TopicID")), ("b.json", definition(U8, name="TopicId", id=2))]
    with pytest.raises(DefinitionError) as caught:
        load_protocol("example", texts)
    expected = (
        "b.json:1: TopicId: the message at a.json:1 becomes the module 'topic_id', too; rename one of them"
    )
    assert str(caught.value) == expected


@pytest.mark.parametrize(("name", "module"), [("ById", "by_id"), ("Import", "import")])
def test_a_message_whose_module_cannot_be(name: str, module: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_protocol("example", [("a.json", definition(U8, name=name))])
    expected = f"a.json:1: {name}: a module cannot be called '{module}' in generated code; rename the message"
    assert str(caught.value) == expected


def test_no_struct_can_have_a_name_that_generated_modules_use() -> None:
    """Holds the list of such names against what this repository's generated modules import and catch."""
    used = set()
    for path in GENERATED.glob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and ".generated." not in node.module:
                used |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Name) and hasattr(builtins, node.id):
                used.add(node.id)
    assert {name for name in used if STRUCT_NAME.fullmatch(name)} - {"None"} <= RESERVED_STRUCTS


def test_no_variable_hides_a_function_that_generated_code_calls() -> None:
    """Fields of a flexible message that are called as those functions, in their place and with a tag."""
    verbs = ("check_", "no_", "read_", "unencodable", "write_", "wrong_")
    called = {name for module in (tagged, wire) for name in vars(module) if name.startswith(verbs)}
    called |= {"starmap", "pack", "unpack_from", "encode_varint", "read_varint"}
    fields = [{"name": name.title().replace("_", ""), "type": "string"} for name in sorted(called)]
    with_tag = {"name": "Tagged", "type": "Inner", "versions": "1+", "taggedVersions": "1+", "tag": 0}
    shared = [{"name": "Inner", "versions": "1+", "fields": fields}]
    message = load_api(*fields, with_tag, commonStructs=shared, validVersions="0-1", flexibleVersions="1+")
    tree = ast.parse(emit_module.module(message, "example.json"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Name)]
    variables = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    assert {"pack_", "read_tag_"} <= variables
    assert not variables & called
