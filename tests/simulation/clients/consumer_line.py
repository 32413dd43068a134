"""A simulated consumer's connection to a broker that a test plays."""

from tank_protos.generated.tank import ConsumeRequest
from tank_protos.wire.message import Message
from tests.simulation.clients.client_lines import ClientLine


class Line(ClientLine):
    """Keeps what is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """The first number of each request."""
        self.turned = 0
        self.epoch = 1

    @property
    def is_open(self) -> bool:
        return True

    def send(self, message: Message, request_id: int, topic: str, partition: int) -> None:
        assert isinstance(message, ConsumeRequest)
        self.asked.append(message.topics[0].partitions[0].sequence_number)

    def used(self, request_id: int) -> tuple[int, int]:
        return 0, self.epoch

    def turn_away(self) -> None:
        self.turned += 1
