"""A server of TANK's protocol, on loopback."""

import asyncio

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.listener import Listener
from tank_node.server.server import Server
from tank_node.tank.dispatch import open_session


def tank_server(
    broker: Broker, loop: asyncio.AbstractEventLoop, limits: Limits, metrics: Metrics, port: int = 0
) -> Server:
    """Not started. port 0: one that the system chooses."""
    return Server(
        broker, loop, [Listener(("127.0.0.1", port), lambda: open_session(broker))], limits, metrics
    )
