"""The simulator's idempotent producers: what excuses a memory of them that is lost, and what doesn't."""

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    InitProducerRequest,
    InitProducerResponse,
)
from tank_protos.generated.tank.idempotent_produce_response import (
    IdempotentPartitionResult,
    IdempotentTopicResult,
)
from tank_protos.wire.message import Message
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.written_books import KEY, committed
from tests.simulation.clients.clients import Target
from tests.simulation.clients.consumer_line import Line
from tests.simulation.clients.producers import IdempotentProducer
from tests.simulation.world.world import SECOND, Violation, World


class Broker(Line):
    """Keeps what is sent, and gives ids."""

    epoch = 1

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[IdempotentProduceRequest] = []
        self.producer: IdempotentProducer

    def send(self, message: Message, request_id: int, topic: str, partition: int) -> None:
        if isinstance(message, InitProducerRequest):
            given = InitProducerResponse(request_id, ErrorCode.NONE, "", 1 + len(self.sent), 0)
            self.producer.heard(InitProducerResponse.ID, memoryview(b"".join(given.encode())))
            return
        assert isinstance(message, IdempotentProduceRequest)
        self.sent.append(message)

    def used(self, request_id: int) -> tuple[int, int]:
        return 0, self.epoch

    def hang_up(self) -> None:
        """Nothing to do."""

    def turn_away(self) -> None:
        self.producer.lost()


class Story:
    """One producer, whose answers are told."""

    def __init__(self) -> None:
        self.world = World(0)
        self.books = MessageBooks(self.world)
        self.broker = Broker()
        self.producer = IdempotentProducer(self.world, self.books, Target("t", *KEY), 1, "p")
        self.broker.producer = self.producer
        self.producer.line = self.broker
        self.producer.act()

    def sends(self) -> IdempotentProduceRequest:
        """Its next batch."""
        sent = len(self.broker.sent)
        while len(self.broker.sent) == sent:
            self.world.run_until(self.world.now + 1)
            assert self.world.now < SECOND
        return self.broker.sent[-1]

    def stored(self, *, epoch: int) -> None:
        """Its next batch is committed and acknowledged, by a leader of this epoch."""
        request = self.sends()
        books = self.books.of(KEY)
        values = self.producer.unknown[0].values
        first = books.end + 1
        committed(books, first, *values, epoch=epoch)
        self.broker.epoch = epoch
        self._told(request, ErrorCode.NONE, first)

    def forgotten(self) -> None:
        """Its next batch is refused: nobody knows what came before it."""
        self._told(self.sends(), ErrorCode.OUT_OF_ORDER_SEQUENCE, 0)

    def _told(self, request: IdempotentProduceRequest, error: ErrorCode, first: int) -> None:
        result = IdempotentPartitionResult(KEY[1], error, first, first)
        answer = IdempotentProduceResponse(request.request_id, [IdempotentTopicResult("t", [result])])
        self.producer.heard(IdempotentProduceResponse.ID, memoryview(b"".join(answer.encode())))


def test_an_election_excuses_the_loss_of_what_was_before_it_once() -> None:
    story = Story()
    story.stored(epoch=1)
    story.books.lossy(KEY, 2, may_lose=False)
    story.forgotten()
    story.stored(epoch=2)
    with pytest.raises(Violation, match="memory was lost"):
        story.forgotten()


def test_what_a_leader_of_before_has_acknowledged_since_may_be_lost_with_it() -> None:
    story = Story()
    story.stored(epoch=1)
    story.books.lossy(KEY, 2)
    story.books.of(KEY).waits = False
    story.stored(epoch=1)  # with an id of after the election
    story.stored(epoch=2)
    [_, to_the_old, to_the_new] = [request.producer_id for request in story.broker.sent]
    assert to_the_old != to_the_new
    with pytest.raises(Violation, match="memory was lost"):
        story.forgotten()


def test_a_leader_of_before_may_lack_what_came_since_and_the_one_that_leads_may_not() -> None:
    story = Story()
    story.stored(epoch=1)
    story.books.of(KEY).leaders.update({1: (1, 1), 2: (2, 1)})
    story.stored(epoch=2)
    story.broker.epoch = 1  # it was frozen, or is cut off
    story.forgotten()
    story.stored(epoch=2)
    [*_, refused, again] = story.broker.sent
    assert (refused.producer_id, refused.topics) == (again.producer_id, again.topics)
    with pytest.raises(Violation, match="memory was lost"):
        story.forgotten()
