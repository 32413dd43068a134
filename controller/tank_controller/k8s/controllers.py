"""Scaling of controllers that are pods of a StatefulSet: their founders, and how one leaves.

A pod whose number is above the configured ones joins the group as an emptied controller does, as a learner
first. A controller that is no longer wanted has itself removed before it stops; the leader decides whether
enough others stay.
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
from tank_controller.raft_node.member import RaftMember
from tank_protos.generated import control_pb2 as pb

LEAVE_S = 12.0
"""How long a controller tries to leave. A pod's grace is 30 s, in which the process also waits for Kubernetes
(6 s), events (3 s) and its disk.
"""
TRY_AGAIN_S = 0.2
ASK_AGAIN_S = 1.0
"""The pause between two questions to Kubernetes; each one without an answer is logged."""
REMOVE_S = 3.0
"""How long the leader may take to remove another controller."""
_ASIDE = ".removed"

_log = logging.getLogger("tank.controller")


async def founders(named: frozenset[int], wanted: Callable[[], Awaitable[int | None]]) -> frozenset[int]:
    """The controllers that an empty one must hear from before it founds a cluster: the configured and the
    wanted ones.

    The configuration may be older than a `kubectl scale`: a single configured controller of three, emptied,
    would found a second cluster. `wanted` is called until it returns a number; `wanted` is None outside of
    Kubernetes.
    """
    number = await wanted()
    if number is None:
        _log.warning("waiting for Kubernetes to say how many controllers are wanted")
    while number is None:
        await asyncio.sleep(ASK_AGAIN_S)
        number = await wanted()
    return named | frozenset(range(min(number, MAX_CONTROLLERS)))


class Remover(Protocol):
    """The part of the service Admin that removes a controller."""

    def RemoveController(self, request: pb.RemoveControllerRequest) -> Awaitable[pb.ChangeAnswer]: ...


class Exit(Enum):
    """The next step of a controller that leaves."""

    GONE = "it is no member"
    HAND_OVER = "another has to lead"
    ASK = "the leader has to take it out"
    WAIT = "no controller leads, or none that stays could"


def next_step(
    configuration: Configuration, own: NodeId, leader: NodeId | None, wanted: int, heirs: Sequence[NodeId]
) -> tuple[Exit, NodeId | None]:
    """The step, and the next leader. `heirs`: voters that answer a leader, the best first. Pure."""
    if own not in configuration.members:
        return Exit.GONE, None
    if leader is None:
        return Exit.WAIT, None
    if leader != own:
        return Exit.ASK, None
    # Only a controller that stays and answers can take over; without one the step waits.
    heir = next((each for each in heirs if each.ordinal < wanted), None)
    return (Exit.WAIT, None) if heir is None else (Exit.HAND_OVER, heir)


async def leave_group(
    member: RaftMember,
    wanted: int,
    controller: Callable[[str], Remover],
    is_removed: Callable[[], Awaitable[bool]],
    within_s: float = LEAVE_S,
) -> str:
    """Leaves the group. Returns why it is still a member; empty when it is none any more.

    `controller`: the one at host:port. `is_removed`: whether the others say that this one was removed; needed
    when the answer to the removal was lost, because no leader talks to this controller then.
    """
    own = member.raft.own
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    why = "no controller leads"
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
    """Asks for the removal. Returns why it failed; empty when it succeeded."""
    request = pb.RemoveControllerRequest(ordinal=own.ordinal, disk=own.disk)
    try:
        async with asyncio.timeout(REMOVE_S):
            answer = await leader.RemoveController(request)
    except (grpc.aio.AioRpcError, TimeoutError):
        return "the controller that leads doesn't answer"
    if answer.HasField("not_leader"):
        return "no controller leads"
    return answer.outcome.message if answer.outcome.error else ""


def set_aside(folder: Path) -> None:
    """Sets the data of a removed controller aside, so that the next one with this number begins empty. Raises
    OSError.

    One rename: after a crash the data is complete, in either place. Data set aside earlier is deleted.
    """
    aside = folder.with_name(folder.name + _ASIDE)
    if aside.exists():
        shutil.rmtree(aside)
    folder.rename(aside)
