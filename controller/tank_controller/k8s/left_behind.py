"""Controllers that nobody wants any more and that count still: a pod that was deleted by force, or was on a
node that is lost, doesn't take itself out of the group. The one that leads tells of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

LOOK_S = 60.0
"""Longer than a pod's grace: one that is there at two looks in a row doesn't leave by itself."""
LOOKS = 5
"""So often it is looked until the same is told again."""

_log = logging.getLogger("tank.controller")


class Wanted(Protocol):
    """As `tank_controller.k8s.client.Kubernetes` has it."""

    def wanted_controllers(self) -> Awaitable[int | None]: ...
    def tell_of_controller(self, ordinal: int, text: str) -> None: ...


class LeftBehind:
    """What one controller has seen of them, look by look."""

    def __init__(
        self, kubernetes: Wanted, silent: Callable[[], Sequence[int]], members: Callable[[], int]
    ) -> None:
        """silent: the ordinals of those that count and don't answer, while this one leads; else none.
        members: how many count."""
        self._kubernetes = kubernetes
        self._silent = silent
        self._members = members
        self._seen: dict[int, int] = {}
        """Those that are not wanted, and at how many looks in a row they counted."""

    async def look(self) -> None:
        """Once; LOOK_S apart. While Kubernetes doesn't say how many are wanted, nothing changes."""
        wanted: int | None = 0
        if silent := self._silent():
            wanted = await self._kubernetes.wanted_controllers()
            if wanted is None:
                return
            silent = [ordinal for ordinal in silent if wanted and ordinal >= wanted]
        self._seen = {ordinal: self._seen.get(ordinal, 0) + 1 for ordinal in silent}
        for ordinal, looks in self._seen.items():
            if looks % LOOKS == 2:
                self._kubernetes.tell_of_controller(
                    ordinal,
                    f"Controller {ordinal} is not wanted any more ({wanted} of {self._members()} are), "
                    "doesn't answer, and counts as a member for good: tank cluster remove-controller "
                    f"{ordinal}, while most of those that count run; or scale back up.",
                )

    async def keep_looking(self) -> None:
        """For the life of a process."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:  # it is news, and no reason to end
                _log.exception("a fault of this program, in a look at who was left behind")
