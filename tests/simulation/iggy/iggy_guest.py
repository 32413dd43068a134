"""An Iggy client whose requests a told story makes, one by one, at a broker of its choice."""

from collections.abc import Sequence

from tank_protos.generated.iggy import (
    GetConsumerOffsetRequest,
    GetConsumerOffsetResponse,
    IggyConsumer,
    JoinConsumerGroupRequest,
    LoginUserRequest,
    PollMessagesRequest,
    StoreConsumerOffsetRequest,
)
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import ConsumerKind, PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.message import Message
from tests.simulation.iggy.iggy_tenant import GROUP
from tests.simulation.iggy.iggy_visitor import SOFTWARE, STREAM
from tests.simulation.iggy.iggy_wire import IggyWire
from tests.simulation.told.told import ToldStory
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.iggy_meant import IggyAsked, IggyMeant
from tests.simulation.world.iggy_services import ROOT_NAME, ROOT_PASSWORD
from tests.simulation.world.world import MS, SECOND, must
from tests.support.iggy.iggy_polls import Polled, read_poll
from tests.support.iggy.iggy_sends import send_payload

TOPIC = "orders"
ANSWERS_WITHIN_US = 20 * SECOND
_AGAIN_US = 200 * MS

GROUP_CONSUMER = IggyConsumer(ConsumerKind.GROUP, id=of_name(GROUP))
ALONE = IggyConsumer(ConsumerKind.CONSUMER, id=of_name("alone"))


class IggyGuest:
    """One of them. Its requests are about the topic main/orders."""

    def __init__(self, story: ToldStory, machine: BrokerMachine, name: str) -> None:
        self._story = story
        self._name = name
        self._answers: list[tuple[int, bytes]] = []
        self._wire = IggyWire(story.network, story.addresses, story.brokers, name, self._heard, lambda: None)
        self._wire.turn_to(machine.broker_id)
        self._wire.connect()
        story.until(lambda: self._wire.is_open, f"a connection of {name}")
        self.ask(LoginUserRequest(ROOT_NAME, ROOT_PASSWORD.decode(), SOFTWARE, ""))

    def _heard(self, status: int, payload: memoryview) -> None:
        self._answers.append((status, bytes(payload)))

    def ask(self, request: Message) -> bytes:
        """The payload of the answer, which is no error."""
        return self._asked(request.ID, b"".join(request.encode(B3.version)))

    def _begin(self, code: int, payload: bytes) -> None:
        self._answers.clear()
        self._wire.tell_bytes(code, payload, IggyAsked("", "", "", _ignore))

    def _asked(self, code: int, payload: bytes) -> bytes:
        self._begin(code, payload)
        self._story.until(lambda: bool(self._answers), f"an answer to {self._name}", ANSWERS_WITHIN_US)
        ((status, answer),) = self._answers
        must(not status, "%s is refused request %s with %s", self._name, code, status)
        return answer

    def begin(self, request: Message) -> None:
        """Sends a request, and goes on: `awaited` waits for the answer."""
        self._begin(request.ID, b"".join(request.encode(B3.version)))

    def awaited(self) -> int:
        """The status of the answer to what was begun."""
        self._story.until(lambda: bool(self._answers), f"an answer to {self._name}", ANSWERS_WITHIN_US)
        ((status, _),) = self._answers
        return status

    def send(self, partition: int, *values: bytes) -> None:
        """A send for each of these."""
        chosen = Partitioning(PartitioningKind.PARTITION, partition)
        for value in values:
            payload = send_payload(B3, of_name(STREAM), of_name(TOPIC), chosen, [value])
            self._asked(IggyCode.SEND_MESSAGES, payload)

    def join(self) -> None:
        """Becomes a member of the group."""
        self.ask(JoinConsumerGroupRequest(of_name(STREAM), of_name(TOPIC), group=of_name(GROUP)))

    def share(self, count: int) -> Polled:
        """So many messages of one of its partitions; nothing is stored."""
        return self._poll(GROUP_CONSUMER, None, count, stores=False)

    def share_until_some(self, within_us: int) -> Polled:
        """One message, as soon as there is one for it."""
        found: list[Polled] = []
        deadline = self._story.world.now + within_us
        while not found or not found[-1].messages:
            must(self._story.world.now < deadline, "%s gets no message", self._name)
            self._story.go_on(_AGAIN_US)
            found.append(self.share(1))
        return found[-1]

    def next_of(self, partition: int, count: int) -> list[int]:
        """The offsets of the next messages of a partition. They are stored with the poll."""
        polled = self._poll(ALONE, partition, count, stores=True)
        return [offset for offset, _ in polled.messages]

    def begin_next_of(self, partition: int, count: int) -> None:
        """As `next_of`; the answer is not waited for."""
        self.begin(self._polls(ALONE, partition, count, stores=True))

    def _poll(self, who: IggyConsumer, partition: int | None, count: int, *, stores: bool) -> Polled:
        return read_poll(B3, self.ask(self._polls(who, partition, count, stores=stores)))

    @staticmethod
    def _polls(who: IggyConsumer, partition: int | None, count: int, *, stores: bool) -> PollMessagesRequest:
        return PollMessagesRequest(
            who, of_name(STREAM), of_name(TOPIC), int(partition is not None), partition or 0,
            PollingKind.NEXT, 0, count, int(stores),
        )  # fmt: skip

    def store(self, partition: int, offset: int, who: IggyConsumer = GROUP_CONSUMER) -> None:
        """Stores how far a consumer came."""
        named = who, of_name(STREAM), of_name(TOPIC), 1, partition
        self.ask(StoreConsumerOffsetRequest(*named, offset))

    def stored(self, partition: int, who: IggyConsumer) -> int | None:
        """How far it came, as is stored."""
        answer = self.ask(GetConsumerOffsetRequest(who, of_name(STREAM), of_name(TOPIC), 1, partition))
        return GetConsumerOffsetResponse.decode(answer, B3.version).stored_offset if answer else None


def _ignore(meant: IggyMeant) -> None:
    """What the names mean to a broker is no matter where the story says what happens."""


def offsets_of(polled: Polled) -> Sequence[int]:
    """The offsets of the messages in an answer."""
    return [offset for offset, _ in polled.messages]
