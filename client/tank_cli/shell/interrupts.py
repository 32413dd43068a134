"""Ctrl-C in a command: what is written afterwards begins on a line of its own."""

import contextlib
import signal
import sys
import threading
from types import FrameType
from typing import Self


def end_line() -> None:
    """Ends the line of stderr on which a terminal has shown ^C. Where there is none, nothing is written."""
    with contextlib.suppress(OSError, ValueError):  # it is closed
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()


class Interrupts:
    """While it is entered, Ctrl-C ends the terminal's line and raises KeyboardInterrupt. Another handler of
    the program's, and threads, are left alone."""

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
