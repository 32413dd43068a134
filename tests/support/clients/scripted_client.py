"""A client of a broker that lives in a dictionary: for tests of the command line that need no real one."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from tank_client import errors
from tank_client.model import (
    Address,
    BrokerDescription,
    BrokerReport,
    CommittedPosition,
    ConnectedClient,
    ConnectionPage,
    ConsumerGroupState,
    Ends,
    Features,
    FoundTime,
    GroupDescription,
    GroupSummary,
    Headers,
    PartitionDescription,
    ServerStatus,
    Setting,
    Stored,
    TopicDescription,
)
from tank_client.settings import ConsumerSettings


class Kept(NamedTuple):
    """A message of the dictionary."""

    number: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass
class FakeTopic:
    """A topic: messages by partition, settings, and how many of each partition have expired."""

    partitions: list[list[Kept]]
    settings: dict[str, str] = field(default_factory=dict)
    replication_factor: int = 1
    expired: int = 0
    led_elsewhere: dict[int, int] = field(default_factory=dict)
    """Leaders of partitions that the broker that is asked doesn't lead: it can't tell their ends."""


@dataclass
class FakeBatch:
    """The messages of one partition, as the consumer hands them out."""

    topic: str
    partition: int
    kept: list[Kept]

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.kept]

    @property
    def timestamps_ms(self) -> list[int]:
        return [each.timestamp_ms for each in self.kept]

    @property
    def keys(self) -> list[bytes | None]:
        return [each.key for each in self.kept]

    @property
    def values(self) -> list[bytes | None]:
        return [each.value for each in self.kept]

    @property
    def headers(self) -> list[Headers]:
        return [each.headers for each in self.kept]


class FakeBroker:
    """What a `ScriptedClient` talks to. Tests fill `topics` and `positions`, and read `calls`."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.positions: dict[str, dict[tuple[str, int], CommittedPosition]] = {}
        self.groups: dict[str, GroupDescription] = {}
        """Those with members. One that has positions alone is in `positions`."""
        self.titles: dict[str, str] = {}
        """What people know groups by."""
        self.silent_groups: set[str] = set()
        """Groups whose coordinator does not answer."""
        self.brokers = [BrokerDescription(1, Address("127.0.0.1", 11011))]
        self.calls: list[tuple[str, Any]] = []
        self.report: BrokerReport | None = BrokerReport(1, "1.2.3", 5, 61_000, "/d", 2048, 1024, 4096, 6, 2)
        self.connections: list[ConnectedClient] = []
        """Shown two at a time."""
        self.fails_with: BaseException | None = None
        self.hang: set[int] = set()
        """Brokers that answer no question about ends."""
        self.batch_messages = 3

    def fill(
        self, topic: str, *partitions: Sequence[str | bytes | tuple[str, str]], start_ms: int = 1_000
    ) -> None:
        """Makes a topic with these values, or (key, value) pairs, a second apart."""
        made = FakeTopic([[] for _ in partitions])
        for messages, kept in zip(partitions, made.partitions, strict=True):
            for place, message in enumerate(messages):
                key, value = message if isinstance(message, tuple) else (None, message)
                kept.append(
                    Kept(
                        place + 1,
                        start_ms + 1_000 * place,
                        None if key is None else key.encode(),
                        value if isinstance(value, bytes) else value.encode(),
                    )
                )
        self.topics[topic] = made

    def topic(self, name: str) -> FakeTopic:
        if name not in self.topics:
            raise errors.UnknownTopic(name)
        return self.topics[name]

    def reach(self, name: str, partition: int) -> Ends:
        topic = self.topic(name)
        if partition >= len(topic.partitions):
            raise errors.UnknownPartition(name, partition)
        kept = topic.partitions[partition]
        return Ends(topic.expired + 1, len(kept)) if kept else Ends(0, 0)


