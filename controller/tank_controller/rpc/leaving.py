"""The answer to a broker that is about to be stopped: may it? A thin shell around `scaling`."""

import asyncio
import time

from tank_controller.k8s.client import Kubernetes
from tank_controller.leader.scaling import Pod
from tank_controller.node import Rooms
from tank_controller.state.outcome import Rejected
from tank_protos.generated import control_pb2 as pb

MAX_POD_NAME = 253
"""Characters of a name in Kubernetes."""
MAX_POD_UID = 64
"""Characters; it is a UUID."""


async def may_leave(
    rooms: Rooms | None, kubernetes: Kubernetes | None, request: pb.LeaveRequest
) -> pb.LeaveAnswer:
    """What the leader says. It looks first how many brokers are wanted now: a pod is told to stop after that
    has changed, and a watch may be later. While Kubernetes doesn't say, nobody is let go, for a while. That
    the whole release is taken down is said by any controller: none may lead any more."""
    is_sure = kubernetes is None or await kubernetes.look()
    if kubernetes is not None and await kubernetes.is_taken_down():
        return pb.LeaveAnswer(may_stop=True, reason="The whole cluster is taken down.")
    if rooms is None or not rooms.desk.leads or await _is_behind(rooms):
        return pb.LeaveAnswer(not_leader=pb.NotLeader() if rooms is None else rooms.desk.not_leader())
    if not is_sure:
        text = (
            f"Kubernetes doesn't say whether broker {request.broker_id} is to leave the cluster: asks again."
        )
        replicas = len(rooms.metadata.state.held_by(request.broker_id))
        return pb.LeaveAnswer(may_stop=False, reason=text, replicas=replicas)
    pod = _pod(request)
    now_ms = time.monotonic_ns() // 1_000_000
    verdict = rooms.scaling.judge(rooms.metadata.state, request.broker_id, pod, now_ms)
    return pb.LeaveAnswer(may_stop=verdict.may_stop, reason=verdict.text, replicas=verdict.replicas)


def _pod(request: pb.LeaveRequest) -> Pod | None:
    """Where events are shown. What is remembered of it is bounded: what is longer than any pod's is none."""
    name, uid = request.pod_name, request.pod_uid
    return Pod(name, uid) if uid and len(name) <= MAX_POD_NAME and len(uid) <= MAX_POD_UID else None


async def _is_behind(rooms: Rooms) -> bool:
    """Whether this controller's state may lack something that was committed before."""
    done: asyncio.Future[Rejected | None] = asyncio.get_running_loop().create_future()

    def read(problem: Rejected | None) -> None:
        if not done.done():  # whoever asked may have gone
            done.set_result(problem)

    rooms.proposals.read(read)
    return await done is not None
