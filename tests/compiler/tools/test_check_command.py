"""The command `tank-protos check`: what it reads, prints and returns."""

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tank_compiler.tools.cli import main
from tests.support.values.evolving import A, B, definition


def run(*arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["check", *arguments])
    assert "Traceback" not in result.output
    return result.exit_code, result.output.splitlines()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two states of two messages, in the folders old and new; it is where the test runs."""
    monkeypatch.chdir(tmp_path)
    for folder, changed in (("old", definition(A, B)), ("new", definition(A | {"name": "Ab"}))):
        Path(folder).mkdir()
        Path(folder, "Example.json").write_text(changed)
        Path(folder, "Other.json").write_text(definition(A, name="Other", apiKey=2))
    return tmp_path


def test_each_line_says_where_in_both_and_the_last_one_how_many(folders: Path) -> None:
    code, lines = run("old", "new")
    assert code == 1
    assert lines == [
        "new/Example.json:1: break: Example.B in versions 0-3: is not there any more "
        "(before: old/Example.json:3)",
        "new/Example.json:2: note: Example.A in versions 0-3: is called Ab now; the wire has no names "
        "(before: old/Example.json:2)",
        "2 messages compared, 1 breaks",
    ]


def test_what_breaks_nobody_has_exit_code_0(folders: Path) -> None:
    assert run("old", "old") == (0, ["2 messages compared, 0 breaks"])


def test_single_files_are_compared(folders: Path) -> None:
    code, lines = run("old/Example.json", "new/Example.json")
    assert (code, lines[-1]) == (1, "1 messages compared, 1 breaks")


def test_a_revision_of_git_is_compared(folders: Path) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    environment = os.environ | identity | {"GIT_COMMITTER_EMAIL": "a@b"}
    for command in (["init", "-q"], ["add", "old"], ["commit", "-qm", "First"]):
        subprocess.run(["git", *command], check=True, env=environment)
    Path("old/Example.json").write_text(definition(A))
    assert run("HEAD:old", "old")[1] == [
        "old/Example.json:1: break: Example.B in versions 0-3: is not there any more "
        "(before: HEAD:old/Example.json:3)",
        "2 messages compared, 1 breaks",
    ]
    assert run("HEAD:old/Example.json", "old/Example.json")[1][-1] == "1 messages compared, 1 breaks"


def test_what_cannot_be_read_is_explained(folders: Path) -> None:
    assert run("nowhere", "new") == (1, ["Error: nowhere: there is no such folder or file"])
    Path("empty").mkdir()
    assert run("empty", "new") == (1, ["Error: there are no definitions (*.json) in empty"])
    Path("empty/A.json").write_text("{")
    assert run("empty", "new") == (1, ["Error: empty/A.json:1: expected a key in double quotes"])
    code, lines = run("nonsense:old", "new")
    assert code == 1
    assert lines[0].startswith("Error: git cannot read nonsense:old")


def test_the_list_of_commands_says_what_each_does() -> None:
    output = CliRunner().invoke(main, ["--help"], terminal_width=80).output
    _, commands = output.split("Commands:")
    assert "Refuse a change of definitions that breaks readers." in commands
    assert "..." not in commands, "click cuts what is longer than a line"


def test_help_has_examples() -> None:
    output = CliRunner().invoke(main, ["check", "--help"]).output
    assert "tank-protos check HEAD:protos/tank protos/tank" in output
