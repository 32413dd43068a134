"""What the client's public signatures name can be imported from `tank_client`, and what its parts call among
themselves is not public."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import tank_client
from tank_client import errors, sync

MADE_BY_THE_CLIENT = {"Admin", "Consumer", "MessageBatch", "Producer"}
"""Programs don't call what makes these, so that its arguments are the client's own."""
FACES = {"": tank_client, "sync.": sync}


def public_classes() -> Iterator[tuple[str, type]]:
    for face, module in FACES.items():
        for name in module.__all__:
            exported = getattr(module, name)
            if inspect.isclass(exported):
                yield face + name, exported


def sources(kind: type) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and what it inherits from the client's others, each with its module's name."""
    for each in kind.__mro__:
        if each.__module__.startswith("tank_client."):
            path = inspect.getsourcefile(each)
            assert path is not None
            for node in ast.parse(Path(path).read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name == each.__name__:
                    yield each.__module__, node


def annotations(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Of its public fields and methods: (whose, annotation)."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if not part.target.id.startswith("_"):
                yield part.target.id, part.annotation
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            if part.name.startswith("_") and not part.name.startswith("__"):
                continue
            if part.name == "__init__" and node.name in MADE_BY_THE_CLIENT:
                continue
            arguments = part.args.posonlyargs + part.args.args + part.args.kwonlyargs
            found = [argument.annotation for argument in arguments] + [part.returns]
            yield from ((part.name, annotation) for annotation in found if annotation is not None)


def names_in(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from names_in(ast.parse(node.value, mode="eval").body)


def names_of_ours(module: str) -> set[str]:
    """The names of a module that it defines itself or has from this project, not from Python."""
    source = inspect.getsource(importlib.import_module(module))
    names: set[str] = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tank_"):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names - {"errors"}


@pytest.mark.parametrize(("name", "kind"), list(public_classes()), ids=str)
def test_what_its_signatures_name_is_exported(name: str, kind: type) -> None:
    missing = {
        (whose, word)
        for module, node in sources(kind)
        for whose, annotation in annotations(node)
        for word in names_in(annotation)
        if word in names_of_ours(module) and word not in tank_client.__all__
    }
    assert missing == set()


def test_the_walk_sees_what_signatures_name() -> None:
    ((module, node),) = sources(tank_client.Consumer)
    seen = {word for _, annotation in annotations(node) for word in names_in(annotation)}
    assert seen & names_of_ours(module) == {"ConsumedMessage", "Consumer", "MessageBatch", "Route"}


def test_every_error_is_exported() -> None:
    named = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    }
    assert named <= set(tank_client.__all__)


def test_every_export_is_there() -> None:
    for face in FACES.values():
        assert [name for name in face.__all__ if not hasattr(face, name)] == []


def test_both_faces_have_the_same_public_methods_and_no_others() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    only_async = {
        name: public(getattr(tank_client, name)) ^ public(getattr(sync, name)) for name in sync.__all__
    }
    assert only_async == {
        # Attributes of the asynchronous one are made at its start; ending at once is what ends its loop.
        "Client": {"abort", "settings", "servers"},
        "Consumer": {"abort"},
        "Producer": set(),
        "Admin": set(),
    }
