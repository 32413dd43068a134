"""`python -m tests.repository.picture`: which room imports from which, drawn from the imports of the code.

Writes the pictures into docs/architecture.md, between their marks; a test compares. An arrow that follows
from others is left out: where a room imports from a second one, and that from a third, the first one's own
arrow to the third says nothing new.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
PACKAGES: Final = (
    "pyspark_tank", "tank_cli", "tank_client", "tank_node", "tank_controller", "tank_compiler", "tank_protos"
)  # fmt: skip
ROOMS_OF: Final = ("tank_node", "tank_controller", "tank_client")


def arrows(graph: grimp.ImportGraph, names: Iterable[str]) -> dict[str, set[str]]:
    """By module or package, which others of these it imports from, directly."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in found:
        inside = {name} | graph.find_descendants(name)
        for other in found.keys() - {name}:
            others = {other} | graph.find_descendants(other)
            if any(graph.find_modules_directly_imported_by(module) & others for module in inside):
                found[name].add(other)
    return found


def reduced(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that follow from others. Rooms that import each other have no such picture."""
    circle = sorted(name for name in found if name in below(found, name))
    if circle:
        raise ValueError(f"rooms that import each other, in a circle: {', '.join(circle)}")
    return {
        name: {
            other
            for other in targets
            if not any(other in below(found, between) for between in targets - {other})
        }
        for name, targets in found.items()
    }


def below(found: dict[str, set[str]], name: str) -> set[str]:
    """Everything that can be reached from one."""
    reached: set[str] = set()
    waiting = list(found[name])
    while waiting:
        other = waiting.pop()
        if other not in reached:
            reached.add(other)
            waiting += found[other]
    return reached


def drawn(found: dict[str, set[str]]) -> str:
    """As a Mermaid flowchart, which the code's hosts draw."""
    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(found, key=lambda name: (-len(below(found, name)), name)):
        shown = name.rpartition(".")[2]
        lines += [f"    {shown} --> {other.rpartition('.')[2]}" for other in sorted(found[name])]
    return "\n".join([*lines, "```"])


def pictures() -> dict[str, str]:
    """By mark: the packages, and the rooms of some."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    made = {"packages": drawn(reduced(arrows(graph, PACKAGES)))}
    for package in ROOMS_OF:
        rooms = {name for name in graph.find_children(package) if graph.find_children(name)}
        made[package] = drawn(reduced(arrows(graph, rooms)))
    return made


def with_pictures(page: str) -> str:
    """The page with the pictures of now between their marks."""
    for mark, picture in pictures().items():
        place = re.compile(rf"(<!-- picture {mark}: begin -->\n).*?(<!-- picture {mark}: end -->)", re.DOTALL)
        assert len(place.findall(page)) == 1, mark
        page = place.sub(rf"\g<1>{picture}\n\g<2>", page)
    return page


def main() -> None:
    PAGE.write_text(with_pictures(PAGE.read_text()))


if __name__ == "__main__":
    main()
