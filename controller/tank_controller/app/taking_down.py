"""The end of a whole release: its controllers stay until its brokers have stopped, for they let them go."""

import asyncio
import logging
import time

from tank_controller.k8s.client import Kubernetes
from tank_controller.node import Rooms

STAY_S = 10.0
"""At most: less than any pod's grace, with room for a disk that is slow."""
LEADERLESS_S = 2.0
"""So long there may be no leader: with those that are left there will be none any more."""
LOOK_EVERY_S = 0.1

_log = logging.getLogger("tank.controller")


async def see_brokers_off(rooms: Rooms | None, kubernetes: Kubernetes | None) -> bool:
    """Whether the release is taken down; then it returns when its brokers have stopped, or won't be heard."""
    if rooms is None or kubernetes is None or not await kubernetes.is_taken_down():
        return False
    _log.info("the whole cluster is taken down: waits for its brokers to stop")
    began = led = time.monotonic()
    while time.monotonic() - began < STAY_S:
        if all(broker.fenced for broker in rooms.metadata.state.brokers.values()):
            return True
        led = time.monotonic() if rooms.member.raft.leader is not None else led
        if time.monotonic() - led >= LEADERLESS_S:
            return True
        await asyncio.sleep(LOOK_EVERY_S)
    _log.info("some brokers have not stopped within %d s", int(STAY_S))
    return True
