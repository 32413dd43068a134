"""The heartbeats of a broker's stream to a controller, and the controller's silence. No I/O."""

from tank_node.clock import Clock
from tank_node.volume import Room
from tank_protos.generated import control_pb2 as pb

HEARTBEATS = 6
"""How many heartbeats are sent in one session timeout: some may be late."""
FIRST_TIMEOUT_MS = 3000
"""The session timeout before a controller has said its own."""
SILENCES = 2
"""A controller is given up after a session timeout divided by this: a broker whose controller is gone has to
reach the next leader before that one counts the broker itself as silent."""
HELD_UP_MS = 500
"""After a longer time between two ticks this process stood still, so the time is not the controller's
silence."""

_ROOMS = {
    Room.UNSAID: pb.ROOM_UNSAID,
    Room.ENOUGH: pb.ROOM_ENOUGH,
    Room.NONE: pb.ROOM_NONE,
    Room.AGAIN: pb.ROOM_AGAIN,
}


class Heartbeats:
    """Knows when the controller was heard last and when the next heartbeat is due, and makes that
    heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self.serves = False
        """Whether the broker listens and follows the view. Until then its heartbeats say that its view is at
        index 0, so that it stays fenced and leads nothing."""
        self.held_back = False
        """Whether its data folder does not have this registration yet, and can't be written. Its heartbeats
        say the same then."""
        self.room = Room.UNSAID
        self.timeout_ms = FIRST_TIMEOUT_MS
        """The session timeout: after so long the controller fences a silent broker."""
        self._clock = clock
        self._heard_ms = 0
        self._spoke_ms = 0
        self._said = 0, 0
        """The last `ViewUpdate.said_ms` of this stream, and when it came."""
        self._led_ms = self._ticked_ms = clock.monotonic_ms()
        """When a controller that leads was last heard, and when the last tick was; first: when this process
        began."""

    @property
    def leader_silence_ms(self) -> int:
        """How long ago a controller that leads was heard."""
        return self._clock.monotonic_ms() - self._led_ms

    def opened(self) -> None:
        """Notes that a stream begins."""
        self._said = 0, 0
        self._heard_ms = self._spoke_ms = self._clock.monotonic_ms()
        self.timeout_ms = FIRST_TIMEOUT_MS

    def heard(self) -> None:
        """Notes that a message came from the controller."""
        self._heard_ms = self._clock.monotonic_ms()

    def heard_leader(self) -> None:
        """Notes that the controller of the last message leads: it has accepted this broker."""
        self._led_ms = self._heard_ms

    def answers(self, said_ms: int) -> None:
        """Keeps the controller's time from the last message, which the next heartbeat repeats; 0: it had
        none."""
        if said_ms:
            self._said = said_ms, self._heard_ms

    def tick(self) -> None:
        """Takes note of the time. Time in which this process stood still isn't counted as the controller's
        silence."""
        now_ms = self._clock.monotonic_ms()
        held_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        if held_ms > HELD_UP_MS:
            self._heard_ms += held_ms

    def is_silent(self, *, taken: bool) -> bool:
        """Whether the controller was silent for so long that it is given up. `taken`: whether it has accepted
        this broker."""
        patience_ms = self.timeout_ms // SILENCES if taken else self.timeout_ms
        return self._clock.monotonic_ms() - self._heard_ms > patience_ms

    @property
    def is_due(self) -> bool:
        """Whether the next heartbeat is to be sent."""
        return self._clock.monotonic_ms() - self._spoke_ms >= self.timeout_ms // HEARTBEATS

    def next(self, view_index: int) -> pb.BrokerHeartbeat:
        """The heartbeat to send now."""
        self._spoke_ms = now_ms = self._clock.monotonic_ms()
        said_ms, came_ms = self._said
        return pb.BrokerHeartbeat(
            seen_index=view_index if self.serves and not self.held_back else 0,
            wall_ms=self._clock.now_ms(),  # what messages are stamped with; read last, so never too early
            answers_ms=said_ms,
            held_ms=now_ms - came_ms if said_ms else 0,
            room=_ROOMS[self.room],
        )
