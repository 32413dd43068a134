"""The last change of a framed client, and the answer that a repeat of it gets. Pure."""

from typing import Final

from tank_protos.iggy.commands import is_replicated
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.vsr import VsrRequest

_MOST_BYTES: Final = 64 * 1024
"""The longest answer that is kept: those of sends and changes are shorter, unless a topic has a thousand
partitions."""
_NOT_CARRIED_OUT: Final = frozenset(
    {
        IggyError.TRANSIENT_NOT_COMMITTED,
        IggyError.TRANSIENT_NOT_ACCEPTED,
        IggyError.UNAUTHENTICATED,
        IggyError.REQUEST_ALREADY_APPLIED,
    }
)
"""Errors after which the client may send the same request, and it counts."""


class LastChange:
    """One connection's. A client counts its changes from 1 at each login, under a name that it may change."""

    __slots__ = ("_answer", "_client", "_number")

    def __init__(self) -> None:
        self._client = b""
        self._number = 0
        """0: there was none."""
        self._answer = b""
        """Empty: it is too long."""

    def clear(self) -> None:
        """Forgets it, because the client counts anew."""
        self._number = 0

    def keep(self, request: VsrRequest, answer: bytes, status: int) -> None:
        """Keeps the answer to a request, if that is a change. status: the error in the answer's header."""
        if is_replicated(request.operation) and status not in _NOT_CARRIED_OUT:
            self._client, self._number = request.client, request.number
            self._answer = answer if len(answer) <= _MOST_BYTES else b""

    def answer_to(self, request: VsrRequest) -> bytes | None:
        """The answer to a request that came before; empty: it is not known any more. None: it is new."""
        if not (self._number and is_replicated(request.operation) and request.client == self._client):
            return None
        if request.number > self._number:
            return None
        return self._answer if request.number == self._number else b""
