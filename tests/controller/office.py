"""A controller of one voter with its streams, and brokers that talk to it by messages alone."""

from collections.abc import Callable
from pathlib import Path

from tank_controller.leader.brokers.brokers import BrokerStreams
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.leadership import ControllerLeadership, LeaderParts
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.limits import SESSION_TIMEOUT_MS
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tests.support.controllers.driven import Driven
from tests.support.manual_clock import ManualClock

TICK_MS = 50
ALONE = Raising(max_level=1)
"""Of a controller that raises no feature level: nothing happens by itself."""


class Line:
    """A stream's wire: what the controller sent."""

    def __init__(self) -> None:
        self.sent: list[pb.BrokerDown] = []
        self.ended = False

    def send(self, message: pb.BrokerDown) -> None:
        assert not self.ended
        self.sent.append(message)

    def end(self) -> None:
        self.ended = True

    def all(self, kind: str) -> list[pb.BrokerDown]:
        return [message for message in self.sent if message.WhichOneof("message") == kind]

    @property
    def index(self) -> int:
        """How far the view of who reads this has come."""
        return max((m.view.delta.index for m in self.all("view") if not m.view.more), default=0)


class Office:
    """A controller of one voter, and its brokers' streams."""

    def __init__(self, folder: Path, raising: Raising = ALONE) -> None:
        self.driven = Driven(folder, max_level=raising.max_level)
        self.clock = ManualClock()
        self.clocks = BrokerClocks()
        self.proposals = Proposals(self.driven.driver, self.driven.machine)
        leadership = ControllerLeadership(
            self.proposals,
            self.clock,
            lambda size: b"k" * size,
            SESSION_TIMEOUT_MS,
            LeaderParts(raising, self.clocks),
        )
        self.brokers = BrokerStreams("cluster", leadership, lambda: "leader:1")

    @property
    def state(self) -> ClusterState:
        return self.driven.machine.state

    def until(self, done: Callable[[], object]) -> None:
        """Time passes until it is so."""
        for _ in range(2000):
            if done():
                return
            self.clock.pass_ms(TICK_MS)
            self.brokers.tick()
            if not self.driven.driver.idle or not self.driven.driver.ready:
                self.driven.posted.get(timeout=10)()
        raise AssertionError("it never came to be")

    def pass_ms(self, milliseconds: int) -> None:
        """So much time passes."""
        end = self.clock.monotonic_ms() + milliseconds
        self.until(lambda: self.clock.monotonic_ms() >= end)

    def stream(
        self,
        broker_id: int,
        incarnation: bytes = b"i" * 16,
        view_index: int = 0,
        levels: Levels = feature_levels.OWN,
        **more: str,
    ) -> "Broker":
        """A broker opens a stream and registers."""
        broker = Broker(self, broker_id)
        register = pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=incarnation,
            disk_uuid=bytes([broker_id]) * 16,
            tail_sure=True,
            endpoints=[pb.Endpoint(name="tank", host="h", port=broker_id)],
            replicates=True,
            min_level=levels.lowest,
            max_level=levels.highest,
        )
        up = pb.BrokerRegister(broker=register, view_index=view_index, cluster_id=more.get("cluster_id", ""))
        self.brokers.received(broker.stream, pb.BrokerUp(register=up))
        return broker

    def broker(
        self, broker_id: int, incarnation: bytes = b"i" * 16, levels: Levels = feature_levels.OWN
    ) -> "Broker":
        """One that is registered and not fenced any more."""
        broker = self.stream(broker_id, incarnation, levels=levels)
        self.until(lambda: broker.line.all("registered"))
        broker.beat()
        self.until(lambda: not self.state.brokers[broker_id].fenced)
        return broker


class Broker:
    """A broker's end of its stream."""

    def __init__(self, office: Office, broker_id: int) -> None:
        self.office = office
        self.broker_id = broker_id
        self.line = Line()
        self.stream: Stream = office.brokers.opened(self.line)

    def say(self, up: pb.BrokerUp) -> None:
        self.office.brokers.received(self.stream, up)

    def beat(self) -> None:
        """A heartbeat: everything that it was sent, it has seen."""
        self.say(pb.BrokerUp(heartbeat=pb.BrokerHeartbeat(seen_index=self.line.index)))

    def propose(self, command: pb.Command, number: int = 1, seen_index: int = 0) -> None:
        proposal = pb.BrokerProposal(request_id=number, command=command, seen_index=seen_index)
        self.say(pb.BrokerUp(proposal=proposal))

    def outcome(self, number: int = 1) -> pb.ProposalOutcome:
        """Waits for it."""

        def found() -> list[pb.ProposalOutcome]:
            return [m.outcome for m in self.line.all("outcome") if m.outcome.request_id == number]

        self.office.until(found)
        return found()[0]
