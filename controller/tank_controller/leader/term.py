"""What a controller has while it leads, for one term; the desk brings brokers' words to it. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_controller.leader.commit_order import PositionOrder
from tank_controller.leader.liveness import Loss
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


class Liveness(Protocol):
    """As `tank_controller.leader.liveness.BrokerSessions` has it."""

    def lead(self, now_ms: int) -> None: ...
    def connected(self, broker_id: int, epoch: int, now_ms: int) -> None: ...
    def heard(self, broker_id: int, epoch: int, seen_index: int, now_ms: int) -> None: ...
    def lives(self, broker_id: int, epoch: int, now_ms: int) -> bool: ...
    def broken(self, broker_id: int, epoch: int, now_ms: int) -> None: ...
    def loss(self, broker_id: int) -> Loss: ...
    def tick(self, state: ClusterState, now_ms: int) -> Sequence[pb.Command]: ...


class Clock(Protocol):
    """Two clocks, in milliseconds."""

    def now_ms(self) -> int:
        """Of the epoch."""

    def monotonic_ms(self) -> int:
        """Never goes back."""


class Ask(Protocol):
    """A broker that is to say where replicas end."""

    @property
    def broker_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def question(self) -> int: ...
    @property
    def partitions(self) -> Sequence[tuple[int, int]]: ...


class Work(Protocol):
    """What the leader has to do now."""

    @property
    def commands(self) -> Sequence[pb.Command]: ...
    @property
    def asks(self) -> Sequence[Ask]: ...


class Care(Protocol):
    """As `tank_controller.leader.tasks.Duties` has it."""

    @property
    def balanced(self) -> bool: ...
    def balance(self) -> None: ...
    def tick(self, state: ClusterState, now_ms: int) -> Work: ...
    def ends(self, broker_id: int, broker_epoch: int, answer: pb.LogEnds, now_ms: int) -> None: ...
    def unreadable(self, topic_id: int, number: int) -> list[int]: ...
    def by_ends(self, state: ClusterState, command: pb.Command) -> pb.Command: ...
    def may_stop(self, state: ClusterState, broker_id: int) -> bool: ...


@dataclass(slots=True)
class Leading:
    """What a leader has, for one term."""

    term: int
    sessions: Liveness
    duties: Care
    proposed: int = 0
    """Commands of its own without an outcome."""
    positions: PositionOrder = field(default_factory=PositionOrder)
    """What it has taken of committed positions."""

    def is_busy(self) -> bool:
        """The next commands of its own wait for the outcome of the last."""
        return self.proposed > 0
