"""Answers whether a broker that is about to stop may stop: the leader's `scaling` decides."""

import asyncio
import time

from tank_controller.commands.outcome import Rejected
from tank_controller.k8s.client import Kubernetes
from tank_controller.leader.scaling import Pod
from tank_controller.node import ControllerNode
from tank_protos.generated import control_pb2 as pb

MAX_POD_NAME = 253
"""The longest name in Kubernetes, in characters."""
MAX_POD_UID = 64
"""The longest UID, in characters; a UID is a UUID."""


async def may_leave(
    node: ControllerNode | None, kubernetes: Kubernetes | None, request: pb.LeaveRequest
) -> pb.LeaveAnswer:
    """Decides whether the broker may stop; only the leader decides. The leader first reads the wanted number
    of brokers, because a watch may lag; without an answer of Kubernetes no broker may stop for a while. When
    the whole release is taken down, any controller answers, because none may lead any more.
    """
    is_sure = kubernetes is None or await kubernetes.look()
    if kubernetes is not None and await kubernetes.is_taken_down():
        return pb.LeaveAnswer(may_stop=True, reason="The whole cluster is taken down.")
    if node is None or not node.brokers.leads or await _is_behind(node):
        return pb.LeaveAnswer(not_leader=pb.NotLeader() if node is None else node.brokers.not_leader())
    if not is_sure:
        text = (
            f"Kubernetes doesn't say whether broker {request.broker_id} is to leave the cluster: the "
            f"controller asks again."
        )
        replicas = len(node.metadata.state.held_by(request.broker_id))
        return pb.LeaveAnswer(may_stop=False, reason=text, replicas=replicas)
    pod = _pod(request)
    now_ms = time.monotonic_ns() // 1_000_000
    verdict = node.scaling.judge(node.metadata.state, request.broker_id, pod, now_ms)
    return pb.LeaveAnswer(may_stop=verdict.may_stop, reason=verdict.text, replicas=verdict.replicas)


def _pod(request: pb.LeaveRequest) -> Pod | None:
    """The pod for events; None for names and UIDs that are longer than any pod's."""
    name, uid = request.pod_name, request.pod_uid
    return Pod(name, uid) if uid and len(name) <= MAX_POD_NAME and len(uid) <= MAX_POD_UID else None


async def _is_behind(node: ControllerNode) -> bool:
    """Whether this controller's state may lack committed entries."""
    done: asyncio.Future[Rejected | None] = asyncio.get_running_loop().create_future()

    def read(problem: Rejected | None) -> None:
        if not done.done():  # the caller may have gone
            done.set_result(problem)

    node.proposals.read(read)
    return await done is not None
