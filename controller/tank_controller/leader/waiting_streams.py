"""Brokers that come to a controller while nobody leads: they are told as soon as somebody does. No I/O."""

from tank_controller import limits
from tank_controller.leader.streams import Stream
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.state.outcome import Outcome
from tank_protos.generated import control_pb2 as pb

LATE_TICKS = 6
"""Two of three heartbeats did not come: a broker that is sent to that leader now may wait in vain."""
WAIT_TICKS = 20
"""An election takes fewer where the way from the leader broke; a leader that is silent is missed by brokers
later than by controllers. Where a majority can't be reached there is no election: brokers ask the others, in
good time before they count as silent themselves."""


class WaitingStreams:
    """One controller's. An election takes some tenths of a second: a broker that asked each controller in
    turn, later and later, would lose more time than that.
    """

    def __init__(self, driver: RaftDriver[Outcome]) -> None:
        self._driver = driver
        self._registrations: dict[Stream, tuple[pb.BrokerUp, int]] = {}
        """What each said first, and at which tick. Bounded: one broker has one stream, and there are at most
        MAX_BROKERS. In the order in which they came."""
        self._ticks = 0

    def take(self, stream: Stream, up: pb.BrokerUp) -> bool:
        """Whether the stream waits; else its broker is to be told to go."""
        if stream in self._registrations:
            return True
        is_registration = up.WhichOneof("message") == "register"
        if not is_registration or not self._will_hear or len(self._registrations) >= limits.MAX_BROKERS:
            return False
        self._registrations[stream] = up, self._ticks
        return True

    def forget(self, stream: Stream) -> None:
        """It has ended."""
        self._registrations.pop(stream, None)

    def release(self, *, leads: bool) -> list[tuple[Stream, pb.BrokerUp]]:
        """Those that wait no longer, because this controller leads, or knows who does. At each tick."""
        self._ticks += 1
        if not self._registrations or (self._will_hear and not leads):
            return []
        released = [(stream, up) for stream, (up, _) in self._registrations.items()]
        self._registrations = {}
        return released

    def too_long(self) -> list[Stream]:
        """Those that wait no longer, because nobody was elected: their brokers are to be told to go."""
        late = [s for s, (_, since) in self._registrations.items() if self._ticks - since > WAIT_TICKS]
        for stream in late:
            del self._registrations[stream]
        return late

    @property
    def _will_hear(self) -> bool:
        """Whether no controller leads, as far as is known here, but it would be heard here; or the one that
        does is late with its heartbeats; or this controller was elected, and doesn't know everything yet. A
        controller that is no voter (any more) may never hear of one."""
        raft = self._driver.raft
        if raft.own not in raft.configuration.voters:
            return False
        return raft.leader in (None, raft.own) or raft.election_elapsed >= LATE_TICKS
