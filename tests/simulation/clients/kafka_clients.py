"""What Kafka's clients in the simulated world have in common: they ask for the leader, and go to it."""

from tests.simulation.books.kafka_ages import NEWEST, Age
from tests.simulation.clients.clients import Client
from tests.simulation.clients.kafka_lines import KafkaLine
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import Network
from tests.simulation.world.serving import Addresses


class KafkaClient(Client):
    """One of them; mixed into clients that write and read as TANK's do."""

    age: Age = NEWEST
    line: KafkaLine
    _asked_for_leader = 0
    """The request for Metadata that is under way."""

    def open_line(
        self, network: Network, addresses: Addresses, brokers: dict[int, BrokerMachine]
    ) -> KafkaLine:
        self.line = KafkaLine(network, addresses, brokers, self.name, self.heard, self.lost)
        self.line.age = self.age
        return self.line

    def lost(self) -> None:
        self._asked_for_leader = 0
        super().lost()

    def _ask_for_leader(self, number: int) -> None:
        self._asked_for_leader = number
        self.line.ask_for_leader(number, self.target)

    def _is_of_leader(self, number: int, payload: memoryview) -> bool:
        """Whether this was the answer to Metadata. It is taken; if it names none, another broker is asked."""
        if number != self._asked_for_leader:
            return False
        self._asked_for_leader = 0
        if not self.line.take_leader(payload, self.target):
            self.line.turn_away()
        return True
