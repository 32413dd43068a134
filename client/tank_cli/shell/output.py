"""Prints the output of commands: JSON for programs, tables for people, plain columns for pipes. Data goes to
stdout, messages to stderr.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import click

from tank_cli.shell.figures import OBEYED, escaped
from tank_protos.wire.names import readable

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

TO_THE_RIGHT = ">"  # in front of a column's title: its cells are numbers


def print_json(body: Json) -> None:
    """Prints one JSON document; indented on a terminal, one line in a pipe. Bytes of a name that are not
    UTF-8 are shown as U+FFFD.
    """
    indent = 2 if sys.stdout.isatty() else None
    click.echo(readable(json.dumps(body, ensure_ascii=False, indent=indent)))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table. Titles that begin with `>` stand over numbers. In a pipe: aligned columns, never cut,
    without lines.
    """
    clean = [[shown(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        print_rich_table(columns, clean, title)
    else:
        print_columns(columns, clean)


def print_gap() -> None:
    """Prints an empty line between a text and the table below it, unless the table is drawn with its own
    space.
    """
    if not sys.stdout.isatty():
        click.echo()


def print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    """The table for a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    for name in columns:
        right = name.startswith(TO_THE_RIGHT)
        heading = Text(name.removeprefix(TO_THE_RIGHT), style="bold cyan")
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=right,
            min_width=len(heading),
        )  # fmt: skip
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)


def print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The table for a pipe: capital titles, two spaces between columns."""
    titles = [name.removeprefix(TO_THE_RIGHT).upper() for name in columns]
    widths = [max(len(line[place]) for line in [titles, *rows]) for place in range(len(columns))]
    for line in [titles, *rows]:
        cells = [
            cell.rjust(width) if name.startswith(TO_THE_RIGHT) else cell.ljust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Prints names and values, one pair a line."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        click.echo(f"{click.style(name.ljust(width), fg='cyan')}  {shown(value)}")


def note(text: str) -> None:
    """Prints a message to the user, on stderr."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Prints a warning, on stderr."""
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {text}", err=True)


def done(text: str) -> None:
    """Prints that a change was made, on stderr."""
    click.echo(f"{click.style('✓', fg='green')} {text}" if sys.stderr.isatty() else text, err=True)


def shown(cell: str) -> str:
    """A cell's text, with control characters escaped, and bytes that are not UTF-8."""
    return OBEYED.sub(escaped, cell)
