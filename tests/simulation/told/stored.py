"""Told stories of sessions that append stored batches to a partition that another broker leads. A leads; a
session at B appends."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.session import Session
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Appended, Fetched, StoredWanted
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.stored.strategy import StoredStrategy
from tank_protos import bundle
from tests.simulation.story import listening
from tests.simulation.told.told import LIMITS, ToldStory
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import MS, SECOND, must

EVERYTHING = StoredWanted(StoredStrategy.FIRST, 0, 1_000)


@contextmanager
def _telling() -> Iterator[ToldStory]:
    """A story whose processes know the level from which on brokers ask each other for stored batches."""
    story = ToldStory({"flush": "disk"}, LIMITS, ForwardingPolicy.NEVER, clients=False)
    with listening(story.world):
        story.begin()
        yield story


class StoredSession:
    """A session at one broker, and what became of its appends."""

    def __init__(self, story: ToldStory, machine: BrokerMachine) -> None:
        self._story = story
        self._machine = machine
        self._session = Session()
        self.told: dict[bytes, Appended] = {}
        """By message."""

    def append(self, *values: bytes) -> None:
        """A batch for each, in one tick."""
        self._do(lambda: self._append(values))

    def _append(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._append_one(value)

    def _append_one(self, value: bytes) -> None:
        broker = self._machine.broker
        assert broker is not None
        batch = bundle.as_batch(bundle.encode([value], timestamps=self._story.world.now_ms()))
        stored_partitions(broker).append(
            self._story.key, memoryview(bytearray(batch)), self._session, partial(self._appended, value)
        )

    def _appended(self, value: bytes, result: Appended) -> None:
        must(value not in self.told, "%s is answered twice", value)
        self.told[value] = result
        if not result.outcome:
            story = self._story
            story.world.after(0, None, partial(story.books.acknowledged, story.key, value, result.first))

    def read(self) -> list[bytes]:
        """All that is committed."""
        found: list[Fetched] = []
        broker = self._machine.broker
        assert broker is not None
        stored = stored_partitions(broker)
        self._do(lambda: stored.fetch(self._story.key, EVERYTHING, self._session, found.append))
        self._story.until(lambda: bool(found), "the answer to a read")
        must(not found[0].outcome, "a read ends with %s", found[0].outcome)
        values: list[bytes] = []
        for batch in found[0].batches:
            for one in bundle.bundles(memoryview(batch.data)):
                values += [bytes(message.value) for message in bundle.decode(one, batch.first)]
        return values

    def _do(self, call: Callable[[], object]) -> None:
        server = self._machine.server
        assert server is not None

        def act() -> None:
            server.begin()
            call()
            server.finish()

        self._story.do(self._machine, act)

    def wait_for(self, *values: bytes) -> None:
        """Until these are answered."""
        self._story.until(lambda: self.told.keys() >= {*values}, "answers", 20 * SECOND)


def the_connection_breaks_behind_a_sessions_append() -> None:
    """A has written the message, and waits for C; the connection breaks. B tells its client that it doesn't
    know what became of it, and sends it nowhere again: it is there once."""
    with _telling() as story:
        a, b, c = story.cast
        session = StoredSession(story, b)
        session.append(b"first")
        session.wait_for(b"first")
        c.slow_until = story.world.now + 300 * MS
        session.append(b"second")
        story.until(lambda: story.at(a).log.written == 2, "the append at A")
        story.break_streams(a, b.name)
        session.wait_for(b"second")
        outcome = session.told[b"second"].outcome
        must(outcome is StoredOutcome.MAYBE_STORED, "B says that it is %s", outcome)
        story.go_on(2 * SECOND)
        session.append(b"third")
        session.wait_for(b"third")
        must(session.read() == [b"first", b"second", b"third"], "there is %s", session.read())
        story.rest()


def a_leader_dies_with_a_sessions_append() -> None:
    """A has written the message alone, and dies. B leads next: what the session sends then is stored, and
    what A had is told to be in doubt, whether it is there or not."""
    with _telling() as story:
        a, b, c = story.cast
        session = StoredSession(story, b)
        session.append(b"first")
        session.wait_for(b"first")
        story.part(a, c.name, one_way=True)
        session.append(b"second")
        story.until(lambda: story.at(a).log.written == 2, "the append at A")
        a.end(False)
        session.append(b"third", b"fourth")
        session.wait_for(b"second", b"third", b"fourth")
        must(
            session.told[b"second"].outcome is StoredOutcome.MAYBE_STORED,
            "B says that it is %s",
            session.told[b"second"].outcome,
        )
        for value in (b"third", b"fourth"):
            must(not session.told[value].outcome, "%s is %s", value, session.told[value].outcome)
        story.rejoin(a, c.name)
        a.start()
        story.until(lambda: story.are_in_sync(a, b, c), "A's return", 20 * SECOND)
        found = session.read()
        must(
            found in ([b"first", b"second", b"third", b"fourth"], [b"first", b"third", b"fourth"]),
            "there is %s",
            found,
        )
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    the_connection_breaks_behind_a_sessions_append,
    a_leader_dies_with_a_sessions_append,
)
