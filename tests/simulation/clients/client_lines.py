"""A client's connection in the simulated world: frames out, frames in; another broker where one is silent."""

from collections.abc import Callable

from tank_protos.wire.framing import FrameReader, frame
from tank_protos.wire.message import Message
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import End, Frames, Network, Stream
from tests.simulation.world.serving import PORT, Addresses, Asked
from tests.simulation.world.world import MS, Life, World

PING = 3


class ClientLine:
    """One client's way to the brokers, one connection at a time."""

    port = PORT

    def __init__(
        self,
        network: Network,
        addresses: Addresses,
        brokers: dict[int, BrokerMachine],
        name: str,
        heard: Callable[[int, memoryview], None],
        lost: Callable[[], None],
    ) -> None:
        """heard: a frame that is no ping. lost: the connection is gone, with what was asked on it."""
        self.world: World = network.world
        self.name = name
        self.life = Life(name, lambda: None, lambda power: None)
        self._network = network
        self._addresses = addresses
        self._brokers = brokers
        self._heard = heard
        self._lost = lost
        self._stream: Stream | None = None
        self._end: End | None = None
        self._target = self.world.random.choice(list(brokers))
        self._connecting = False
        self._reader = FrameReader()

    @property
    def is_open(self) -> bool:
        """Whether something can be asked."""
        return self._stream is not None

    def turn_to(self, broker_id: int) -> None:
        """The next connection goes there."""
        if broker_id in self._brokers and broker_id != self._target:
            self._target = broker_id
            self.hang_up()

    def turn_to_host(self, host: str) -> bool:
        """The next connection goes to the broker there. False: there is none, or it is connected with it."""
        found = next((number for number, each in self._brokers.items() if each.host == host), self._target)
        if found == self._target:
            return False
        self.turn_to(found)
        return True

    def turn_away(self) -> None:
        """The next connection goes to another broker."""
        self._target = self.world.random.choice(list(self._brokers))
        self.hang_up()

    def connect(self) -> None:
        """Tries, unless it is connected."""
        if self._stream is not None or self._connecting:
            return
        self._connecting = True
        near = End(self.name, self.life)
        address = self._address()

        def joined(stream: Stream | None) -> None:
            self._connecting = False
            if stream is None:
                self._refused()
                return
            self._addresses.accept(address, stream)
            self._reader = FrameReader()
            near.received, near.broken = self._received, self._broken
            self._stream, self._end = stream, near

        self._network.connect(near, lambda: self._addresses.end_at(address), joined)

    def _address(self) -> tuple[str, int]:
        """Where the next connection goes."""
        return self._brokers[self._target].host, self.port

    def _refused(self) -> None:
        """Nobody is there: the next connection goes to another broker."""
        self._target = self.world.random.choice(list(self._brokers))

    def send(self, message: Message, request_id: int, topic: str, partition: int) -> None:
        """A request; and for the books, which it is and what it is about."""
        self._send(b"".join(frame(message.ID, message.encode())), request_id, topic, partition)

    def _send(self, data: bytes, request_id: int, topic: str, partition: int) -> None:
        if self._stream is None or self._end is None:
            return
        asked = Frames(data)
        asked.notes = (Asked(request_id, topic, partition),)
        self._stream.send(self._end, asked)

    def used(self, request_id: int) -> tuple[int, int]:
        """The topic's id, and the leader epoch of the partition, that the broker went by; 0: unknown."""
        return (0, 0) if self._stream is None else self._stream.used.pop(request_id, (0, 0))

    def hang_up(self) -> None:
        """Ends the connection, if there is one."""
        if self._stream is not None and self._end is not None:
            self._stream.close(self._end)
            self._broken()

    def _received(self, data: object) -> None:
        assert isinstance(data, bytes)
        stream = self._stream
        for message_id, payload in self._reader.feed(data):
            if message_id != PING and self._stream is stream:
                self._heard(message_id, memoryview(bytes(payload)))

    def _broken(self) -> None:
        self._stream = self._end = None
        self._lost()


PATIENCE_US = 6000 * MS
"""Without an answer for so long a client tries another broker."""
