"""The simulated network: messages that may be lost, late and doubled, and ordered streams that may break.

A cut blocks messages between two machines, in one direction or both. Single messages (Raft's) are lost in a
cut; messages on a stream wait until the cut ends, like TCP's retransmissions, or until one side gives up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.simulation.world.world import MS, SECOND, Life, World

CONNECT_TIMEOUT_US = 2 * SECOND


@dataclass(slots=True)
class Weather:
    """How good the network is, in this story."""

    loss: float = 0.0
    doubled: float = 0.0
    slow: float = 0.0
    """How often a message takes up to `slow_us`."""
    slow_us: int = 300 * MS
    usual_us: int = MS
    pieces: float = 0.0
    """How often bytes on a stream arrive in pieces, or with those that come next."""

    def delay(self, world: World) -> int:
        """Of one message."""
        if self.slow and world.chance(self.slow):
            return world.between(0, self.slow_us)
        return world.between(50, self.usual_us)


class Network:
    """All ways between machines."""

    def __init__(self, world: World, weather: Weather) -> None:
        self.world = world
        self.weather = weather
        self.cuts: set[tuple[str, str]] = set()
        """(from, to) that nothing gets through."""
        self.streams: dict[int, Stream] = {}
        """That are open, in the order in which they were."""
        self._numbers = 0

    # --- cuts ---

    def cut(self, alone: list[str], others: list[str], *, one_way: bool) -> None:
        """From now on nothing goes from the first to the second, nor, unless `one_way`, back."""
        for near in alone:
            for far in others:
                if near != far:
                    self.cuts.add((near, far))
                    if not one_way:
                        self.cuts.add((far, near))

    def heal(self) -> None:
        """Everybody reaches everybody; what waited on streams goes on."""
        self.cuts.clear()
        for stream in list(self.streams.values()):
            stream.go_on()

    def reaches(self, source: str, target: str) -> bool:
        """Whether something sent now gets there."""
        return (source, target) not in self.cuts

    # --- messages of their own ---

    def post(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Sends a message that may be lost, late, overtaken or doubled. `deliver` finds out who is there."""
        world, weather = self.world, self.weather
        copies = 1
        if weather.doubled and world.chance(weather.doubled):
            copies = 2
        for _ in range(copies):
            if weather.loss and world.chance(weather.loss):
                continue
            world.after(weather.delay(world), None, lambda: self._arrive(source, target, deliver))

    def _arrive(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        if self.reaches(source, target):
            deliver()

    # --- streams ---

    def connect(
        self,
        near: "End",
        find: "Callable[[], End | None]",
        joined: "Callable[[Stream | None], None]",
    ) -> None:
        """Tries to reach somebody: `find` gives the other end where anybody is there when the call arrives.

        `joined` gets the stream, or None: refused at once, or, in a cut, after a while.
        """
        world = self.world

        def arrive() -> None:
            far = find()
            if far is None:
                joined(None)
            elif self.reaches(near.machine, far.machine) and self.reaches(far.machine, near.machine):
                joined(self.stream(near, far))
            else:
                world.after(CONNECT_TIMEOUT_US, near.life, lambda: joined(None))

        world.after(self.weather.delay(world), near.life, arrive)

    def process_ended(self, life: Life, *, power: bool) -> None:
        """Its connections are gone; a machine that still has power tells the other sides."""
        for stream in list(self.streams.values()):
            for end in (stream.near, stream.far):
                if end.life is life:
                    stream.died(end, tell=not power)

    def stream(self, near: "End", far: "End") -> "Stream":
        """A connection that is open from now on."""
        self._numbers += 1
        stream = Stream(self, self._numbers, near, far)
        self.streams[stream.number] = stream
        return stream


class Frames(bytes):
    """Frames on their way over a stream of bytes, which may cut and join them."""

    notes: tuple[object, ...] = ()
    """Of the sender, for the books: seen where the last byte arrives. They are not sent."""


def _cut(data: bytes, positions: list[int]) -> list[bytes]:
    """Its pieces; the last one has the notes."""
    ends = [*positions, len(data)]
    pieces: list[bytes] = [data[begin:end] for begin, end in zip([0, *positions], ends, strict=True)]
    pieces[-1] = _with_notes(pieces[-1], [data])
    return pieces


def _with_notes(data: bytes, of: list[bytes]) -> Frames:
    frames = Frames(data)
    frames.notes = tuple(note for one in of if isinstance(one, Frames) for note in one.notes)
    return frames


@dataclass(slots=True)
class End:
    """One side of a stream: whose it is, and what it is told."""

    machine: str
    life: Life
    received: Callable[[object], None] = lambda data: None
    broken: Callable[[], None] = lambda: None
    """The other side is gone, or the network says so. Told once, and never before what came earlier."""
    open: bool = True
    arrives: int = 0
    """When the last thing on its way here arrives: order is kept."""
    waiting: list[object] | None = None
    """What a cut holds up, oldest first."""
    is_reset: bool = False
    """All that was on its way here is lost: half a frame must not be followed by the rest of another."""
    held: list[bytes] = field(default_factory=list)
    """Bytes that have arrived, and are handed over with those that come next."""


_GONE = object()
"""On its way to tell an end that the other one is closed."""


class Stream:
    """An ordered connection between two lives."""

    __slots__ = ("_network", "carries_bytes", "far", "near", "number", "used")

    def __init__(self, network: Network, number: int, near: End, far: End) -> None:
        self.used: dict[int, tuple[int, int]] = {}
        """By request: the topic's id and the leader epoch that the broker went by. It is not sent: it is
        for the books."""
        self._network = network
        self.carries_bytes = False
        """A stream of bytes, which keeps no frame together; else one of messages."""
        self.number = number
        self.near = near
        self.far = far

    def send(self, sender: End, data: object) -> None:
        """Takes it; whether it ever arrives is another matter."""
        if not sender.open:
            return
        end = self.far if sender is self.near else self.near
        if end.life.alive or not self._network.reaches(sender.machine, end.machine):
            self._carry(sender, end, data)
        else:
            self._plan(sender, _GONE)  # nobody there knows this connection

    def close(self, closer: End) -> None:
        """One side ends it; the other is told after what was sent before. Harmless again."""
        if not closer.open:
            return
        closer.open = False
        self._carry(closer, self.far if closer is self.near else self.near, _GONE)
        self._forget()

    def reset(self) -> None:
        """The network breaks it: what is on its way is lost, both sides are told."""
        for end in (self.near, self.far):
            if end.open:
                end.arrives = 0
                end.waiting = None
                end.held.clear()
                end.is_reset = True
                self._plan(end, _GONE)

    def died(self, end: End, *, tell: bool) -> None:
        """A side's process is gone. `tell`: its system says so to the other one, if it has power."""
        if end.open and tell:
            self.close(end)
        end.open = False
        self._forget()

    def go_on(self) -> None:
        """What a cut held up goes on, if that cut has ended."""
        for sender, end in ((self.near, self.far), (self.far, self.near)):
            if end.waiting and self._network.reaches(sender.machine, end.machine):
                waiting, end.waiting = end.waiting, None
                for data in waiting:
                    self._plan(end, data)

    def _carry(self, sender: End, end: End, data: object) -> None:
        if end.waiting or not self._network.reaches(sender.machine, end.machine):
            end.waiting = [*(end.waiting or ()), data]
        else:
            self._plan(end, data)

    def _plan(self, end: End, data: object) -> None:
        world, pieces = self._network.world, [data]
        if self._is_torn() and isinstance(data, bytes) and len(data) > 1:
            chance = world.random
            positions = {chance.randrange(1, len(data)) for _ in range(chance.choice((1, 1, 2, 5)))}
            pieces = [*_cut(data, sorted(positions))]
        for piece in pieces:
            end.arrives = max(end.arrives + 1, world.now + self._network.weather.delay(world))
            world.at(end.arrives, end.life, partial(self._arrive, end, piece))

    def _is_torn(self) -> bool:
        """Whether the next bytes aren't handed over as they were sent."""
        often = self._network.weather.pieces
        return bool(often) and self.carries_bytes and self._network.world.chance(often)

    def _hand_over(self, end: End) -> None:
        """What has arrived, in one."""
        held, end.held = end.held, []
        if held and end.open:
            end.received(_with_notes(b"".join(held), held))

    def _arrive(self, end: End, data: object) -> None:
        if not end.open:
            return
        if data is _GONE:
            self._hand_over(end)
            if end.open:
                end.open = False
                self._forget()
                end.broken()
        elif end.is_reset:
            return
        elif isinstance(data, bytes) and (end.held or self._is_torn()):
            end.held.append(data)
            if len(end.held) == 1:
                world = self._network.world
                world.after(world.between(1, 5 * MS), end.life, lambda: self._hand_over(end))
        else:
            end.received(data)

    def _forget(self) -> None:
        if not (self.near.open or self.far.open):
            self._network.streams.pop(self.number, None)
