"""A member's request that waits for others."""

from collections.abc import Callable

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer, SyncAnswer
from tank_node.coordinators.machine.iggy_requests import IggyAnswer


class WaitingMember:
    """A join, a sync, a heartbeat of the consumer protocol, or a broker's word about members of Iggy's, that
    its group's machine has not answered."""

    __slots__ = ("consumer", "iggy", "join", "sync")

    def __init__(
        self,
        join: Callable[[JoinAnswer], None] | None = None,
        sync: Callable[[SyncAnswer], None] | None = None,
        consumer: Callable[[ConsumerHeartbeatAnswer], None] | None = None,
        iggy: Callable[[IggyAnswer], None] | None = None,
    ) -> None:
        self.join = join
        self.sync = sync
        self.consumer = consumer
        self.iggy = iggy

    def answer(self, answer: JoinAnswer | SyncAnswer | ConsumerHeartbeatAnswer | IggyAnswer) -> None:
        """Passes the machine's answer on."""
        if isinstance(answer, JoinAnswer):
            if self.join is not None:
                self.join(answer)
        elif isinstance(answer, SyncAnswer):
            if self.sync is not None:
                self.sync(answer)
        elif isinstance(answer, IggyAnswer):
            if self.iggy is not None:
                self.iggy(answer)
        elif self.consumer is not None:
            self.consumer(answer)

    def refuse(self, error: GroupError) -> None:
        """Answers instead of the machine."""
        if self.join is not None:
            self.join(JoinAnswer(error))
        if self.sync is not None:
            self.sync(SyncAnswer(error))
        if self.consumer is not None:
            self.consumer(ConsumerHeartbeatAnswer(error))
        if self.iggy is not None:
            self.iggy(IggyAnswer(error))
