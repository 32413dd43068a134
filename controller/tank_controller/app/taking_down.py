"""The end of a controller that others still need.

- A leader transfers leadership before its process ends.
- At the end of a whole release controllers stay until the brokers have stopped, because brokers ask them
  before they stop.
"""

import asyncio
import contextlib
import logging
import time

from tank_controller.k8s.client import Kubernetes
from tank_controller.node import ControllerNode
from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft_node.ticks import TICK_MS

STAY_S = 10.0
"""The longest wait for brokers: less than any pod's grace period, with time for a slow disk."""
LEADERLESS_S = 2.0
"""How long there may be no leader; after that, too few controllers are left to elect one."""
LOOK_EVERY_S = 0.1
HAND_OVER_TRIES = 20
"""Ticks that a leader which stops waits for the next one."""

_log = logging.getLogger("tank.controller")


async def see_brokers_off(node: ControllerNode | None, kubernetes: Kubernetes | None) -> bool:
    """Returns whether the release is taken down. If so, returns only when its brokers have stopped, or can't
    be heard any more.
    """
    if node is None or kubernetes is None or not await kubernetes.is_taken_down():
        return False
    _log.info("the whole release is taken down: waiting for its brokers to stop")
    began = led = time.monotonic()
    while time.monotonic() - began < STAY_S:
        if all(broker.fenced for broker in node.metadata.state.brokers.values()):
            return True
        led = time.monotonic() if node.member.raft.leader is not None else led
        if time.monotonic() - led >= LEADERLESS_S:
            return True
        await asyncio.sleep(LOOK_EVERY_S)
    _log.info("some brokers have not stopped within %d s", int(STAY_S))
    return True


async def hand_over(node: ControllerNode | None) -> None:
    """Transfers leadership before the process ends, so that the group is never without a leader.

    It tries again and again: during a rolling restart the best successor may be away, or go again.
    """
    member = None if node is None else node.member
    if member is None or len(member.raft.configuration.voters) == 1:
        return
    for _ in range(HAND_OVER_TRIES):
        if not member.leads():
            return
        if heirs := member.heirs():
            with contextlib.suppress(ProposalRefusedError):
                member.driver.transfer_leadership(heirs[0])
        await asyncio.sleep(TICK_MS / 1000)
