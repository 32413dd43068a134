"""The repository tests itself: sizes, names, walls, links, and what it must not speak of."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.repository.tree import ROOMS, ROOT, python_files, tracked

TEXT = {".py", ".md", ".toml", ".json", ".proto", ".sh", ".yaml", ".yml", ".txt", ".cfg", ""}
LONGEST_FUNCTION = 60


def test_no_function_has_two_jobs() -> None:
    long = []
    for path in python_files():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{path}:{node.lineno} {node.name} ({length})")
    assert not long, f"functions over {LONGEST_FUNCTION} lines: {long}"


def test_folders_are_two_levels_deep_at_most() -> None:
    """But for rooms that would have too many modules, or hold what is one protocol's:
    docs/decisions/0088, 0089, 0091, 0096, 0100, 0105."""
    with_rooms = {
        ("node", "tank_node", "kafka"),
        ("node", "tank_node", "coordinators"),
        ("node", "tank_node", "peers"),
        ("node", "tank_node", "log"),
        ("node", "tank_node", "stored"),
        ("node", "tank_node", "cluster"),
        ("client", "tank_cli", "shell"),
        ("controller", "tank_controller", "leader"),
        ("controller", "tank_controller", "state"),
        ("controller", "tank_controller", "commands"),
        ("controller", "tank_controller", "api"),
    }
    deep = {
        str(p)
        for p in python_files()
        if p.parts[0] in ROOMS
        and len(p.parts) > 4 + (p.parts[:3] in with_rooms)
        and "generated" not in p.parts
    }
    assert not deep, deep


def test_names_say_what_things_are() -> None:
    vague = re.compile(r"^(utils?|helpers?|managers?|common|misc)$")
    named = [str(p) for p in python_files() if vague.match(p.stem) or any(vague.match(x) for x in p.parts)]
    assert not named, named
    classes = [
        f"{p}:{n.name}"
        for p in python_files()
        for n in ast.walk(ast.parse((ROOT / p).read_text()))
        if isinstance(n, ast.ClassDef) and re.search(r"(Manager|Helper|Utils?)$", n.name)
    ]
    assert not classes, classes


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(p)
        for p in python_files()
        if (source := (ROOT / p).read_text()).strip() and not ast.get_docstring(ast.parse(source))
    ]
    assert not silent, silent


def test_public_names_say_what_they_are() -> None:
    silent = []
    for path in python_files():
        if path.parts[0] not in ROOMS:
            continue
        tree = ast.parse((ROOT / path).read_text())
        named = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
        silent += [
            f"{path}:{n.lineno} {n.name}"
            for n in named
            if not n.name.startswith("_") and not ast.get_docstring(n)
        ]
    assert not silent, silent


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = [
        f"{p}:{n}"
        for p in tracked()
        if p.suffix in TEXT
        for n, line in enumerate((ROOT / p).read_text(errors="replace").splitlines(), 1)
        if marks.search(line)
    ]
    assert not found, found


def test_the_repository_speaks_of_the_project_alone() -> None:
    here = (ROOT, ROOT.parent / "shared", Path.home())
    foreign = re.compile("|".join(rf"(?<![\w.~-]){re.escape(str(p))}/" for p in here))
    found = [
        f"{p}:{n}: {line.strip()[:80]}"
        for p in tracked()
        if p.suffix in TEXT
        for n, line in enumerate((ROOT / p).read_text(errors="replace").splitlines(), 1)
        if foreign.search(line)
    ]
    assert not found, found


def test_pyproject_lists_exactly_the_packages_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    found = {
        f"{room}/{p.name}"
        for room in ROOMS
        for p in (ROOT / room).glob("*tank*")
        if (p / "__init__.py").exists()
    }
    assert listed == found
    for target in project["project"]["scripts"].values():
        module, _, name = target.partition(":")
        assert name, target
        assert any((ROOT / room / (module.replace(".", "/") + ".py")).exists() for room in ROOMS), target


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", sorted(p for p in tracked() if p.suffix == ".md"), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    dead = [
        target
        for target, _ in LINK.findall((ROOT / page).read_text())
        if "://" not in target
        and not target.startswith("mailto:")
        and not (ROOT / page.parent / target).exists()
    ]
    assert not dead, dead


def test_the_readme_names_only_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^\s*(?:\$ )?make ([a-z0-9-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named <= targets, named - targets


def test_decisions_are_numbered_without_clashes() -> None:
    numbers = [p.name[:4] for p in (ROOT / "docs/decisions").glob("*.md") if p.name != "README.md"]
    assert all(n.isdigit() for n in numbers)
    assert len(numbers) == len(set(numbers)), sorted(numbers)


def test_the_page_for_contributors_names_files_that_there_are() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([a-z_]+/[\w./*-]*)`", page)
    assert len(named) > 20
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


def test_the_index_of_the_docs_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert [p.name for p in sorted((ROOT / "docs").glob("*.md")) if f"({p.name})" not in index] == [
        "README.md"
    ]


def test_tests_share_what_they_need_in_modules_of_their_own() -> None:
    """What two test modules need is no test's: it lies in `tests/support`, or beside them."""
    found = []
    for path in python_files():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            found += [f"{path}: {name}" for name in names if re.match(r"tests\b.*\.test_\w+$", name)]
    assert not found, found


def test_what_tests_share_stands_in_rooms() -> None:
    rooms = {path.parent for path in tracked() if path.parts[:2] == ("tests", "support")}
    full = {str(room): sum(path.parent == room for path in python_files()) for room in rooms}
    assert all(count <= 20 for count in full.values()), full


def test_the_tests_of_a_room_stand_in_a_folder_of_its_name() -> None:
    """What tests/node/log tests is node/tank_node/log; folders for what is no room are named here."""
    apart = {"tests/cli/data", "tests/client/data", "tests/controller/data"}
    packages = {
        "node": "tank_node",
        "controller": "tank_controller",
        "client": "tank_client",
        "cli": "tank_cli",
    }
    homes = {"node": "node", "controller": "controller", "client": "client", "cli": "client"}
    strange = {
        str(path.parent)
        for path in python_files()
        if len(path.parts) == 4
        and path.parts[0] == "tests"
        and path.parts[1] in packages
        and not (ROOT / homes[path.parts[1]] / packages[path.parts[1]] / path.parts[2]).is_dir()
    }
    assert strange <= apart, strange
