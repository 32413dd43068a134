"""Tasks of a controller in a pod that look for members without a pod, for the life of the process."""

from collections.abc import Callable, Coroutine

from tank_controller.k8s.client import Kubernetes
from tank_controller.k8s.left_behind import LeftBehind
from tank_controller.k8s.missing_members import MissingMembers
from tank_controller.node import ControllerNode
from tank_controller.raft.messages import Configuration


def group_watches(
    kubernetes: Kubernetes, own: int, node: Callable[[], ControllerNode | None]
) -> tuple[Coroutine[None, None, None], ...]:
    """Returns the tasks. `own`: this controller's ordinal. `node` returns None while the controller belongs
    to no cluster.
    """

    def silent() -> list[int]:
        """The ordinals of members that don't answer this controller, while it leads."""
        here = node()
        if here is None or not here.brokers.leads:
            return []
        progress = here.member.raft.progress
        return sorted(node.ordinal for node, each in progress.items() if not each.active)

    def count() -> int:
        here = node()
        return 0 if here is None else len(here.member.raft.configuration.members)

    def leaderless() -> Configuration | None:
        here = node()
        raft = None if here is None else here.member.raft
        return None if raft is None or raft.leader is not None else raft.configuration

    def say(problem: str) -> None:
        if (here := node()) is not None:
            here.shortage = problem

    left_behind = LeftBehind(kubernetes, silent, count)
    missing = MissingMembers(kubernetes, own, leaderless, say)
    return left_behind.keep_looking(), missing.keep_looking()
