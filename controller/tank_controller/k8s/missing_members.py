"""Members that can't come back, because Kubernetes runs fewer controllers than the group has members.

That happens after a reinstall with a smaller number, or after a scale-down that no member saw. Without a
majority there is no leader.
"""

import asyncio
import logging
from collections.abc import Callable

from tank_controller.k8s.api_server import ControllerSet
from tank_controller.raft.messages import Configuration

LOOK_S = 5.0
"""The pause between two looks, longer than an election: two looks in a row without a leader count."""
LOOKS = 60
"""The number of looks after which the same reason is logged again."""

_log = logging.getLogger("tank.controller")


def shortage(configuration: Configuration, wanted: int) -> str:
    """Why no majority of the members can run; empty: one can. `wanted`: the number of pods that Kubernetes
    runs. Pure.
    """
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
    """The looks of one controller at a group without a leader."""

    def __init__(
        self,
        kubernetes: ControllerSet,
        own: int,
        leaderless: Callable[[], Configuration | None],
        say: Callable[[str], None],
    ) -> None:
        """`own`: this controller's ordinal. `leaderless`: the members, while no leader is known; else None.
        `say`: called with the reason why there can be no leader; empty when there is none.
        """
        self._kubernetes = kubernetes
        self._own = own
        self._leaderless = leaderless
        self._looks = 0
        """How many looks in a row found no leader."""
        self._told = 0
        """How many of these looks found the same reason."""
        self._say = say

    async def look(self) -> None:
        """Looks once; called every LOOK_S. While Kubernetes doesn't say how many are wanted, nothing
        changes.
        """
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
            self._kubernetes.report_controller(self._own, f"No controller leads: {problem}.")
        self._told = self._told + 1 if problem else 0

    async def keep_looking(self) -> None:
        """Looks again and again, for the life of the process."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:  # a failed look must not end the later ones
                _log.exception("a fault of this program, in a look at members that can't come back")
