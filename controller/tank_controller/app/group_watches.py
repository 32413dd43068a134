"""What a controller in a pod keeps an eye on, of the group that it is in, for the life of its process."""

from collections.abc import Callable, Coroutine

from tank_controller.k8s.client import Kubernetes
from tank_controller.k8s.left_behind import LeftBehind
from tank_controller.k8s.missing_members import MissingMembers
from tank_controller.node import Rooms
from tank_controller.raft.messages import Configuration


def group_watches(
    kubernetes: Kubernetes, own: int, rooms: Callable[[], Rooms | None]
) -> tuple[Coroutine[None, None, None], ...]:
    """To be run as tasks. own: this controller's ordinal; rooms: None while it belongs to no cluster."""

    def silent() -> list[int]:
        """Those that don't answer this one, while it leads."""
        here = rooms()
        if here is None or not here.desk.leads:
            return []
        progress = here.member.raft.progress
        return sorted(node.ordinal for node, each in progress.items() if not each.active)

    def count() -> int:
        here = rooms()
        return 0 if here is None else len(here.member.raft.configuration.members)

    def leaderless() -> Configuration | None:
        here = rooms()
        raft = None if here is None else here.member.raft
        return None if raft is None or raft.leader is not None else raft.configuration

    def say(problem: str) -> None:
        if (here := rooms()) is not None:
            here.shortage = problem

    left_behind = LeftBehind(kubernetes, silent, count)
    missing = MissingMembers(kubernetes, own, leaderless, say)
    return left_behind.keep_looking(), missing.keep_looking()
