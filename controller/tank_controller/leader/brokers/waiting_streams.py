"""Brokers that connect during an election: they wait here until a leader is known. No I/O."""

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.streams import Stream
from tank_controller.raft_node.driver import RaftDriver
from tank_protos.generated import control_pb2 as pb

LATE_TICKS = 6
"""After so many ticks without a heartbeat the leader counts as late, and no broker is sent to it any more."""
WAIT_TICKS = 20
"""How long a broker waits here: longer than an election takes. Without a majority there is no election; then
the broker still has time to ask the other controllers before its session ends.
"""


class WaitingStreams:
    """The waiting streams of one controller. An election takes some tenths of a second; a broker that asked
    one controller after the other, with growing pauses, would lose more.
    """

    def __init__(self, driver: RaftDriver[CommandOutcome]) -> None:
        self._driver = driver
        self._registrations: dict[Stream, tuple[pb.BrokerUp, int]] = {}
        """Each stream's registration and its tick, in order of arrival; at most MAX_BROKERS."""
        self._ticks = 0

    def take(self, stream: Stream, up: pb.BrokerUp) -> bool:
        """Takes a stream's registration. Returns whether it waits; else the caller sends it away."""
        if stream in self._registrations:
            return True
        is_registration = up.WhichOneof("message") == "register"
        if not is_registration or not self._will_hear or len(self._registrations) >= limits.MAX_BROKERS:
            return False
        self._registrations[stream] = up, self._ticks
        return True

    def forget(self, stream: Stream) -> None:
        """Forgets a stream that has ended."""
        self._registrations.pop(stream, None)

    def release(self, *, leads: bool) -> list[tuple[Stream, pb.BrokerUp]]:
        """The streams to handle, because this controller leads or knows the leader. Called at each tick."""
        self._ticks += 1
        if not self._registrations or (self._will_hear and not leads):
            return []
        released = [(stream, up) for stream, (up, _) in self._registrations.items()]
        self._registrations = {}
        return released

    def too_long(self) -> list[Stream]:
        """The streams that have waited too long without an election: the caller sends them away."""
        late = [s for s, (_, since) in self._registrations.items() if self._ticks - since > WAIT_TICKS]
        for stream in late:
            del self._registrations[stream]
        return late

    @property
    def _will_hear(self) -> bool:
        """Whether this controller is likely to learn of a leader soon: it knows none, or the leader is late,
        or it was elected itself and has not applied its log yet. Only voters hear of elections.
        """
        raft = self._driver.raft
        if raft.own not in raft.configuration.voters:
            return False
        return raft.leader in (None, raft.own) or raft.election_elapsed >= LATE_TICKS
