"""The reference of the command in docs/ is that of the command."""

from collections.abc import Iterator
from pathlib import Path

import click

from tank_cli import reference
from tank_cli.main import main
from tank_cli.shell.shapes import SHAPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_reference_is_fresh() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == reference.reference(), "run: python -m tank_cli.reference > docs/cli.md"


def json_commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """The paths of all commands that take --output."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name)
        if isinstance(command, click.Group):
            yield from json_commands(command, inner)
        elif any(parameter.name == "output" for parameter in command.params):
            yield inner.command_path


def test_every_command_that_prints_json_shows_its_shape() -> None:
    found = set(json_commands(main, click.Context(main, info_name="")))
    assert {path.strip() for path in found} - {"serve"} == set(SHAPES)
