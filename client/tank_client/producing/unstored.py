"""Says how many messages a producer gave up without an answer: an end without a flush must not be silent.

A program that ends by an exception, or that leaves a client open, loses what its producers still hold. The
number goes to the log `tank_client` as a warning, which Python shows without any configuration, and as a
ResourceWarning, which test runners show with the place.
"""

import atexit
import logging
import warnings
import weakref
from typing import Final, Protocol

log: Final = logging.getLogger("tank_client")


class Holder(Protocol):
    """A producer's engine."""

    closed: bool

    @property
    def held_messages(self) -> int:
        """Those that have neither an answer nor a failure yet."""


_open: Final[weakref.WeakSet[Holder]] = weakref.WeakSet()
"""Engines that were not closed. At the interpreter's exit they say what they hold."""


def watch(holder: Holder) -> None:
    """From now on until its end."""
    _open.add(holder)


def unwatch(holder: Holder) -> None:
    """It ended in order."""
    _open.discard(holder)


def say(messages: int, why: str) -> None:
    """`why` ends the sentence, as in "the program ended". Nothing is said of no messages."""
    if not messages:
        return
    noun = "message was" if messages == 1 else "messages were"
    text = f"{messages:,} {noun} not acknowledged, and may not be stored: {why}"
    log.warning("%s", text)
    warnings.warn(text, ResourceWarning, stacklevel=3)


@atexit.register
def _at_exit() -> None:
    for holder in list(_open):
        if not holder.closed:
            say(holder.held_messages, "the program ended without closing its client")
