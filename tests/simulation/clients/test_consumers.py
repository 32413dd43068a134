"""The simulator's consumers: what they make of messages that a lossy election may have taken."""

import pytest

from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import ConsumeResponse
from tank_protos.generated.tank.consume_response import FetchedPartition, FetchedTopic
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.written_books import KEY, committed
from tests.simulation.clients.clients import Target
from tests.simulation.clients.consumer_line import Line
from tests.simulation.clients.consumers import Consumer
from tests.simulation.world.world import SECOND, Violation, World


class Story:
    """One consumer, whose answers are told."""

    def __init__(self) -> None:
        self.world = World(0)
        self.books = MessageBooks(self.world)
        self.line = Line()
        self.consumer = Consumer(self.world, self.books, Target("t", *KEY), 1, "r")
        self.consumer.line = self.line
        self.consumer.act()

    def told_to_begin_at(self, first: int, *, epoch: int) -> None:
        """Where it asks for next there is nothing any more, says the leader of this epoch."""
        self.line.epoch = epoch
        entry = FetchedPartition(KEY[1], ConsumeFlag.OUT_OF_BOUNDS, 0, self.books.of(KEY).end, 0, first)
        payload = b"".join(ConsumeResponse(0, 1, [FetchedTopic("t", 1, False, [entry])], b"").encode())
        self.consumer.heard(ConsumeResponse.ID, memoryview(payload))

    def told(self, first: int, *values: bytes) -> None:
        """An answer with these messages; then it asks again."""
        chunk = bundle.as_batch(bundle.encode(list(values), timestamps=1))
        entry = FetchedPartition(KEY[1], ConsumeFlag.DATA, first, 0, len(chunk))
        payload = b"".join(ConsumeResponse(0, 1, [FetchedTopic("t", 1, False, [entry])], chunk).encode())
        self.consumer.heard(ConsumeResponse.ID, memoryview(payload))
        asked = len(self.line.asked)
        while len(self.line.asked) == asked:
            self.world.run_until(self.world.now + 1)
            assert self.world.now < SECOND


@pytest.fixture
def story() -> Story:
    """Messages of before a lossy election, and others at their numbers since."""
    story = Story()
    committed(story.books.of(KEY), 1, b"a", b"b", b"c")
    story.told(1, b"a")
    story.books.lossy(KEY, 2)
    story.books.of(KEY).waits = False
    committed(story.books.of(KEY), 1, b"a", b"new", b"newer", epoch=2)
    return story


def test_who_was_shown_what_may_be_gone_begins_anew_and_is_judged_again(story: Story) -> None:
    story.told(2, b"b")  # it was asked before the election: that says nothing
    story.told(1, b"a", b"b")
    assert story.line.asked[-1] == 1
    assert story.line.turned == 1, "who showed it led before the election"
    assert not story.consumer.has_all
    with pytest.raises(Violation, match="shown 3, and expected 1"):
        story.told(3, b"newer")


def test_who_has_everything_has_read_it_since_it_was_asked_to_begin_again(story: Story) -> None:
    story.told(2, b"b")
    story.told(1, b"a", b"new", b"newer")
    assert story.consumer.has_all
    story.consumer.read_again()
    assert not story.consumer.has_all


def test_retention_excuses_what_it_can_have_taken_and_no_more(story: Story) -> None:
    books = story.books.of(KEY)
    story.told(1, b"a")  # it was asked before the election: that says nothing
    books.retains, books.retained = True, 2
    story.told_to_begin_at(3, epoch=1)  # by a leader of before, whose retention nobody has judged
    assert story.consumer.next == 3
    story.consumer.read_again()
    story.told(3, b"newer")
    story.told_to_begin_at(2, epoch=2)
    assert story.consumer.next == 2
    story.consumer.read_again()
    story.told(2, b"new")
    with pytest.raises(Violation, match="is told it is out of bounds"):
        story.told_to_begin_at(3, epoch=2)
