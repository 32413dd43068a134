"""Members that can't come back, because Kubernetes is to run fewer controllers than count: after a reinstall
with a smaller number, or a scale-down that none of them saw. Where no majority is left, nobody leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from tank_controller.raft.messages import Configuration

LOOK_S = 5.0
"""Longer than an election takes: it counts when two looks in a row find no leader."""
LOOKS = 60
"""So often it is looked until the same is told again."""

_log = logging.getLogger("tank.controller")


class Wanted(Protocol):
    """As `tank_controller.k8s.client.Kubernetes` has it."""

    def wanted_controllers(self) -> Awaitable[int | None]: ...
    def tell_of_controller(self, ordinal: int, text: str) -> None: ...


def shortage(configuration: Configuration, wanted: int) -> str:
    """Why no majority can come together; empty: it can. `wanted`: so many pods Kubernetes is to run. Pure."""
    voters = {voter.ordinal for voter in configuration.voters}
    needed = len(voters) // 2 + 1
    left = sum(1 for ordinal in voters if ordinal < wanted)
    if not wanted or left >= needed:
        return ""
    runs = "1 is" if wanted == 1 else f"{wanted} are"
    return (
        f"{len(voters)} controllers are members of the cluster, {needed} of them have to run, and only "
        f"{runs} wanted: scale the StatefulSet to {max(voters) + 1} (Helm: controller.replicas), and down "
        "from there once they are ready"
    )


class MissingMembers:
    """What one controller knows of it, look by look."""

    def __init__(
        self,
        kubernetes: Wanted,
        own: int,
        leaderless: Callable[[], Configuration | None],
        say: Callable[[str], None],
    ) -> None:
        """own: this controller's ordinal. leaderless: its members, while it knows no leader; else None.
        say: is told what keeps the cluster from having one; empty: not this."""
        self._kubernetes = kubernetes
        self._own = own
        self._leaderless = leaderless
        self._looks = 0
        """That found no leader, in a row."""
        self._told = 0
        """At how many of them the same was so."""
        self._say = say

    async def look(self) -> None:
        """Once; LOOK_S apart. While Kubernetes doesn't say how many are wanted, nothing changes."""
        members = self._leaderless()
        if members is None:
            self._looks = self._told = 0
            self._say("")
            return
        self._looks += 1
        if self._looks < 2:
            return
        wanted = await self._kubernetes.wanted_controllers()
        if wanted is None:
            return
        problem = shortage(members, wanted)
        self._say(problem)
        if problem and self._told % LOOKS == 0:
            self._kubernetes.tell_of_controller(self._own, f"No controller leads: {problem}.")
        self._told = self._told + 1 if problem else 0

    async def keep_looking(self) -> None:
        """For the life of a process."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:  # it is news, and no reason to end
                _log.exception("a fault of this program, in a look at members that can't come back")
