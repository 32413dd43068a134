"""The brokers that requests go to: the servers that the user named, and leaders learned from redirects and
metadata; pure.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tank_client import errors
from tank_client.model import Address, Route
from tank_protos.wire.names import topic_name_problem

Term = tuple[int, int]
"""(topic id, leader epoch): of two statements about a leader, the greater one is newer."""


class Gone(NamedTuple):
    """The leader of a partition when it was forgotten."""

    leader: Address
    term: Term | None
    unreachable: bool
    """Whether it accepted no connection: then only a greater term makes it the leader again."""

    def is_meant(self, leader: Address, term: Term | None) -> bool:
        """Whether this is the same leader in the same epoch, as far as is known."""
        return leader == self.leader and (term is None or self.term is None or term <= self.term)


def check_topic(topic: str) -> None:
    """Raises InvalidArgument for a text that cannot be a topic's name, before a broker ends the connection
    for it."""
    if not isinstance(topic, str):
        raise errors.InvalidArgument(f"a topic's name is a str, not {type(topic).__name__}: {topic!r}")
    problem = topic_name_problem(topic)
    if problem:
        raise errors.InvalidArgument(f"topic {topic!r}: {problem}")


class Routes:
    """The known leaders, and the servers for all other requests: those that the user named, then the brokers
    that metadata named last.

    Bounded: at most `MAX_ROUTES` leaders are kept; beyond that all are forgotten and learned again. At most
    `MAX_BROKERS` brokers stand behind the user's servers: more are not needed to find one that answers.
    """

    __slots__ = ("_at", "_cursor", "_down", "_gone", "_leaders", "_named", "_servers", "_terms")
    MAX_ROUTES = 100_000
    MAX_BROKERS = 64

    def __init__(self, servers: Sequence[Address], first: int = 0) -> None:
        self._named = list(servers)
        # Invariant: begins with `_named`; `_at` and `_cursor` are indexes in it.
        self._servers = list(servers)
        self._at = self._cursor = first % len(self._servers)
        # Servers that failed and have not answered since: asked only when there is no other.
        self._down: set[Address] = set()
        self._leaders: dict[Route, Address] = {}
        # The terms of leaders that metadata named. Invariant: each is in `_leaders`, too.
        self._terms: dict[Route, Term] = {}
        # The terms of leaders that were forgotten. Invariant: none of its keys is in `_leaders`.
        self._gone: dict[Route, Gone] = {}

    def target(self, route: Route | None) -> Address:
        """Returns the broker to ask: the leader when it is known, else the server that answered last."""
        leader = self._leaders.get(route) if route is not None else None
        return leader if leader is not None else self._servers[self._at]

    def knows(self, route: Route) -> bool:
        """Whether the partition's leader is known."""
        return route in self._leaders

    def is_elsewhere(self, route: Route, address: Address) -> bool:
        """Whether the known leader of the partition is another broker than this one."""
        return self._leaders.get(route, address) != address

    def led_by(self, address: Address) -> list[Route]:
        """Returns all partitions whose known leader is this broker."""
        return [route for route, leader in self._leaders.items() if leader == address]

    def learn(self, route: Route, leader: Address, term: Term | None = None) -> bool:
        """Notes the leader of a partition; returns whether it is news. Ignores an older term than the known
        one, which comes from a broker that has not learned of the newer leader; and, before `forgive`, a
        leader that accepted no connection.
        """
        if term is not None and term < self._terms.get(route, term):
            return False
        gone = self._gone.get(route)
        same = gone is not None and gone.is_meant(leader, term)
        if gone is not None and same and gone.unreachable and gone.term is not None:
            return False
        if len(self._leaders) >= self.MAX_ROUTES and route not in self._leaders:
            self._leaders.clear()
            self._terms.clear()
        before = self._leaders.get(route)
        self._gone.pop(route, None)
        self._leaders[route] = leader
        if term is not None:
            self._terms[route] = term
        return not same and before != leader

    def forget(self, route: Route, *, unreachable: bool = False) -> None:
        """Notes that the known leader has been replaced, or accepted no connection (`unreachable`)."""
        leader, term = self._leaders.pop(route, None), self._terms.pop(route, None)
        if leader is None:
            return
        if len(self._gone) >= self.MAX_ROUTES:
            self._gone.clear()
        self._gone[route] = Gone(leader, term, unreachable)

    def forgive(self, route: Route) -> None:
        """Allows a leader that accepted no connection to be named again."""
        self._gone.pop(route, None)

    def lost(self, address: Address) -> None:
        """Notes that the connection to that broker broke: it no longer counts as a leader, and the next
        server in the list is asked. A live broker will be named again.
        """
        self._leave_all(address, unreachable=False)

    def failed(self, address: Address) -> None:
        """Notes that the broker accepts no connection. Until `forgive`, an answer that names it as a leader
        is ignored, because the answer may be old.
        """
        self._leave_all(address, unreachable=True)

    def _leave_all(self, address: Address, *, unreachable: bool) -> None:
        gone = [route for route, leader in self._leaders.items() if leader == address]
        for route in gone:
            self.forget(route, unreachable=unreachable)
        if address in self._servers:
            self._down.add(address)
        if gone or self._servers[self._at] == address:
            self._at = self._next(self._at, address)

    def answered(self, address: Address) -> None:
        """Notes that the broker accepted a connection."""
        self._down.discard(address)
        for route in [route for route, gone in self._gone.items() if gone.leader == address]:
            del self._gone[route]

    def leave(self, address: Address) -> None:
        """Makes requests go to another server from now on."""
        if self._servers[self._at] == address:
            self._at = self._next(self._at, address)

    def other(self, than: Address) -> Address:
        """Returns another server to ask, each time the next one; the same where there is no other."""
        self._cursor = self._next(self._cursor, than)
        return self._servers[self._cursor]

    def others(self, than: Collection[Address]) -> list[Address]:
        """Returns the servers other than these; those that accepted no connection come last."""
        return sorted((each for each in self._servers if each not in than), key=self._down.__contains__)

    def know(self, brokers: Iterable[Address]) -> None:
        """Takes the cluster's present brokers, which are asked when the user's servers do not answer."""
        at, cursor = self._servers[self._at], self._servers[self._cursor]
        behind = [broker for broker in dict.fromkeys(brokers) if broker not in self._named]
        self._servers = self._named + behind[: self.MAX_BROKERS]
        self._down.intersection_update(self._servers)
        self._at, self._cursor = self._place(at), self._place(cursor)

    def _next(self, place: int, than: Address) -> int:
        count = len(self._servers)
        turn = [(place + step) % count for step in range(1, count + 1)]
        others = [at for at in turn if self._servers[at] != than] or [place]
        up = [at for at in others if self._servers[at] not in self._down]
        return (up or others)[0]

    def _place(self, address: Address) -> int:
        return self._servers.index(address) if address in self._servers else 0

    @property
    def servers(self) -> list[Address]:
        """The servers named by the user."""
        return list(self._named)

    @property
    def known_servers(self) -> list[Address]:
        """All servers: the user's, then the brokers that metadata named."""
        return list(self._servers)
