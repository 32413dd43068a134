"""Shows the progress of long work: a bar when stderr is a terminal, else a line from time to time."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from tank_cli.shell.figures import bytes_text, count_text

PLAIN_LINE_EVERY_S = 5.0
REDRAW_EVERY_S = 0.1  # a bar that moves ten times a second looks alive and costs nothing


class TransferProgress:
    """Counts messages and bytes; shows them at most every `every_s` seconds through `show`."""

    def __init__(self, show: Callable[["TransferProgress"], None], every_s: float) -> None:
        self.messages = 0
        self.size_bytes = 0
        self.started = time.monotonic()
        self._show = show
        self._every_s = every_s
        self._next = self.started + every_s

    def advance(self, messages: int, size_bytes: int) -> None:
        """Adds messages and bytes."""
        self.messages += messages
        self.size_bytes += size_bytes
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every_s
            self._show(self)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the work began, never 0."""
        return max(time.monotonic() - self.started, 1e-9)

    def rates(self) -> str:
        """Messages and bytes a second, so far."""
        return (
            f"{count_text(round(self.messages / self.elapsed_s))} messages/s, "
            f"{bytes_text(self.size_bytes / self.elapsed_s)}/s"
        )


@contextmanager
def progress(verb: str, total: int | None = None, *, quiet: bool = False) -> Iterator[TransferProgress]:
    """Shows the progress of the work inside `with`. `total`: messages, when it is known. `quiet`: only
    counts.
    """
    if quiet:
        yield TransferProgress(lambda state: None, PLAIN_LINE_EVERY_S)
    elif sys.stderr.isatty():
        with bar(verb, total) as state:
            yield state
    else:
        yield TransferProgress(lambda state: plain_line(verb, total, state), PLAIN_LINE_EVERY_S)


def plain_line(verb: str, total: int | None, state: TransferProgress) -> None:
    """A line for a log file."""
    of = f" of {count_text(total)}" if total else ""
    click.echo(f"{verb} {count_text(state.messages)}{of} messages, {state.rates()}", err=True)


@contextmanager
def bar(verb: str, total: int | None) -> Iterator[TransferProgress]:
    """Shows a bar on stderr that disappears when the work is done; the command prints the closing line."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *([BarColumn(), TextColumn("{task.percentage:>3.0f} %")] if total else []),
        TextColumn("{task.fields[count]} messages  {task.fields[rates]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(verb, total=total, count="0", rates="")

        def show(state: TransferProgress) -> None:
            drawn.update(
                task, completed=state.messages, count=count_text(state.messages), rates=state.rates()
            )

        yield TransferProgress(show, REDRAW_EVERY_S)
