"""Events about controllers that are still members, although Kubernetes runs fewer.

A pod that was deleted by force, or was on a lost node, doesn't remove itself from the group. The leading
controller writes an event for each such member.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tank_controller.k8s.api_server import ControllerSet

LOOK_S = 60.0
"""Longer than a pod's grace: a member that is seen at two looks in a row doesn't leave by itself."""
LOOKS = 5
"""The number of looks after which the same event is written again."""

_log = logging.getLogger("tank.controller")


class LeftBehind:
    """The looks of one controller at members that are not wanted."""

    def __init__(
        self, kubernetes: ControllerSet, silent: Callable[[], Sequence[int]], members: Callable[[], int]
    ) -> None:
        """`silent`: the ordinals of members that don't answer, while this controller leads; else empty.
        `members`: the number of members.
        """
        self._kubernetes = kubernetes
        self._silent = silent
        self._members = members
        self._seen: dict[int, int] = {}
        """Members that are not wanted, and at how many looks in a row they were seen."""

    async def look(self) -> None:
        """Looks once; called every LOOK_S. While Kubernetes doesn't say how many are wanted, nothing
        changes.
        """
        wanted: int | None = 0
        if silent := self._silent():
            wanted = await self._kubernetes.wanted_controllers()
            if wanted is None:
                return
            silent = [ordinal for ordinal in silent if wanted and ordinal >= wanted]
        self._seen = {ordinal: self._seen.get(ordinal, 0) + 1 for ordinal in silent}
        for ordinal, looks in self._seen.items():
            if looks % LOOKS == 2:
                self._kubernetes.report_controller(
                    ordinal,
                    f"Controller {ordinal} is not wanted any more ({wanted} of {self._members()} are), "
                    "doesn't answer, and counts as a member for good: tank cluster remove-controller "
                    f"{ordinal}, while most of those that count run; or scale back up.",
                )

    async def keep_looking(self) -> None:
        """Looks again and again, for the life of the process."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:  # a failed look must not end the later ones
                _log.exception("a fault of this program, in a look at members that were left behind")
