"""Waiting for the cluster's own work, with a bar for a person and lines for a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import seconds_text

POLL_S = 0.3
PLAIN_LINE_EVERY_S = 5.0


@dataclass(slots=True, frozen=True)
class Left:
    """The work that is left."""

    count: int
    text: str
    """In words, for the line behind the bar."""


def wait(
    verb: str, look: Callable[[], Left], patience_s: float, stuck: CliError, *, quiet: bool = False
) -> None:
    """Calls `look` again and again until nothing is left. Raises `stuck` when nothing has changed for
    `patience_s`.
    """
    left = look()
    with _shown(verb, left.count, quiet=quiet) as show:
        changed = time.monotonic()
        while left.count:
            show(left)
            time.sleep(POLL_S)
            before, left = left, look()
            if left != before:
                changed = time.monotonic()
            elif time.monotonic() - changed > patience_s:
                took = seconds_text(patience_s)
                raise CliError(f"{stuck.message} ({left.text}, for {took})", ExitCode.FAILED, stuck.hint)


@contextmanager
def _shown(verb: str, total: int, *, quiet: bool) -> Iterator[Callable[[Left], None]]:
    if quiet:
        yield lambda left: None
    elif sys.stderr.isatty():
        with _bar(verb, total) as show:
            yield show
    else:
        yield _lines(verb)


def _lines(verb: str) -> Callable[[Left], None]:
    next_s = time.monotonic()

    def show(left: Left) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + PLAIN_LINE_EVERY_S
            click.echo(f"{verb}: {left.text}", err=True)

    return show


@contextmanager
def _bar(verb: str, total: int) -> Iterator[Callable[[Left], None]]:
    """Shows a bar that disappears when the work is done; the command prints the closing line."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(verb, total=total, text="")

        def show(left: Left) -> None:
            most = max(total, left.count)  # the work may have grown
            drawn.update(task, total=most, completed=most - left.count, text=left.text)

        yield show
