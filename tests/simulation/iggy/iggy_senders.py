"""Iggy's clients that send messages, by all three ways to choose a partition. They send nothing twice."""

from tank_protos.iggy.checksums import key_partition
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import BALANCED, Partitioning
from tests.simulation.books.committed import Key
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_tenant import Tenancy
from tests.simulation.iggy.iggy_visitor import STREAM, IggyVisitor
from tests.simulation.world.world import must
from tests.support.iggy.iggy_sends import send_payload

_PARTITIONS = 3
"""It names one of so many; a topic may have fewer."""


class IggySender(IggyVisitor):
    """One of them."""

    def __init__(self, ledger: IggyLedger, pause_us: int, name: str, topics: list[Tenancy]) -> None:
        super().__init__(ledger, pause_us, name)
        self._topics = topics
        self._count = 0
        self._sent: list[bytes] = []
        self._chosen = BALANCED
        self._in_doubt: tuple[int, list[bytes]] | None = None
        """What was refused by an error that may also mean that it is stored: then the connection ends."""
        self._last: dict[Key, tuple[int, int]] = {}
        """By partition: the generation of its books, and the number of the message that was stored last."""

    def next_request(self) -> None:
        chance = self.world.random
        topic = chance.choice(self._topics).name
        self._sent = []
        for _ in range(chance.choice((1, 1, 3))):
            self._count += 1
            self._sent.append(b"iggy-%s:%d" % (self.name.encode(), self._count))
        kind = chance.choice(tuple(PartitioningKind))
        if kind is PartitioningKind.PARTITION:
            self._chosen = Partitioning(kind, partition=chance.randrange(_PARTITIONS))
        elif kind is PartitioningKind.KEY:
            self._chosen = Partitioning(kind, key=b"key %d" % chance.randrange(5))
        else:
            self._chosen = BALANCED
        payload = send_payload(B3, of_name(STREAM), of_name(topic), self._chosen, self._sent)
        self.ask_bytes(IggyCode.SEND_MESSAGES, payload, topic)

    def took(self, payload: memoryview) -> None:
        must(not payload, "%s gets an answer of %s bytes to a send", self.name, len(payload))
        self._settle()
        self.world.counts["iggy sends acknowledged"] += 1
        meant, chosen, partition = self.meant, self._chosen, None
        if chosen.kind is PartitioningKind.PARTITION:
            partition = chosen.partition
        elif chosen.kind is PartitioningKind.KEY:
            partition = key_partition(chosen.key, meant.partitions)
        key = self.ledger.acknowledged(meant.topic_id, partition, self._sent)
        if key is None:
            return
        books = self.ledger.books.of(key)
        generation, last = self._last.get(key, (0, 0))
        (first,) = books.payloads[self._sent[0]]
        must(generation != books.generation or first > last, "%s sends behind %s in %s, and it gets %s",
             self.name, last, key, first)  # fmt: skip
        self._last[key] = books.generation, first + len(self._sent) - 1

    def refused(self, error: IggyError) -> None:
        self._settle()
        if error is IggyError.DISCONNECTED and self.meant.topic_id:
            self._in_doubt = self.meant.topic_id, self._sent

    def _settle(self) -> None:
        """The connection is there still: what was refused on it is not stored."""
        if self._in_doubt is not None:
            self.ledger.refused(*self._in_doubt)
            self._in_doubt = None

    def lost(self, *, was_waiting: bool) -> None:
        self._in_doubt = None
