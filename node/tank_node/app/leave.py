"""`tank-node leave`: waits until this broker's process may be stopped. A pod's preStop hook runs it.

The controllers decide (`Brokers.Leave`). They are asked again and again until they allow the stop, the time
is up, or no controller answers. When a cluster is deleted, its controllers and their names go too, and the
wait ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tank_protos.generated import control_pb2 as pb

ASK_EVERY_S = 0.5
ANSWER_S = 7.0
"""How long one controller's answer may take: a controller asks Kubernetes first, for up to 6 s."""
SILENT_S = 30.0
"""How long no controller may answer before the wait ends. It is longer than two of them, as many of five as
may be lost, take to time out. While any answers, the wait goes on, even without a leader: only the
controllers know whether this broker holds the last copy of something."""
NAMELESS_S = 3.0
"""How long, and for at least one round over all controllers, no controller's name may exist before the wait
ends: their pods and Service were deleted then, because a crashed controller keeps its name. A name server
that doesn't answer doesn't count."""
TELL_EVERY_S = 5.0
"""The shortest time between two messages on a changing reason."""


class Ending(Enum):
    """How the wait ended."""

    MAY_STOP = "may stop"
    TIME_IS_UP = "time is up"
    NOBODY_ANSWERS = "no controller answers"
    TAKEN_DOWN = "the controllers were taken away"


@dataclass(slots=True, frozen=True)
class Waited:
    """The result of the wait."""

    ending: Ending
    reason: str
    """The controllers' last reason; empty when there was none."""


Ask = Callable[[str], Awaitable[pb.LeaveAnswer | None]]
"""Asks the controller at host:port; None: it can't be reached."""
IsNamed = Callable[[str], Awaitable[bool]]
"""Whether the host of this host:port exists; False only when a name server says that it doesn't."""


async def wait_to_leave(
    controllers: Sequence[str],
    within_s: float,
    ask: Ask,
    is_named: IsNamed,
    now: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[str], None],
) -> Waited:
    """Asks until the process may be stopped, for at most `within_s`. now: monotonic seconds. tell: called
    with the reasons for waiting, as they change."""
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
            hopped = bool(says) and not hopped  # pauses when two controllers name each other as the leader
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