class FakeAdmin:
    """`client.admin`."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        chosen = sorted(self._broker.topics) if names is None else list(names)
        return [self._describe(name, self._broker.topic(name)) for name in chosen]

    def _describe(self, name: str, topic: FakeTopic) -> TopicDescription:
        settings = [Setting(key, value, False) for key, value in topic.settings.items()]
        reaches = [self._broker.reach(name, partition) for partition in range(len(topic.partitions))]
        partitions = tuple(
            PartitionDescription(place, 1, 1, (1,), (1,), reach.first_available, reach.high_water_mark, 100)
            if place not in topic.led_elsewhere
            else PartitionDescription(place, topic.led_elsewhere[place], 1, (1,), (1,), None, None, 100)
            for place, reach in enumerate(reaches)
        )
        return TopicDescription(name, partitions, 7, 1, (*settings, Setting("log.roll.secs", "7d", True)))

    def brokers(self) -> list[BrokerDescription]:
        return self._broker.brokers

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> int:
        self._broker.calls.append(
            ("create_topic", (name, partitions, replication_factor, dict(settings or {})))
        )
        if name in self._broker.topics:
            raise errors.TopicExists(name)
        self._broker.topics[name] = FakeTopic([[] for _ in range(partitions)], dict(settings or {}))
        return 7

    def alter_topic(
        self, name: str, *, partitions: int = 0, settings: Mapping[str, str | None] | None = None
    ) -> None:
        self._broker.topic(name)
        self._broker.calls.append(("alter_topic", (name, partitions, dict(settings or {}))))

    def delete_topic(self, name: str) -> None:
        self._broker.topic(name)
        del self._broker.topics[name]

    def find_by_time(self, topic: str, times: Mapping[int, int]) -> dict[int, FoundTime]:
        """By batch, as a broker does it: the number can be up to a batch early."""
        found = {}
        for partition, time_ms in times.items():
            kept = self._broker.topic(topic).partitions[partition]
            place = next((i for i, each in enumerate(kept) if each.timestamp_ms >= time_ms), None)
            if place is None:
                found[partition] = FoundTime(len(kept) + 1, 0)
            else:
                begin = place - place % self._broker.batch_messages
                found[partition] = FoundTime(kept[begin].number, kept[place].timestamp_ms)
        return found

    def ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, Ends]:
        chosen = range(len(self._broker.topic(topic).partitions)) if partitions is None else partitions
        return {partition: self._broker.reach(topic, partition) for partition in chosen}

    def await_ends(
        self, known: Mapping[tuple[str, int], int | None], max_wait_ms: int = 0
    ) -> dict[tuple[str, int], Ends]:
        self._broker.calls.append(("await_ends", sorted(known)))
        leaders = {self._broker.topic(topic).led_elsewhere.get(number, 1) for topic, number in known}
        if leaders & self._broker.hang:
            raise errors.RequestTimedOut("await_ends", 3_000)
        return {place: self._broker.reach(*place) for place in known}

    def commit_positions(
        self,
        group: str,
        positions: Mapping[tuple[str, int], int],
        *,
        member: tuple[str, int] | None = None,
    ) -> None:
        self._broker.calls.append(("commit", (group, dict(positions), member)))
        members = self._broker.groups[group].members if group in self._broker.groups else ()
        if members and member not in {(each.member_id, each.epoch) for each in members}:
            raise errors.UnknownMember("the group has members")
        kept = self._broker.positions.setdefault(group, {})
        kept.update({place: CommittedPosition(number, "", 1_500) for place, number in positions.items()})

    def fetch_positions(
        self, group: str, topics: Iterable[str] | None = None
    ) -> dict[tuple[str, int], CommittedPosition]:
        if group in self._broker.silent_groups:
            raise errors.RequestTimedOut("fetch_positions", 3_000)
        chosen = None if topics is None else set(topics)
        kept = self._broker.positions.get(group, {})
        return {place: at for place, at in kept.items() if chosen is None or place[0] in chosen}

    def list_groups(self) -> list[str]:
        return sorted(self._broker.positions.keys() | self._broker.groups.keys())

    def groups(self) -> list[GroupSummary]:
        found = self.describe_groups(self.list_groups())
        titles = self._broker.titles
        return [
            GroupSummary(
                each.name, each.protocol_type, each.state, len(each.members), titles.get(each.name, "")
            )
            for each in found
        ]

    def describe_groups(self, names: Iterable[str]) -> list[GroupDescription]:
        return [self._describe_group(name) for name in names]

    def _describe_group(self, name: str) -> GroupDescription:
        if name in self._broker.groups:
            return self._broker.groups[name]
        is_there = name in self._broker.positions
        state = ConsumerGroupState.EMPTY if is_there else ConsumerGroupState.DEAD
        return GroupDescription(name, state, "consumer", "", -1, ())

    def delete_groups(self, names: Iterable[str]) -> None:
        for found in self.describe_groups(names):
            if found.state is ConsumerGroupState.DEAD:
                raise errors.UnknownGroup("there is no such group")
            if found.members:
                raise errors.GroupNotEmpty("the group has members: end them first")
            self._broker.groups.pop(found.name, None)
            self._broker.positions.pop(found.name, None)

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return {name: len(self._broker.topic(name).partitions) for name in names}

    def features(self) -> Features:
        return Features(1000, "test-cluster", 1, {"FindByTime": (0, 1)}, {"max_frame_bytes": 1 << 28})

    def describe_broker(self) -> BrokerReport:
        if self._broker.report is None:
            raise errors.FeatureMissing("describing itself", 1000)
        return self._broker.report

    def describe_connections(self, after: int = 0, limit: int = 0) -> ConnectionPage:
        behind = [each for each in self._broker.connections if each.number > after]
        page = tuple(behind[:2])
        return ConnectionPage(1, page, page[-1].number if len(behind) > len(page) else None)

    def status(self) -> ServerStatus:
        count = sum(len(topic.partitions) for topic in self._broker.topics.values())
        return ServerStatus(1000, False, "", 1, len(self._broker.topics), count, count, 3, 1_357_016_400)


class FakeProducer:
    """Stores at once."""

    trouble: BaseException | None = None

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> "list[Future[Stored]]":
        self._broker.calls.append(("send_many", len(values)))
        made = self._broker.topic(topic)
        place = 0 if partition is None else partition
        if place >= len(made.partitions):
            raise errors.UnknownPartition(topic, place)
        kept = made.partitions[place]
        first = len(kept) + 1
        stamps = timestamps_ms or [time.time_ns() // 1_000_000] * len(values)
        columns = (keys or [None] * len(values), values, stamps, headers or [()] * len(values))
        for key, value, stamp, found in zip(*columns, strict=True):
            kept.append(Kept(len(kept) + 1, stamp, key, value, found))
        future: Future[Stored] = Future()
        future.set_result(Stored(first, len(kept)))
        return [future] * len(values)

    def flush(self) -> None:
        self._broker.calls.append(("flush", None))
        if self._broker.fails_with is not None:
            raise self._broker.fails_with

    def close(self) -> None:
        self._broker.calls.append(("close producer", None))


class FakeConsumer:
    """Hands out batches of a few messages, partition after partition, then nothing. With a group: as its only
    member, from its positions on."""

    def __init__(
        self,
        broker: FakeBroker,
        start: Mapping[tuple[str, int], int],
        group: str | None = None,
        on_assigned: Callable[[list[tuple[str, int]]], object] | None = None,
    ) -> None:
        self._broker = broker
        self._next = dict(start)
        self._group = group
        self._on_assigned = on_assigned
        """Called at the first read; then None."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        ends = (
            (self._broker.topic(topic).partitions[number], at) for (topic, number), at in self._next.items()
        )
        return all(at > len(kept) for kept, at in ends)

    def position(self, topic: str, partition: int) -> int:
        """The next number that is handed out."""
        return self._next[topic, partition]

    def positions(self) -> dict[tuple[str, int], int]:
        """All positions; none before a member has heard of its partitions."""
        return {} if self._on_assigned is not None else dict(self._next)

    def seek(self, topic: str, partition: int, number: int) -> None:
        """Goes on there."""
        self._next[topic, partition] = number

    def commit(self) -> None:
        """What was handed out is read."""
        assert self._group is not None
        kept = self._broker.positions.setdefault(self._group, {})
        for place, number in self._next.items():
            if number > (kept[place].number if place in kept else 1):
                kept[place] = CommittedPosition(number, "", 1_500)

    def __iter__(self) -> Iterator[FakeBatch]:
        while (batch := self.poll()) is not None:
            yield batch

    def poll(self, max_wait_ms: int = 0) -> FakeBatch | None:
        """The next batch from the position on."""
        if self._broker.fails_with is not None:
            raise self._broker.fails_with
        if self._on_assigned is not None:
            self._on_assigned(list(self._next))
            self._on_assigned = None
        for (topic, partition), number in self._next.items():
            kept = self._broker.topic(topic).partitions[partition]
            part = kept[number - 1 : number - 1 + self._broker.batch_messages]
            if part:
                self._next[topic, partition] = part[-1].number + 1
                return FakeBatch(topic, partition, part)
        return None

    def close(self) -> None:
        self._broker.calls.append(("close consumer", None))


