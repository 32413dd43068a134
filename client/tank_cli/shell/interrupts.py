"""Ctrl-C in a command: the next output begins on a line of its own."""

import contextlib
import signal
import sys
import threading
from types import FrameType
from typing import Self


def end_line() -> None:
    """Ends the line of stderr on which a terminal has shown ^C. Without a terminal, nothing is written."""
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()


class Interrupts:
    """A context in which Ctrl-C ends the terminal's line and raises KeyboardInterrupt. Does nothing in other
    threads, or when the program has its own handler.
    """

    def __init__(self) -> None:
        self.came = False

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        self._installs = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._installs:
            signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        if self._installs and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        end_line()
        raise KeyboardInterrupt
