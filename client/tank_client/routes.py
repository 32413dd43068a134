"""Where requests go: the servers that were named, and what redirects and metadata taught; pure."""

from collections.abc import Iterable, Sequence

from tank_client import errors
from tank_client.model import Address
from tank_protos.names import topic_name_problem

Route = tuple[str, int]
"""A topic and a partition."""
Term = tuple[int, int]
"""Which of two words about a leader is newer: the topic's id, and the leader epoch."""


def check_topic(topic: str) -> None:
    """InvalidArgument for what can be no topic's name: said here, and not by a connection that breaks."""
    if not isinstance(topic, str):
        raise errors.InvalidArgument(f"a topic's name is a str, not {type(topic).__name__}: {topic!r}")
    problem = topic_name_problem(topic)
    if problem:
        raise errors.InvalidArgument(f"topic {topic!r}: {problem}")


class Routes:
    """Leaders that were learned, and the servers that are asked about everything else: those that the user
    named, and behind them the brokers that metadata named last.

    Bounded: at most `MAX_ROUTES` leaders are kept; beyond that all are forgotten and learned again. At most
    `MAX_BROKERS` brokers stand behind the user's servers: more are not needed to find one that answers.
    """

    __slots__ = ("_at", "_cursor", "_down", "_leaders", "_named", "_servers", "_terms")
    MAX_ROUTES = 100_000
    MAX_BROKERS = 64

    def __init__(self, servers: Sequence[Address], first: int = 0) -> None:
        self._named = list(servers)
        # Invariant: begins with `_named`; `_at` and `_cursor` are places in it.
        self._servers = list(servers)
        self._at = self._cursor = first % len(self._servers)
        # Servers that failed and have not answered since: asked when there is no other.
        self._down: set[Address] = set()
        self._leaders: dict[Route, Address] = {}
        # Of leaders that metadata named. Invariant: each is in `_leaders`, too.
        self._terms: dict[Route, Term] = {}

    def target(self, route: Route | None) -> Address:
        """Whom to ask: the leader when it is known, else the server that answered last."""
        leader = self._leaders.get(route) if route is not None else None
        return leader if leader is not None else self._servers[self._at]

    def knows(self, route: Route) -> bool:
        """Whether somebody is believed to lead it."""
        return route in self._leaders

    def led_by(self, address: Address) -> list[Route]:
        """All that this broker is believed to lead."""
        return [route for route, leader in self._leaders.items() if leader == address]

    def learn(self, route: Route, leader: Address, term: Term | None = None) -> None:
        """That broker leads this partition. With a term that is older than the one known it is ignored: it
        comes from a broker that has not heard of the newer leader."""
        if term is not None and term < self._terms.get(route, term):
            return
        if len(self._leaders) >= self.MAX_ROUTES and route not in self._leaders:
            self._leaders.clear()
            self._terms.clear()
        self._leaders[route] = leader
        if term is not None:
            self._terms[route] = term

    def forget(self, route: Route) -> None:
        """The leader known for it is none any more."""
        self._leaders.pop(route, None)
        self._terms.pop(route, None)

    def failed(self, address: Address) -> None:
        """That broker does not answer: it leads nothing any more, and the next server in the list is asked.

        Also when it was only believed to lead something: whoever said so may have been behind, and would say
        it again."""
        gone = [route for route, leader in self._leaders.items() if leader == address]
        for route in gone:
            self.forget(route)
        if address in self._servers:
            self._down.add(address)
        if gone or self._servers[self._at] == address:
            self._at = self._next(self._at, address)

    def answered(self, address: Address) -> None:
        """That broker took a connection."""
        self._down.discard(address)

    def leave(self, address: Address) -> None:
        """That server can't tell: another one is asked from now on."""
        if self._servers[self._at] == address:
            self._at = self._next(self._at, address)

    def other(self, than: Address) -> Address:
        """A server to ask instead, each time another one; the same where there is no other."""
        self._cursor = self._next(self._cursor, than)
        return self._servers[self._cursor]

    def know(self, brokers: Iterable[Address]) -> None:
        """The cluster's brokers as they are now: they are asked, too, when the servers that were named do not
        answer."""
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
        """All that may be asked: the user's, and the brokers behind them."""
        return list(self._servers)
