"""More or fewer controllers, where they are pods of a StatefulSet: where each is, and how one leaves.

A pod with a number that nobody configured joins the group as an emptied controller does, as a learner first.
One that is not wanted any more takes itself out before it stops: the leader judges whether the others are
enough.
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

import grpc.aio

from tank_controller.limits import MAX_CONTROLLERS
from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node.member import Member
from tank_protos.generated import control_pb2 as pb

LEAVE_S = 12.0
"""So long a controller tries to leave. A pod's grace is 30 s, and Kubernetes (6 s), events (3 s) and its own
disk are waited for, too."""
TRY_AGAIN_S = 0.2
ASK_AGAIN_S = 1.0
"""Between two questions to Kubernetes, each of which is logged when it has no answer."""
REMOVE_S = 3.0
"""How long the leader may take to take another one out."""
_ASIDE = ".removed"

_log = logging.getLogger("tank.controller")


async def founders(named: frozenset[int], wanted: Callable[[], Awaitable[int | None]]) -> frozenset[int]:
    """Whom an empty controller hears before it founds a cluster: those that are named, and those that are
    wanted now. The list in a pod is as old as Helm's last word: of one that `kubectl scale` made three it
    names one, which, emptied, would found a second cluster. `wanted` is asked until it says how many; None:
    nobody says."""
    number = await wanted()
    if number is None:
        _log.warning("waits for Kubernetes to say how many controllers there are to be")
    while number is None:
        await asyncio.sleep(ASK_AGAIN_S)
        number = await wanted()
    return named | frozenset(range(min(number, MAX_CONTROLLERS)))


class Remover(Protocol):
    """The part of the service Admin that takes a controller out."""

    def RemoveController(self, request: pb.RemoveControllerRequest) -> Awaitable[pb.ChangeAnswer]: ...


class Exit(Enum):
    """What a controller that leaves does next."""

    GONE = "it is no member"
    HAND_OVER = "another has to lead"
    ASK = "the leader has to take it out"
    WAIT = "nobody leads, or nobody that stays could"


def next_step(
    configuration: Configuration, own: NodeId, leader: NodeId | None, wanted: int, heirs: Sequence[NodeId]
) -> tuple[Exit, NodeId | None]:
    """The step, and who is to lead. `heirs`: voters that answer a leader, the best first. Pure."""
    if own not in configuration.members:
        return Exit.GONE, None
    if leader is None:
        return Exit.WAIT, None
    if leader != own:
        return Exit.ASK, None
    # Nothing is decided while one that is away is waited for.
    heir = next((each for each in heirs if each.ordinal < wanted), None)
    return (Exit.WAIT, None) if heir is None else (Exit.HAND_OVER, heir)


async def leave_group(
    member: Member,
    wanted: int,
    controller: Callable[[str], Remover],
    is_removed: Callable[[], Awaitable[bool]],
    within_s: float = LEAVE_S,
) -> str:
    """Why it is a member still; empty: it is none any more.

    `controller`: the one at host:port. `is_removed`: whether the others say so; the answer of the one that
    did it may be lost, and then no leader speaks to this one any more.
    """
    own = member.raft.own
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    why = "nobody leads"
    while loop.time() < deadline:
        step, heir = next_step(member.raft.configuration, own, member.raft.leader, wanted, member.heirs())
        if step is Exit.GONE:
            return ""
        if member.raft.leader == own:
            why = "it leads, and no controller that stays takes over"
        if heir is not None:
            with contextlib.suppress(ProposalRefusedError):
                member.driver.transfer_leadership(heir)
        if step is Exit.ASK and (address := member.leader_address()):
            why = await _ask(controller(address), own)
            if not why:
                return ""
        if await is_removed():
            return ""
        await asyncio.sleep(TRY_AGAIN_S)
    return why


async def _ask(leader: Remover, own: NodeId) -> str:
    """Why it was not taken out; empty: it was."""
    request = pb.RemoveControllerRequest(ordinal=own.ordinal, disk=own.disk)
    try:
        async with asyncio.timeout(REMOVE_S):
            answer = await leader.RemoveController(request)
    except (grpc.aio.AioRpcError, TimeoutError):
        return "the one that leads doesn't answer"
    if answer.HasField("not_leader"):
        return "nobody leads"
    return answer.outcome.message if answer.outcome.error else ""


def set_aside(folder: Path) -> None:
    """What a controller that was removed had: the next one with this number begins empty. OSError.

    One stroke: a crash leaves it whole, here or there. What was set aside before goes.
    """
    aside = folder.with_name(folder.name + _ASIDE)
    if aside.exists():
        shutil.rmtree(aside)
    folder.rename(aside)
