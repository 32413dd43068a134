"""Warns of messages that a producer gave up without an answer, so that an end without a flush is not silent.

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
        """The number of messages that have no outcome yet."""


_open: Final[weakref.WeakSet[Holder]] = weakref.WeakSet()
"""Engines that were not closed. At the interpreter's exit, the messages that they hold are warned of."""


def watch(holder: Holder) -> None:
    """Watches an engine, until `unwatch`."""
    _open.add(holder)


def unwatch(holder: Holder) -> None:
    """Forgets an engine that ended in order."""
    _open.discard(holder)


def say(messages: int, why: str) -> None:
    """Warns of messages that were not acknowledged; `why` ends the sentence, as in "the program ended". Does
    nothing when there are none."""
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