class ScriptedClient:
    """In the place of `tank_client.sync.Client`."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self.admin = FakeAdmin(broker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.calls.append(("close client", None))

    def producer(self, settings: object = None) -> FakeProducer:
        self._broker.calls.append(("producer", settings))
        return FakeProducer(self._broker)

    def consumer(
        self,
        topics: str | Mapping[str, Iterable[int]],
        *,
        start: str | Mapping[tuple[str, int], int],
        group: str | None = None,
        stop_at_end: bool = False,
        settings: ConsumerSettings | None = None,
        on_assigned: Callable[[list[tuple[str, int]]], object] | None = None,
        **listeners: object,
    ) -> FakeConsumer:
        if isinstance(topics, str) or isinstance(start, str):
            assert (group is not None, start) == (True, "committed")
            said = {"topic": topics, "group": group, "stop_at_end": stop_at_end}
            self._broker.calls.append(("member", said))
            kept = self._broker.positions.get(str(group), {})
            routes = [(str(topics), n) for n in range(len(self._broker.topic(str(topics)).partitions))]
            numbers = {route: kept[route].number if route in kept else 1 for route in routes}
            return FakeConsumer(self._broker, numbers, group, on_assigned)
        self._broker.calls.append(("consumer", {"start": dict(start), "stop_at_end": stop_at_end}))
        return FakeConsumer(self._broker, start)
