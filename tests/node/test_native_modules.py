"""The modules that mypyc compiles: what it does otherwise than Python does not occur in them.

The build itself refuses what can't be compiled. These are the differences that show only when code runs.
"""

import ast
import runpy
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES: tuple[str, ...] = runpy.run_path(str(ROOT / "node/native_build.py"))["MODULES"]
PLAIN_BASES = {"Enum", "IntEnum", "IntFlag", "NamedTuple", "Protocol", "StrEnum"}
"""Such classes are ordinary ones, also in a compiled module."""


@cache
def tree(module: str) -> ast.Module:
    """Of a module of the node, by its name below tank_node."""
    return ast.parse((ROOT / f"node/tank_node/{module.replace('.', '/')}.py").read_text())


def classes(module: str) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef)]


def base_names(definition: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in definition.bases}


def is_native(definition: ast.ClassDef) -> bool:
    return not base_names(definition) & PLAIN_BASES


def is_dataclass(definition: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in definition.decorator_list)


def test_the_modules_are_there_and_in_order() -> None:
    assert [m for m in MODULES if not (ROOT / f"node/tank_node/{m.replace('.', '/')}.py").exists()] == []
    assert len(set(MODULES)) == len(MODULES)


def test_a_class_that_inherits_from_a_compiled_one_is_compiled_with_it() -> None:
    """Otherwise it can be defined, but making one raises TypeError."""
    native = {c.name for module in MODULES for c in classes(module) if is_native(c)}
    package = ROOT / "node/tank_node"
    others = {".".join(path.relative_to(package).with_suffix("").parts) for path in package.rglob("*.py")}
    left_out = {
        f"{module}: {definition.name}"
        for module in others - set(MODULES)
        for definition in classes(module)
        if base_names(definition) & native
    }
    assert not left_out, f"add their modules to MODULES in node/native_build.py: {left_out}"


def test_a_compiled_class_inherits_from_no_ordinary_one_with_slots() -> None:
    """Otherwise its module can't be imported: "mypyc classes can't have __slots__"."""
    package = ROOT / "node/tank_node"
    others = {".".join(path.relative_to(package).with_suffix("").parts) for path in package.rglob("*.py")}
    with_slots = {
        definition.name
        for module in others - set(MODULES)
        for definition in classes(module)
        for line in definition.body
        if isinstance(line, ast.Assign) and ast.unparse(line).startswith("__slots__")
        if ast.unparse(line.value) != "()"
    }
    wrong = {
        f"{module}: {definition.name}"
        for module in MODULES
        for definition in classes(module)
        if base_names(definition) & with_slots
    }
    assert not wrong, f"leave out the slots of what they inherit from, or compile it: {wrong}"


@pytest.mark.parametrize("module", MODULES)
def test_constants_of_a_class_are_declared_as_such(module: str) -> None:
    """`x = 1` in the body of a native class is an attribute of every object; what reads it of the class, or
    of an heir of an ordinary class, finds nothing."""
    wrong = [
        f"{definition.name}: {ast.unparse(statement)}"
        for definition in classes(module)
        if is_native(definition) and not is_dataclass(definition)
        for statement in definition.body
        if (isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) != "__slots__")
        or (
            isinstance(statement, ast.AnnAssign)
            and statement.value is not None
            and not ast.unparse(statement.annotation).startswith(("ClassVar", "Final"))
        )
    ]
    assert not wrong, f"declare as ClassVar: {wrong}"


@pytest.mark.parametrize("module", MODULES)
def test_final_tuples_of_floats_say_so(module: str) -> None:
    """mypyc 2.4 takes `X: Final = (0.1, 0.2)` for something that was not set; a boxed tuple it knows."""
    wrong = [
        ast.unparse(node.target)
        for node in tree(module).body
        if isinstance(node, ast.AnnAssign)
        and ast.unparse(node.annotation) == "Final"
        and isinstance(node.value, ast.Tuple)
        and all(isinstance(item, ast.Constant) and isinstance(item.value, float) for item in node.value.elts)
    ]
    assert not wrong, f"declare as Final[tuple[float, ...]]: {wrong}"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_defined_where_the_compiler_binds_it_too_early(module: str) -> None:
    """Classes within classes or functions, and definitions below an `if`."""
    wrong = []
    for parent in ast.walk(tree(module)):
        for node in ast.iter_child_nodes(parent):
            nested = isinstance(node, ast.ClassDef) and not isinstance(parent, ast.Module)
            guarded = isinstance(parent, ast.If) and isinstance(node, ast.FunctionDef | ast.ClassDef)
            if nested or guarded:
                wrong.append(ast.unparse(node).splitlines()[0])
    assert not wrong, wrong


@pytest.mark.parametrize("package", sorted({m.rpartition(".")[0] for m in MODULES}))
def test_a_package_looks_for_compiled_modules_first(package: str) -> None:
    init = ROOT / "node/tank_node" / package.replace(".", "/") / "__init__.py"
    assert "__path__[:0] = compiled_path(__name__)" in init.read_text()
