"""The end of an orderly stop: its last writes are waited for, but not for ever."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

TELL_S = 10.0
"""After so long it is said what a stop waits for."""
CLOSE_S = 60.0
"""So long a stop waits: a slow disk may have much to write, and one that hangs would keep it for good. A
supervisor that is in more of a hurry kills it."""

_log = logging.getLogger("tank")


@contextlib.contextmanager
def bounded_stop(tell_s: float | None = None, close_s: float | None = None) -> Iterator[None]:
    """What is done within waits for the disk, on the event loop's thread too. When that hangs, or at a second
    signal, the process ends there; the next start recovers, as after any crash.

    A thread in an fsync can't be ended, and the loop runs no signal handlers while it waits for one. In the
    main thread alone.
    """
    done = threading.Event()
    wait = TELL_S if tell_s is None else tell_s, CLOSE_S if close_s is None else close_s
    threading.Thread(target=_watch, args=(done, *wait), name="stop", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _at_once)
    try:
        yield
    finally:
        done.set()


def _watch(done: threading.Event, tell_s: float, close_s: float) -> None:
    if not done.wait(tell_s):
        _log.warning(
            "the disk has not finished what it was told to write; waiting %.0f s at most, a second signal "
            "stops at once",
            close_s,
        )
    if not done.wait(max(close_s - tell_s, 0)):
        _log.error(
            "stops without its disk, which has not finished its last writes in %.0f s: check it; the "
            "next start recovers",
            close_s,
        )
        os._exit(1)


def _at_once(number: int, _: FrameType | None) -> None:
    stop_at_once(number)


def stop_at_once(number: int) -> None:
    """Told to stop a second time."""
    _log.warning("told to stop a second time: stopping at once, the next start recovers")
    os._exit(128 + number)
