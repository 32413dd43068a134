"""docs/log.md says what the code does."""

import ast
import re
from pathlib import Path

import tank_node.log
import tank_node.segment
from tank_node.segment import record, swap
from tank_node.segment.record import RECORD, Record

PAGE = (Path(__file__).parents[3] / "docs" / "log.md").read_text()
FOLDERS = tuple(Path(str(room.__file__)).parent for room in (tank_node.log, tank_node.segment))
NODE = FOLDERS[0].parent
WIDTHS = {"B": ("u8", 1), "H": ("u16", 2), "I": ("u32", 4), "Q": ("u64", 8)}


def test_the_record_is_drawn_as_it_is() -> None:
    expected, at = [], 0
    letters = "".join(
        letter * int(count or 1) for count, letter in re.findall(r"(\d*)([BHIQ])", RECORD.format)
    )
    for name, letter in zip(Record._fields, letters, strict=True):
        type_, width = WIDTHS[letter]
        expected.append((at, name, type_))
        at += width
    drawn = [
        (int(at), name, type_) for at, name, type_ in re.findall(r"(\d+) ([a-z_]+) +(u8|u16|u32|u64)\b", PAGE)
    ]
    assert drawn == expected


def test_the_flags_are_named() -> None:
    [line] = re.findall(r"- `flags`: (.*?)\n\n", PAGE, re.DOTALL)
    assert [int(n) for n in re.findall(r"\b(\d+) [a-z]", line)] == [
        record.TRANSACTIONAL,
        record.MARKER,
        record.SPARSE,
        record.BREAK,
        record.REWRITTEN,
    ]


def test_every_suffix_is_explained() -> None:
    for suffix in (swap.CLEANED, swap.SWAP, swap.DELETED, swap.DAMAGED, ".log", ".index", ".producers"):
        assert re.search(rf"^ +\S*{re.escape(suffix)} ", PAGE, re.MULTILINE), suffix


def test_every_module_is_named_once() -> None:
    table = PAGE.partition("| Module | What it is |")[2].partition("\n\n")[0]
    named = [
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(named) == sorted(modules())


def imports(path: Path) -> set[str]:
    """The modules of the two rooms that one of them imports."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            package, *rooms = (node.module or "").split(".")
            if package == "tank_node" and rooms[:1] in (["log"], ["segment"]):
                is_room = NODE.joinpath(*rooms).is_dir()
                found |= {alias.name for alias in node.names} if is_room else {rooms[-1]}
    return found


def modules() -> dict[str, Path]:
    return {path.stem: path for folder in FOLDERS for path in folder.rglob("*.py") if path.stem != "__init__"}


def test_no_module_imports_itself_in_a_circle() -> None:
    uses = {name: imports(path) for name, path in modules().items()}
    while free := [name for name, needed in uses.items() if not needed & uses.keys()]:
        for name in free:
            del uses[name]
    assert not uses


def test_modules_import_down_the_layers() -> None:
    text = re.search(r"layers: (.*?)\. Where", PAGE, re.DOTALL)
    assert text
    layers = [re.findall(r"`(\w+)`", layer) for layer in text[1].split("<")]
    level = {name: at for at, names in enumerate(layers) for name in names}
    for name in level:
        for used in imports(modules()[name]) & level.keys():
            assert level[used] <= level[name], f"{name} imports {used}"
