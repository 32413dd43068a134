"""`python -m tank_client.reference > docs/client-reference.md`: the client's reference from docstrings."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from typing import NamedTuple

INTRODUCTION = """# Reference of the Python client

Made by `python -m tank_client.reference > docs/client-reference.md`; a test compares it with the code.
[client.md](client.md) is the guide.

All names are imported from `tank_client`. `tank_client.sync` has `Client`, `Producer`, `Consumer`, `Admin`
and `BundleDelivery` with the same methods, which block: leave out `async` and `await`, write `with` and `for`
in place of `async with` and `async for`, and call `result()` of a delivery.
"""

SECTIONS = {
    "Client, producer, consumer, admin": ("client", "producer", "consumer", "consuming.batch", "admin"),
    "Settings": ("settings",),
    "What calls return": ("model",),
    "Types": ("bundle", "consuming.chunk_readers", "consuming.reading_plan", "wire.buffer"),
    "Errors": ("errors",),
}
"""The headings, each with the modules of `tank_client` or `tank_protos` whose names are listed below it."""

MADE_BY_THE_CLIENT = frozenset({"Admin", "BundleDelivery", "Consumer", "MessageBatch", "Producer"})
"""Classes that programs do not construct: their constructors are left out, as for errors."""

NOT_FOR_PROGRAMS = frozenset({"set_exception"})
"""Public methods that only the client itself calls."""


class Definition(NamedTuple):
    """A class, or an assignment and the docstring behind it. `shown`: an assignment's source in one line; the
    text of its module for a class."""

    name: str
    node: ast.ClassDef | ast.Assign | ast.AnnAssign
    shown: str
    said: str


def reference() -> str:
    """The whole page, in Markdown."""
    lines = [INTRODUCTION]
    exported = dict(imports(ast.parse(source_of("tank_client"))))
    for title, modules in SECTIONS.items():
        lines += [f"## {title}", ""]
        for module in modules:
            for name, source in exported.items():
                if source in (f"tank_client.{module}", f"tank_protos.{module}"):
                    lines += described(definition(source, name))
    return "\n".join(lines).rstrip() + "\n"


def source_of(module: str) -> str:
    """The text of a module."""
    return inspect.getsource(importlib.import_module(module))


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, module) for all that a module imports by `from`, in its order."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((each.name, node.module) for each in node.names)


def definition(module: str, name: str) -> Definition:
    """Finds the definition of a name, in the module, or in the module from which it is imported. Raises
    KeyError when there is none.
    """
    source = source_of(module)
    tree = ast.parse(source)
    for defined in definitions(source, tree.body):
        if defined.name == name:
            return defined
    return definition(dict(imports(tree))[name], name)


def definitions(source: str, body: list[ast.stmt]) -> Iterator[Definition]:
    """The public classes and assignments in the body of a module or of a class."""
    for at, node in enumerate(body):
        shown = " ".join((ast.get_source_segment(source, node) or "").split())
        if isinstance(node, ast.ClassDef):
            yield Definition(node.name, node, source, ast.get_docstring(node) or "")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield Definition(target.id, node, shown, docstring_behind(body, at))


def docstring_behind(body: list[ast.stmt], at: int) -> str:
    """The string that stands alone behind an assignment; empty where there is none."""
    match body[at + 1 : at + 2]:
        case [ast.Expr(value=ast.Constant(value=str(said)))]:
            return inspect.cleandoc(said)
    return ""


def described(defined: Definition) -> list[str]:
    """The section of one name."""
    node = defined.node
    if not isinstance(node, ast.ClassDef):
        return [f"### `{defined.shown}`", "", *paragraphs(defined.said)]
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"### `{node.name}{f'({bases})' if bases else ''}`", "", *paragraphs(defined.said)]
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    fields = [field(part.shown, part.said) for part in definitions(defined.shown, node.body)]
    if "Error" in bases:
        fields += [field(shown) for each in methods if each.name == "__init__" for shown in attributes(each)]
        methods = [each for each in methods if each.name != "__init__"]
    lines += [*fields, ""] if fields else []
    return lines + [line for each in methods if is_shown(node, each) for line in method(node, each)]


def field(shown: str, said: str = "") -> str:
    """A field of a class, or a member of an enum."""
    return f"- `{shown}`" + (f": {' '.join(said.split())}" if said else "")


def attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The arguments that `__init__` keeps under their names."""
    kept = {ast.unparse(each) for each in init.body}
    for argument in init.args.args + init.args.kwonlyargs:
        if f"self.{argument.arg} = {argument.arg}" in kept:
            yield ast.unparse(argument)


def is_shown(owner: ast.ClassDef, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a program calls the method by its name, or by the name of the class."""
    if function.name == "__init__":
        return owner.name not in MADE_BY_THE_CLIENT
    return not function.name.startswith("_") and function.name not in NOT_FOR_PROGRAMS


def method(owner: ast.ClassDef, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The signature of a method and its docstring; a property is shown as a field."""
    returns = ast.unparse(function.returns).strip("'") if function.returns is not None else ""
    if any(ast.unparse(each) == "property" for each in function.decorator_list):
        shown = f"{function.name}: {returns}"
    else:
        # All arguments have types, and those are written with spaces around the default.
        arguments = ast.unparse(function.args).removeprefix("self").removeprefix(", ").replace("=", " = ")
        prefix = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
        shown = f"{prefix}{function.name}({arguments}) -> {returns}"
        if function.name == "__init__":
            shown = f"{owner.name}({arguments})"
    return [f"#### `{shown}`", "", *paragraphs(ast.get_docstring(function) or "")]


def paragraphs(said: str) -> list[str]:
    """A docstring as Markdown: each paragraph in one line, with an empty line behind it."""
    return [line for part in said.split("\n\n") if part for line in (" ".join(part.split()), "")]


if __name__ == "__main__":
    print(reference(), end="")
