"""What requests of one connection have led to, by the bytes that they begin with: the next one that begins so
needs no look-up of streams, topics, consumers and permissions."""

from typing import Final, TypeAlias

from tank_node.cluster.view import ClusterView
from tank_node.users.logins import LoggedIn
from tank_protos.iggy.eras import Era

_MOST_HEADS: Final = 64
"""For each connection. Clients poll and send to a few topics each."""
_MOST_BYTES: Final = 1_024
"""The longest beginning that is kept: names have at most 255 bytes."""
_Version: TypeAlias = tuple[int, int, int, LoggedIn | None, Era]


class LearnedHeads:
    """A part of a session. All is forgotten when anything changes in the cluster, or when another user logs
    in: what a request may do was judged before."""

    __slots__ = ("_found", "_version")

    def __init__(self) -> None:
        self._found: dict[bytes, object] = {}
        self._version: _Version | None = None

    def find(self, head: bytes, view: ClusterView, user: LoggedIn | None, era: Era) -> object | None:
        """Returns what was kept for requests that begin so. view, user, era: those of the session now."""
        version = view.index, view.iggy.version, view.users.version, user, era
        if version != self._version:
            self._version = version
            self._found.clear()
        return self._found.get(head)

    def keep(self, head: bytes, known: object) -> None:
        """Keeps what a request has led to for which nothing was found."""
        if len(head) <= _MOST_BYTES:
            if len(self._found) >= _MOST_HEADS:
                self._found.clear()
            self._found[head] = known
