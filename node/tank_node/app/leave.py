"""`tank-node leave`: waits until this broker's process may be stopped. What a pod's preStop runs.

The controllers decide (`Brokers.Leave`); here they are asked, again and again, until they say so, or the time
is up, or none of them is there to ask. A cluster that is taken down stops its controllers, too, and takes
their names away: then it is not waited for them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tank_protos.generated import control_pb2 as pb

ASK_EVERY_S = 0.5
ANSWER_S = 7.0
"""How long one controller's answer may take: it asks Kubernetes first, for up to 6 s."""
SILENT_S = 30.0
"""So long none may answer: longer than it takes to find out that two of them, as many of five as may be
lost, don't answer at all. While some answer, and none leads, they are waited for: they alone know whether the
broker leaves with what nobody else has."""
NAMELESS_S = 3.0
"""So long, and over a round of all of them, no controller may have a name: then their pods and their Service
were taken away, for what merely crashed keeps its name. A name server that doesn't answer says nothing."""
TELL_EVERY_S = 5.0
"""What changes all the time is told so often."""


class Ending(Enum):
    """How the waiting ended."""

    MAY_STOP = "may stop"
    TIME_IS_UP = "time is up"
    NOBODY_ANSWERS = "nobody answers"
    TAKEN_DOWN = "the controllers were taken away"


@dataclass(slots=True, frozen=True)
class Waited:
    """What came of it."""

    ending: Ending
    reason: str
    """The controllers' last word; empty when there was none."""


Ask = Callable[[str], Awaitable[pb.LeaveAnswer | None]]
"""Asks the controller at host:port; None: it can't be reached."""
IsNamed = Callable[[str], Awaitable[bool]]
"""Whether there is a host of this host:port; True while no name server says that there is none."""


async def wait_to_leave(
    controllers: Sequence[str],
    within_s: float,
    ask: Ask,
    is_named: IsNamed,
    now: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[str], None],
) -> Waited:
    """Asks until the process may be stopped, for at most so long. `now` never goes back; seconds."""
    began = heard = named = now()
    nameless = 0
    reason, told_at = "", began - TELL_EVERY_S
    leader, at, hopped = "", 0, False
    while True:
        asked = leader or controllers[at]
        answer = await ask(asked)
        heard = heard if answer is None else now()
        if answer is None and not await is_named(asked):
            nameless += 1
        else:
            named, nameless = now(), 0
        if answer is None or answer.HasField("not_leader"):
            says = "" if answer is None else answer.not_leader.leader
            at = at if says else (at + 1) % len(controllers)
            hopped = bool(says) and not hopped  # two that name each other are not asked without a pause
            leader = says
        else:
            hopped = False
            if answer.may_stop:
                return Waited(Ending.MAY_STOP, answer.reason)
            if answer.reason != reason and now() - told_at >= TELL_EVERY_S:
                tell(answer.reason)
                told_at = now()
            reason = answer.reason
        if now() - began >= within_s:
            return Waited(Ending.TIME_IS_UP, reason)
        if nameless >= len(controllers) and now() - named >= NAMELESS_S:
            return Waited(Ending.TAKEN_DOWN, reason)
        if now() - heard >= SILENT_S:
            return Waited(Ending.NOBODY_ANSWERS, reason)
        if not hopped:
            await sleep(ASK_EVERY_S)
