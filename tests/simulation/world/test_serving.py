"""A broker's connections in the simulated world end as real ones do."""

from typing import cast

import pytest

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.partition.waiters import Tick
from tank_node.session import Session
from tests.simulation.world.network import End, Network, Stream, Weather
from tests.simulation.world.serving import Addresses, Server, SimulatedDialer
from tests.simulation.world.world import SECOND, Life, World


class _Silent:
    """What the server needs of a broker."""

    rolled = False

    def __init__(self) -> None:
        self.tick: Tick[object] = Tick()
        self.limits = Limits()

    def begin_tick(self) -> None:
        """Nothing is due."""

    end_tick = begin_tick


@pytest.fixture
def connected() -> tuple[World, Session, Session]:
    """Two brokers, and the session that each has at its end of a connection between them."""
    world = World(1)
    network, addresses = Network(world, Weather()), Addresses()
    servers = [
        Server(world, network, name, Life(name, lambda: None, lambda power: None), cast(Broker, _Silent()))
        for name in ("b1", "b2")
    ]
    accepted = Session()

    def accept(stream: Stream, end: End, port: int) -> None:
        line = servers[1].dial(Session())
        servers[1].join(line, stream, end)
        line.session.become(accepted)

    servers[1].accept = accept  # type: ignore[method-assign]
    addresses.servers["b2"] = servers[1]
    dialed = Session()
    SimulatedDialer(servers[0], addresses).dial("b2", 1, dialed)
    world.run_until(world.now + SECOND)
    return world, dialed, accepted


def test_a_session_that_took_a_connection_over_can_end_it(connected: tuple[World, Session, Session]) -> None:
    world, dialed, accepted = connected
    accepted.hang_up("replaced")
    assert (accepted.closed, dialed.closed) == (True, False), "the other end has not heard of it yet"
    world.run_until(world.now + SECOND)
    assert (accepted.closed, dialed.closed) == (True, True)
    assert world.counts["connections replaced"] == 1
