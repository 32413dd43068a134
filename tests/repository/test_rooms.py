"""The rooms of each package: small enough to see, with a map that names what is in them, and no circles."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grimp
import pytest

from tests.repository.picture import PAGE, with_pictures
from tests.repository.tree import ROOMS, ROOT, python_files

PACKAGES: Final = (
    "tank_protos", "tank_compiler", "tank_node", "tank_controller", "tank_client", "tank_cli", "pyspark_tank"
)  # fmt: skip

MOST_FILES: Final = 20
FULL_ROOMS: Final = {
    "node/tank_node/tank": "a protocol: a subject of it a file",
    "node/tank_node/iggy": "a protocol: a subject of it a file",
}
"""Folders with more files than a reader sees at once, with the reason."""


def rooms() -> list[Path]:
    """The folders of all packages, from the root of the repository."""
    return sorted(
        path.parent for path in python_files() if path.parts[0] in ROOMS and path.stem == "__init__"
    )


def modules(room: Path) -> list[str]:
    return sorted(path.stem for path in python_files() if path.parent == room and path.stem != "__init__")


def test_a_room_is_small_enough_to_see() -> None:
    beside = sorted({path.parent for path in python_files() if path.parts[0] in ("benchmarks", "e2e")})
    full = {str(room) for room in (*rooms(), *beside) if len(modules(room)) > MOST_FILES}
    assert full == FULL_ROOMS.keys()


@pytest.mark.parametrize("room", rooms(), ids=str)
def test_the_map_of_a_room_names_all_that_is_in_it(room: Path) -> None:
    said = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
    assert [name for name in modules(room) if f"`{name}`" not in said] == []


def test_no_modules_import_each_other() -> None:
    """Imports for types alone count, too."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert list(circles(imported)) == []


def circles(imported: dict[str, set[str]]) -> Iterator[set[str]]:
    """Sets of modules of which each can be reached from each other."""
    reached = {module: everything_from(module, imported) for module in imported}
    done: set[str] = set()
    for module in imported:
        circle = {other for other in reached[module] if module in reached[other]}
        if circle and module not in done:
            done |= circle
            yield circle


def everything_from(start: str, imported: dict[str, set[str]]) -> set[str]:
    """The modules that one imports, and they import, and so on."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for module in imported[waiting.pop()] - found:
            found.add(module)
            waiting.append(module)
    return found


def test_a_circle_is_found() -> None:
    imported = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str]()}
    assert list(circles(imported)) == [{"a", "b", "c"}]


def test_the_pictures_of_the_architecture_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert page == with_pictures(page), "run: python -m tests.repository.picture"


def test_the_page_on_the_architecture_names_files_that_there_are() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE.read_text()))
    there = {str(path) for path in python_files()}
    assert len(named) > 30
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []
