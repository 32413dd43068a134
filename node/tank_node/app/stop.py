"""The end of an orderly stop: waits for the last writes to the disk, but not for ever."""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

TELL_S = 10.0
"""After this a log line says that the stop waits for the disk."""
CLOSE_S = 60.0
"""How long a stop waits for the disk: a slow one may have much to write, and one that hangs never ends."""

_log = logging.getLogger("tank")


@contextlib.contextmanager
def bounded_stop(tell_s: float | None = None, close_s: float | None = None) -> Iterator[None]:
    """Bounds the time of its body, which waits for the disk, on the event loop's thread too. When the time is
    over, or at a second signal, the process ends at once, and the next start recovers as after a crash.

    A thread in an fsync can't be ended, and asyncio's signal handlers don't run while the loop waits. Use it
    in the main thread only.
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
            "the disk has not finished the last writes; waiting %.0f s at most, a second signal stops "
            "at once",
            close_s,
        )
    if not done.wait(max(close_s - tell_s, 0)):
        _log.error(
            "stops without its disk, which has not finished the last writes in %.0f s: check the disk; "
            "the next start recovers",
            close_s,
        )
        os._exit(1)


def _at_once(number: int, _: FrameType | None) -> None:
    stop_at_once(number)


def stop_at_once(number: int) -> None:
    """Ends the process at the second signal."""
    _log.warning("told to stop a second time: stopping at once, the next start recovers")
    os._exit(128 + number)
