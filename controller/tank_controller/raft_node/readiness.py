"""Whether a controller that has started takes part in its group again. Pure.

A rolling update replaces one pod after the other, each when the last one is ready. So a controller becomes
ready only when it has heard from a leader, can reach the leader, and has applied what was committed then: a
wrong address or a failed DNS must stop the update at the first pod. Once ready it stays ready: without a
leader, taking all controllers out of service would help no client.
"""

import logging
from dataclasses import dataclass
from typing import Final

_log = logging.getLogger("tank.controller")

HOLDS_VOTE: Final = (
    "it votes for no controller yet: it asks the others how far they are, for its disk may have been put "
    "back, and too few have answered; start them, or see that it reaches them"
)
SAID_AFTER_TICKS: Final = 60
"""Three seconds without a leader are longer than an election, and are logged."""


@dataclass(slots=True, frozen=True)
class Sight:
    """What a controller knows of the group's leader, at one moment."""

    leads: bool
    """This controller leads, and takes commands."""
    leader: str
    """The leader's address; empty: none is known."""
    reached: bool
    """Whether messages from this controller arrive at the leader."""
    commit_index: int
    applied_index: int
    holds_vote: bool = False
    """Whether the disk may be an older copy of itself: the controller votes when enough others have said
    where their logs end.
    """


class Readiness:
    """The readiness of one controller process."""

    def __init__(self) -> None:
        self._joined = False
        self._goal: int | None = None
        """The commit index when a leader was first heard and reached; None: not yet."""
        self._sight = Sight(False, "", False, 0, 0)
        self._ticks_without = 0

    @property
    def waits_for(self) -> str:
        """Why the controller is not ready yet; empty: it is ready."""
        if self._joined:
            return ""
        if not self._sight.leader and self._sight.holds_vote:
            return HOLDS_VOTE
        if not self._sight.leader:
            return (
                "it has heard from no controller that leads since it started: start the others, and see that "
                "they reach this one at its address"
            )
        if self._goal is None:
            return (
                f"it hears from the leading controller, but can't reach it at {self._sight.leader}: check "
                "the addresses in --cluster, and that their names are found"
            )
        return f"it has applied entry {self._sight.applied_index} of {self._goal}"

    @property
    def notice(self) -> str:
        """What is wrong with the group while this controller is ready; empty: nothing."""
        if not self._joined or self.knows_leader:
            return ""
        return "no controller leads: more than half of the controllers must run, and reach each other"

    @property
    def knows_leader(self) -> bool:
        """Whether this controller leads, or has heard from the leader."""
        return self._sight.leads or bool(self._sight.leader)

    def look(self, sight: Sight) -> None:
        """Takes what the controller knows now. Called at every tick."""
        self._sight = sight
        if not self._joined:
            self._join(sight)
        if self.knows_leader:
            if self._ticks_without >= SAID_AFTER_TICKS:
                _log.info("a controller leads again: %s", sight.leader or "this one")
            self._ticks_without = 0
            return
        self._ticks_without += 1
        if self._ticks_without == SAID_AFTER_TICKS:
            _log.warning("%s", self.notice or self.waits_for)

    def _join(self, sight: Sight) -> None:
        if sight.leads:
            self._joined = True
        elif sight.leader and sight.reached:
            self._goal = sight.commit_index if self._goal is None else self._goal
            self._joined = sight.applied_index >= self._goal
