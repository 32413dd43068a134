"""A member's request that waits for others."""

from collections.abc import Callable

from tank_node.coordinators.group_error import GroupError
from tank_node.coordinators.group_requests import JoinAnswer, SyncAnswer


class WaitingMember:
    """A join or a sync that its group's machine has not answered."""

    __slots__ = ("join", "sync")

    def __init__(
        self,
        join: Callable[[JoinAnswer], None] | None = None,
        sync: Callable[[SyncAnswer], None] | None = None,
    ) -> None:
        self.join = join
        self.sync = sync

    def answer(self, answer: JoinAnswer | SyncAnswer) -> None:
        """Passes the machine's answer on."""
        if isinstance(answer, JoinAnswer):
            if self.join is not None:
                self.join(answer)
        elif self.sync is not None:
            self.sync(answer)

    def refuse(self, error: GroupError) -> None:
        """Answers instead of the machine."""
        if self.join is not None:
            self.join(JoinAnswer(error))
        if self.sync is not None:
            self.sync(SyncAnswer(error))
