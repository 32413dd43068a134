"""Requests about groups and offsets that wait a little while their coordinator, or a partition's leader, is
not there yet: when a broker has died, or at the first use of all."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.iggy.waits import IggyPause
from tank_protos.error_codes import ErrorCode

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

LONGEST_MS: Final = 5_000
"""How long a request waits: half of the time in which a failed broker's partitions have other leaders."""
_AGAIN_MS: Final = 50
_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOADING,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NO_LEADER,
        ErrorCode.OTHER_LEADER,
    }
)
"""Errors before which nothing was done, and that pass."""

Heard: TypeAlias = Callable[[ErrorCode, int | None], None]
"""A callback that gets an error, or what was asked for."""


class _Asking:
    """One request, until it is answered."""

    __slots__ = ("_ask", "_call", "_done", "_until_ms")

    def __init__(self, call: "IggyCall", ask: Callable[[Heard], None], done: Heard) -> None:
        self._call = call
        self._ask = ask
        self._done = done
        self._until_ms = call.session.broker.tick.monotonic_ms + LONGEST_MS

    def begin(self) -> None:
        self._call.on_close = None
        self._ask(self._heard)

    def _heard(self, error: ErrorCode, found: int | None) -> None:
        session = self._call.session
        if session.closed:
            return
        tick = session.broker.tick
        if error in _PASSING and tick.monotonic_ms < self._until_ms:
            pause = IggyPause(session.broker.deadlines, session, self.begin)
            self._call.on_close = pause.begin(_AGAIN_MS)
        else:
            self._done(error, found)


def ask_patiently(call: "IggyCall", ask: Callable[[Heard], None], done: Heard) -> None:
    """Calls `ask` with a callback, again and again while what it hears is that something is not there yet;
    then calls `done` with what it heard last, unless the connection has ended."""
    _Asking(call, ask, done).begin()


def ask_for_error(
    call: "IggyCall", ask: Callable[[Callable[[ErrorCode], None]], None], done: Callable[[ErrorCode], None]
) -> None:
    """As `ask_patiently`, for what has no result but its error."""
    ask_patiently(call, partial(_ask_alone, ask), partial(_done_alone, done))


def _ask_alone(ask: Callable[[Callable[[ErrorCode], None]], None], heard: Heard) -> None:
    ask(partial(_heard_alone, heard))


def _heard_alone(heard: Heard, error: ErrorCode) -> None:
    heard(error, None)


def _done_alone(done: Callable[[ErrorCode], None], error: ErrorCode, found: int | None) -> None:
    done(error)
