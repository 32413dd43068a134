"""The progress of a long measurement, on stderr."""

import time
from contextlib import ExitStack

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Display:
    """Progress to stderr: a bar on a terminal, lines elsewhere; and each row as soon as it is known."""

    def __init__(self, runs: int, stack: ExitStack) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress = stack.enter_context(progress)
        self._task = progress.add_task("", total=runs)
        self._began = time.monotonic()

    def begin(self, what: str) -> None:
        """Shows the step that begins."""
        self._progress.update(self._task, description=what)
        if not self._progress.console.is_terminal:
            self.say(what)

    def ran(self, runs: int = 1) -> None:
        """Counts finished runs."""
        self._progress.advance(self._task, runs)

    def say(self, what: str) -> None:
        """Prints a line that stays."""
        self._progress.console.print(
            f"{time.monotonic() - self._began:4.0f} s  {what}", soft_wrap=True, highlight=False
        )
