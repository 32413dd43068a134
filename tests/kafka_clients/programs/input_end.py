"""When a program is to end: its input does."""

import sys
from threading import Event, Thread


def end_of_input() -> Event:
    """An event that is set when the program's input ends."""
    ended = Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    Thread(target=wait, daemon=True).start()
    return ended
