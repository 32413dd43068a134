"""Tests go through the public face of the product. Each private name of the product that they reach into is
listed here with the reason; a name that is not listed is refused."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.repository.tree import ROOMS, ROOT, python_files

FEWER_THAN = 30

REACHED: Final = {
    "_accumulator": "what a producer holds in memory: its users see only that it is bounded",
    "_calls": "a client's connections and its knowledge of leaders: its users see neither",
    "_cancels": "of the flusher, whose threads are events of the simulation",
    "_connected": "the moment at which a connection is refused, to cancel just then",
    "_idle": "of the flusher, whose threads are events of the simulation and of the fuzzer",
    "_membership": "a member's epoch, in which no other member has its partitions: programs don't need it",
    "_piece": "bytes that go bad in a leader's memory: no public way spoils them",
    "_reader": "where that piece is",
    "_remove": "of the flusher, whose threads are events of the simulation and of the fuzzer",
    "_shared": "where a consumer's membership is",
    "_submit": "of the flusher, whose threads are events of the simulation and of the fuzzer",
    "_sync": "of the flusher, whose threads are events of the simulation",
    "_tell": "of the flusher, whose threads are events of the simulation",
    "_topic": "counts how often a topic is built: what a view shows is the same either way",
    "_works": "of the flusher, whose threads are events of the simulation",
}

OF_TUPLES: Final = ("_replace", "_make", "_fields", "_asdict")
"""Public by the standard library's documentation."""
REPLACING: Final = ("setattr", "getattr", "delattr")
"""Functions and methods that take a name as text."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_TUPLES


def private_names(tree: ast.Module) -> set[str]:
    """The private attributes, functions, classes and constants that a module defines."""
    return {name for node in ast.walk(tree) for name in defined_by(node) if is_private(name)}


def defined_by(node: ast.AST) -> Iterator[str]:
    """The names that one node of a module's tree defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
        yield node.attr
    if isinstance(node, ast.Module | ast.ClassDef):
        for statement in node.body:
            if isinstance(statement, ast.Assign):
                yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield statement.target.id


def is_own(value: ast.expr) -> bool:
    """Whether an attribute of this expression is one of the object whose method stands there."""
    return ast.unparse(value) in ("self", "cls", "super()")


def reaches(tree: ast.Module, product: dict[str, set[str]]) -> set[str]:
    """The private names of the product that a test uses: of other objects, imported, given as text to a
    function that replaces them, or inherited. product: the private names by module."""
    found = {name for node in ast.walk(tree) for name in used_by(node)}
    return found & set().union(*product.values()) | set(inherited(tree, product))


def used_by(node: ast.AST) -> Iterator[str]:
    """The names that one node of a test's tree takes from elsewhere."""
    if isinstance(node, ast.Attribute) and not is_own(node.value):
        yield node.attr
    if isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in REPLACING:
        for argument in node.args[:2]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value.rpartition(".")[2]


def inherited(tree: ast.Module, product: dict[str, set[str]]) -> Iterator[str]:
    """The private names of a class of the product that its heirs in a test use or define anew."""
    modules = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in product
        for alias in node.names
    }
    for heir in ast.walk(tree):
        if isinstance(heir, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in heir.bases} & modules.keys()
            theirs = {name for base in bases for name in product[modules[base]]}
            for node in ast.walk(heir):
                name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "name", "")
                if name in theirs:
                    yield name


def names_of_the_product() -> dict[str, set[str]]:
    """The product's private names, by module."""
    paths = [path for path in python_files() if path.parts[0] in ROOMS]
    return {".".join(path.with_suffix("").parts[1:]): private_names(parsed(path)) for path in paths}


def parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def reached() -> dict[str, set[str]]:
    """The files of tests that reach into private names, by name."""
    product = names_of_the_product()
    found: dict[str, set[str]] = {}
    for path in python_files():
        if path.parts[0] == "tests":
            for name in reaches(parsed(path), product):
                found.setdefault(name, set()).add(str(path))
    return found


def test_tests_reach_into_few_private_names_and_each_has_its_reason() -> None:
    found = reached()
    new = {name: sorted(files) for name, files in found.items() if name not in REACHED}
    assert not new, "test what callers see, inject what is replaced, or say here why neither can be"
    assert found.keys() == REACHED.keys(), "some are reached no more: take them off the list"
    assert len(found) < FEWER_THAN


PRODUCT: Final = {
    "tank_node.server": """
_LIMIT = 5
def _chosen(): ...
class Server:
    _open: int
    def __init__(self): self._epoll = 1
    def _tick(self): ...
""",
    "tank_node.other": """
class Other:
    def __init__(self): self._else, self.public, self.__hidden = 1, 2, 3
""",
}


def seen(*lines: str) -> Iterable[str]:
    product = {module: private_names(ast.parse(text)) for module, text in PRODUCT.items()}
    assert set().union(*product.values()) == {"_LIMIT", "_chosen", "_open", "_epoll", "_tick", "_else"}
    return sorted(reaches(ast.parse("\n".join(lines)), product))


def test_every_way_to_reach_into_a_private_name_is_seen() -> None:
    assert seen("server._epoll.close()", "a.b()._open = 1") == ["_epoll", "_open"]
    assert seen("from tank_node.server import _chosen, Server") == ["_chosen"]
    assert seen("patch.setattr(server, '_LIMIT', 1)", "getattr(x, '_else')") == ["_LIMIT", "_else"]
    assert seen("patch.setattr('tank_node.server._chosen', None)") == ["_chosen"]


def test_an_heir_uses_its_own_names_and_reaches_into_those_of_the_product() -> None:
    heir = (
        "class Heir(Server):",
        "    def _tick(self):",
        "        super()._tick()",
        "        self._epoll, self._else = 1, 2",
    )
    assert seen("from tank_node.server import Server", *heir) == ["_epoll", "_tick"]
    assert seen("class Server: ...", *heir) == []


def test_names_of_others_and_of_the_test_itself_are_no_reach() -> None:
    assert seen("SparkContext._gateway = None", "self._open = 1", "x._replace(a=1)", "print('_open')") == []
