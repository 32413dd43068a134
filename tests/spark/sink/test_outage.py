"""The kill in the example: once, in the middle, of the broker that leads most; and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from examples.flights_data import FLIGHTS
from examples.outage import Outage

if TYPE_CHECKING:
    from examples.cluster import Cluster
    from examples.load import Loader

JULY_MS = 1_372_982_160_000


class World:
    """A cluster of which only the leaders are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.leaders = {0: 1, 1: 3, 2: 2, 3: 3}
        self.killed: list[int] = []
        self.said: list[str] = []
        self.outage = Outage(cast("Cluster", self), "flights", self.said.append)
        monkeypatch.setattr(self.outage, "leaders", lambda: self.leaders)

    def kill(self, broker_id: int) -> int:
        self.killed.append(broker_id)
        self.leaders = {0: 1, 1: 2, 2: 2, 3: 1}
        return 4711

    def day(self, sent: int, date_ms: int = JULY_MS) -> None:
        """So many flights are acknowledged."""
        self.outage.on_day(cast("Loader", SimpleNamespace(sent=sent, date_ms=date_ms)))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_nobody_is_killed_in_the_first_half(world: World) -> None:
    world.day(0)
    world.day(FLIGHTS // 2 - 1)
    assert (world.killed, world.said, world.outage.killed) == ([], [], None)


def test_who_leads_most_is_killed_once_and_the_next_day_tells_who_leads_now(world: World) -> None:
    world.day(FLIGHTS // 2)
    assert world.killed == [3]
    assert "kill -9" in world.said[0]
    assert "after 168,388 flights: broker 3 (process 4711), which leads partitions 1 and 3" in world.said[0]
    before = world.outage.killed
    assert before is None, "nothing is acknowledged since"
    world.day(FLIGHTS // 2 + 900, JULY_MS + 86_400_000)
    assert "brokers 1 and 2 lead partitions 1 and 3 now, and broker 3 stays dead" in world.said[1]
    killed = world.outage.killed
    assert killed is not None
    assert (killed.broker_id, killed.date_ms) == (3, JULY_MS)
    world.day(FLIGHTS)
    assert (world.killed, len(world.said)) == ([3], 2)
