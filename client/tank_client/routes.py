"""Where requests go: the servers that were named, and what redirects and metadata taught; pure."""

from collections.abc import Sequence

from tank_client import errors
from tank_client.model import Address
from tank_protos.names import topic_name_problem

Route = tuple[str, int]
"""A topic and a partition."""


def check_topic(topic: str) -> None:
    """InvalidArgument for what can be no topic's name: said here, and not by a connection that breaks."""
    if not isinstance(topic, str):
        raise errors.InvalidArgument(f"a topic's name is a str, not {type(topic).__name__}: {topic!r}")
    problem = topic_name_problem(topic)
    if problem:
        raise errors.InvalidArgument(f"topic {topic!r}: {problem}")


class Routes:
    """Leaders that were learned, and the server that is asked about everything else.

    Bounded: at most `MAX_ROUTES` leaders are kept; beyond that all are forgotten and learned again.
    """

    __slots__ = ("_at", "_leaders", "_servers")
    MAX_ROUTES = 100_000

    def __init__(self, servers: Sequence[Address], first: int = 0) -> None:
        self._servers = list(servers)
        self._at = first % len(self._servers)
        self._leaders: dict[Route, Address] = {}

    def target(self, route: Route | None) -> Address:
        """Whom to ask: the leader when it is known, else the server that answered last."""
        leader = self._leaders.get(route) if route is not None else None
        return leader if leader is not None else self._servers[self._at]

    def learn(self, route: Route, leader: Address) -> None:
        """That broker leads this partition."""
        if len(self._leaders) >= self.MAX_ROUTES and route not in self._leaders:
            self._leaders.clear()
        self._leaders[route] = leader

    def forget(self, route: Route) -> None:
        """The leader known for it is none any more."""
        self._leaders.pop(route, None)

    def failed(self, address: Address) -> None:
        """That broker does not answer: it leads nothing any more, and the next server in the list is
        asked."""
        self._leaders = {route: leader for route, leader in self._leaders.items() if leader != address}
        if self._servers[self._at] == address:
            self._at = (self._at + 1) % len(self._servers)

    @property
    def servers(self) -> list[Address]:
        """The servers named by the user."""
        return list(self._servers)
