"""The base of all simulated clients: sends a request, waits, and tries another broker when it takes too long.

Answers are compared with the books of the topic id in the answering broker's view: a broker whose view is
behind may still know an earlier topic of the same name, and its answer says nothing about the present one.
"""

from dataclasses import dataclass

from tank_protos.wire.message import Message
from tests.simulation.books.message_books import Committed, Key, MessageBooks
from tests.simulation.clients.client_lines import PATIENCE_US, ClientLine
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import Network
from tests.simulation.world.serving import Addresses
from tests.simulation.world.world import MS, World

CLIENT_VERSION = 3


@dataclass(slots=True, frozen=True)
class Target:
    """A partition of a topic that exists."""

    topic: str
    topic_id: int
    partition: int

    @property
    def key(self) -> Key:
        """As the books have it."""
        return self.topic_id, self.partition


class Client:
    """One of them. It has one request under way."""

    shows_health = 3
    """So many answers after the last fault show that the cluster serves it again."""
    version = CLIENT_VERSION
    """That it says it has, where a request says one."""

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int, name: str) -> None:
        self.world = world
        self.books = books
        self.target = target
        self.name = name
        self.active = True
        self.retired = False
        """Its topic is about to be deleted: nothing that it is told counts any more."""
        self.answered = 0
        """Requests that ended well."""
        self.line: ClientLine
        self.generation = 0
        """Of the books, when it asked."""
        self._pause_us = pause_us
        self._request = 0
        self._waiting = False

    @property
    def partition_books(self) -> Committed:
        """Those of its partition."""
        return self.books.of(self.target.key)

    def act(self) -> None:
        """The next request, when none is under way; again and again."""
        if self.retired:
            return
        self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        if not self.line.is_open:
            if self.active or self._unsure():
                self.line.connect()
        elif not self._waiting and (self.active or self._unsure()):
            self.ask()

    def open_line(
        self, network: Network, addresses: Addresses, brokers: dict[int, BrokerMachine]
    ) -> ClientLine:
        """Its way to the brokers."""
        self.line = ClientLine(network, addresses, brokers, self.name, self.heard, self.lost)
        return self.line

    def look_elsewhere(self) -> None:
        """This broker doesn't serve it: another one may."""
        self.line.turn_away()

    def ask(self) -> None:
        """The next request. None is under way, and the connection is open."""
        self._request += 1
        self._waiting = True
        number = self._request
        self.generation = self.partition_books.generation
        self._ask(number)
        self.world.after(PATIENCE_US, None, lambda: self._give_up(number))

    def send(self, message: Message, number: int) -> None:
        """A request, by its number."""
        self.line.send(message, number, self.target.topic, self.target.partition)

    def _give_up(self, number: int) -> None:
        if self._waiting and self._request == number:
            self.line.turn_away()

    def retire(self) -> None:
        """It asks nothing any more."""
        self.retired = True
        self._waiting = False
        self.line.hang_up()

    def lost(self) -> None:
        """The connection is gone."""
        if self._waiting:
            self._waiting = False
            self._unanswered()

    def heard(self, message_id: int, payload: memoryview) -> None:
        """An answer."""
        if not self._waiting:
            return
        self._waiting = False
        used, epoch = self.line.used(self._request)
        self._take(message_id, payload, (used or self.target.topic_id, self.target.partition), epoch)

    def _unsure(self) -> bool:
        """Whether it has to go on asking even when it is to begin nothing new."""
        return False

    def _ask(self, number: int) -> None:
        raise NotImplementedError

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        """The answer; of which partition, and of which of its leaders."""
        raise NotImplementedError

    def _unanswered(self) -> None:
        """Nobody knows what became of the request."""


PAUSES_US = (20 * MS, 40 * MS, 100 * MS)
"""Between two looks at whether something is to be asked, where there is one partition."""
