"""Brokers that come to a controller while nobody leads: they are told as soon as somebody does. No I/O."""

from tank_controller import limits
from tank_controller.broker_streams import Stream
from tank_controller.outcome import Outcome
from tank_controller.raft_driver import RaftDriver
from tank_protos.generated import control_pb2 as pb


class WaitingStreams:
    """One controller's. An election takes some tenths of a second: a broker that asked each controller in
    turn, later and later, would lose more time than that.
    """

    def __init__(self, driver: RaftDriver[Outcome]) -> None:
        self._driver = driver
        self._registrations: dict[Stream, pb.BrokerUp] = {}
        """What each said first. Bounded: one broker has one stream, and there are at most MAX_BROKERS."""

    def take(self, stream: Stream, up: pb.BrokerUp) -> bool:
        """Whether the stream waits; else its broker is to be told to go."""
        if stream in self._registrations:
            return True
        is_registration = up.WhichOneof("message") == "register"
        if not is_registration or not self._nobody_leads or len(self._registrations) >= limits.MAX_BROKERS:
            return False
        self._registrations[stream] = up
        return True

    def forget(self, stream: Stream) -> None:
        """It has ended."""
        self._registrations.pop(stream, None)

    def release(self, *, leads: bool) -> list[tuple[Stream, pb.BrokerUp]]:
        """Those that wait no longer, because this controller leads, or knows who does."""
        if not self._registrations or (self._nobody_leads and not leads):
            return []
        released, self._registrations = list(self._registrations.items()), {}
        return released

    @property
    def _nobody_leads(self) -> bool:
        """As far as is known here; or this controller was elected, and doesn't know everything yet."""
        raft = self._driver.raft
        return raft.leader is None or raft.leader == raft.own
