"""Requests that mean something to the broker as it is now: valid, and often odd.

Repeats and gaps of idempotent producers, waits for what comes next, runs of small produces with a bad one
among them, topics that go while somebody waits for them.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from tank_node.broker.broker import Broker
from tank_protos import bundle
from tank_protos.generated.tank import (
    AlteredSetting,
    AlterTopicRequest,
    AwaitEndsRequest,
    CommitPositionsRequest,
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    DeleteGroupsRequest,
    DeletePositionsRequest,
    DeleteTopicRequest,
    DescribeGroupsRequest,
    DescribeTopicsRequest,
    FetchPositionsRequest,
    FindByTimeRequest,
    GroupHeartbeatRequest,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentTopic,
    InitProducerRequest,
    KnownEnd,
    ListGroupsRequest,
    OwnedTopic,
    PositionsOfTopic,
    PositionToCommit,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
    TimeToFind,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message
from tests.fuzz import random_bundles
from tests.fuzz.session_node import PARTITIONS, TOPICS

_END: Final = 2**64 - 1
_WRAP: Final = 2**31
_BAD_SHARE: Final = 0.1
_SETTINGS: Final = (
    ("flush", "disk"), ("flush", "replicated"), ("segment.bytes", "1048576"), ("retention.ms", "1000"),
    ("no.such.setting", "1"), ("flush", "never"), ("min.insync.replicas", "2"),
    ("min.insync.replicas", "1"),
)  # fmt: skip


class Requester:
    """One client's requests, each with a number of its own."""

    def __init__(self, chance: Random, broker: Broker, first_id: int) -> None:
        self._chance = chance
        self._broker = broker
        self._next_id = first_id
        self._producer, self._epoch, self._sequence = first_id, 0, 0

    def frames(self) -> bytes:
        """One to a few frames."""
        made = self._chance.choice(_KINDS)(self)
        return b"".join(b"".join(frame(one.ID, one.encode())) for one in made)

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _topic(self) -> str:
        return self._chance.choice((*TOPICS, "nobody"))

    def _partition(self) -> int:
        number: int = self._chance.choice((*range(PARTITIONS), *range(PARTITIONS), PARTITIONS, 65534))
        return number

    def _mark(self, topic: str, number: int) -> int:
        known = self._broker.topics.get(topic)
        partition = known.partitions.get(number) if known else None
        return partition.high_water_mark if partition else 0

    def _bundle(self) -> tuple[bytes, int]:
        """A bundle and how many messages it says it has."""
        if self._chance.random() < _BAD_SHARE:
            return random_bundles.bad(self._chance), 1
        made = random_bundles.good(self._chance, self._chance.randrange(1, 50))
        if self._chance.random() < 0.6:
            made = random_bundles.Made(
                bundle.encode([self._chance.randbytes(9)], timestamps=1), made.rows[:1]
            )
        return made.bundle, len(made.rows)

    def run(self) -> list[Message]:
        """Small produces for one partition, one after another: the broker's short way."""
        topic, number = self._topic(), self._partition()
        client = self._chance.choice(("", "me"))
        made: list[Message] = []
        for _ in range(self._chance.choice((1, 2, 5, 12))):
            if self._chance.random() < 0.05:
                topic, number = self._topic(), self._partition()
            batch = memoryview(bundle.as_batch(self._bundle()[0]))
            entry = ProducePartition(number, batch)
            made.append(ProduceRequest(2, self._id(), client, 0, 0, [ProduceTopic(topic, [entry])]))
        return made

    def several(self) -> list[Message]:
        """One produce for several partitions of several topics."""
        topics = [
            ProduceTopic(
                self._topic(),
                [
                    ProducePartition(self._partition(), memoryview(bundle.as_batch(self._bundle()[0])))
                    for _ in range(self._chance.randrange(4))
                ],
            )
            for _ in range(self._chance.randrange(3))
        ]
        return [ProduceRequest(2, self._id(), "", 0, self._chance.choice((0, 1, 5000)), topics)]

    def numbered(self) -> list[Message]:
        """With a number of the client's choice, near the end of the log."""
        topic, number = self._topic(), self._partition()
        content, _ = self._bundle()
        first = max(0, self._mark(topic, number) + self._chance.choice((-1, 0, 1, 1, 1, 2, 300)))
        entry = ProduceBasePartition(number, len(content), first, content)
        return [ProduceWithBaseSeqNumRequest(2, self._id(), "", 0, 0, [ProduceBaseTopic(topic, [entry])])]

    def idempotent(self) -> list[Message]:
        """The next batch of this client's producer, or a repeat, a gap, an older one, another epoch."""
        content, messages = self._bundle()
        step = self._chance.choice((0, 0, 0, 0, 0, -messages, 1, _WRAP // 2, -self._sequence))
        sequence = (self._sequence + step) % _WRAP
        if self._chance.random() < 0.05:
            self._epoch, self._sequence = self._epoch + self._chance.choice((-1, 1)) & 0xFFFF, 0
        entry = IdempotentPartition(1, sequence, 0, memoryview(bundle.as_batch(content)))
        topic = [IdempotentTopic("gold", [entry])]
        request = IdempotentProduceRequest(0, self._id(), "", 0, 0, self._producer, self._epoch, topic)
        if not step:
            self._sequence = (sequence + messages) % _WRAP
        again = self._chance.random() < 0.2
        return [request, request] if again else [request]

    def many(self) -> list[Message]:
        """More bundles than one request may have, where the limits are tight."""
        entry = IdempotentPartition(1, 0, 0, memoryview(bundle.as_batch(b"nothing")))
        topics = [IdempotentTopic("nobody", [entry] * 10)] * self._chance.choice((1, 2, 3))
        return [IdempotentProduceRequest(0, self._id(), "", 0, 0, 0, 0, topics)]

    def consume(self) -> list[Message]:
        """From the beginning, the end, before and behind; with and without a wait."""
        topics = []
        for _ in range(self._chance.choice((1, 1, 2))):
            name = self._topic()
            wanted = []
            for _ in range(self._chance.choice((1, 1, 3))):
                number = self._partition()
                mark = self._mark(name, number)
                first = self._chance.choice((0, 1, mark, mark + 1, mark + 1, mark + 2, _END, mark // 2))
                wanted.append(ConsumePartition(number, first, self._chance.choice((0, 1, 4096, 1 << 20))))
            topics.append(ConsumeTopic(name, wanted))
        wait_ms = self._chance.choice((0, 0, 10, 5000, (1 << 32) - 1))
        version = self._chance.choice((0, 2, 2, 3))
        return [ConsumeRequest(version, self._id(), "", wait_ms, self._chance.choice((0, 1, 300)), 0, topics)]

    def follow(self) -> list[Message]:
        """One partition, again and again, by requests that differ in their numbers alone."""
        name, number = self._topic(), self._partition()
        mark, wait_ms = self._mark(name, number), self._chance.choice((0, 0, 10))
        made: list[Message] = []
        for _ in range(self._chance.choice((2, 4))):
            first = self._chance.choice((0, 1, mark, mark + 1, mark + 2, _END, mark // 2))
            wanted = ConsumePartition(number, first, self._chance.choice((0, 4096)))
            made.append(ConsumeRequest(2, self._id(), "", wait_ms, 0, 0, [ConsumeTopic(name, [wanted])]))
        return made

    def await_ends(self) -> list[Message]:
        known = []
        for _ in range(self._chance.choice((0, 1, 2, 12))):
            topic, number = self._topic(), self._partition()
            mark = self._mark(topic, number)
            known.append(KnownEnd(topic, number, self._chance.choice((mark, mark, mark, mark + 1, _END))))
        return [AwaitEndsRequest(0, self._id(), self._chance.choice((0, 10, 5000)), known)]

    def question(self) -> list[Message]:
        """Times, topics, groups."""
        times = [TimeToFind(self._partition(), self._chance.choice((0, 1, _END, 1_700_000_000_000)))]
        position = PositionToCommit(self._topic(), self._partition(), 7, "note")
        kinds: tuple[Message, ...] = (
            FindByTimeRequest(0, self._id(), self._topic(), times),
            DescribeTopicsRequest(0, self._id(), [self._topic()]),
            CommitPositionsRequest(0, self._id(), "group", positions=[position]),
            FetchPositionsRequest(0, self._id(), self._chance.choice(("group", "none")), []),
            CommitPositionsRequest(1, self._id(), "group", "member", 3, [position]),
            ListGroupsRequest(self._chance.choice((0, 1)), self._id()),
            DescribeGroupsRequest(0, self._id(), ["group", "none", "group"]),
            DeleteGroupsRequest(0, self._id(), ["none", "group"]),
            self._heartbeat(),
            DeletePositionsRequest(0, self._id(), "group", [PositionsOfTopic(self._topic(), [0, 1, 99])]),
            InitProducerRequest(0, self._id(), "name", 0),
        )
        return [self._chance.choice(kinds)]

    def _heartbeat(self) -> Message:
        """A member of a group joins, goes on, or leaves."""
        return GroupHeartbeatRequest(
            request_id=self._id(),
            group=self._chance.choice(("shared", "group", "")),
            member_id=self._chance.choice(("member", "other")),
            instance_id=self._chance.choice(("", "", "static")),
            member_epoch=self._chance.choice((0, 0, 1, 2, -1, -2)),
            has_topics=1,
            topics=[self._topic()],
            assignor=self._chance.choice(("", "range", "none")),
            has_owned=1,
            owned=[OwnedTopic(self._topic(), [0, 99])] if self._chance.random() < 0.3 else [],
        )

    def topics(self) -> list[Message]:
        """Settings change, partitions are added, a topic goes."""
        if self._chance.random() < 0.2:
            return [DeleteTopicRequest(0, self._id(), self._topic())]
        key, value = self._chance.choice(_SETTINGS)
        more = self._chance.choice((0, 0, 0, 6))
        return [AlterTopicRequest(0, self._id(), self._topic(), more, [AlteredSetting(key, value)], 0)]


_KINDS: Final[tuple[Callable[[Requester], list[Message]], ...]] = (
    Requester.run, Requester.run, Requester.run, Requester.several, Requester.numbered,
    Requester.idempotent, Requester.idempotent, Requester.consume, Requester.consume, Requester.consume,
    Requester.await_ends, Requester.question, Requester.topics, Requester.many,
    Requester.follow, Requester.follow,
)  # fmt: skip
