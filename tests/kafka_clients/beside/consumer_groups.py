"""Scripts of groups whose broker assigns the partitions (KIP-848)."""

import time
from collections.abc import Mapping
from typing import Any, Final

from tank_protos.generated.kafka import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tank_protos.generated.kafka.consumer_group_heartbeat_request import TopicPartitions
from tests.kafka_clients.beside.group_calls import (
    COMMIT,
    FETCH,
    HEARTBEAT,
    LEAVE,
    SYNC,
    commit,
    delete_groups,
    fetch,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.kafka_clients.beside.talk import ANSWER_S, Line, Talk
from tests.support.clients.kafka_socket import KafkaSocket

BEAT, DESCRIBE = 1, 1
"""The newest versions of Kafka 4.1."""
REBALANCE_MS: Final = 45_000
SEEN_S: Final = 1.0
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Epochs that say what a member wants."""


class Beats:
    """The heartbeats of one member over one connection."""

    def __init__(self, talk: Talk, group: str, member_id: str, instance: str | None = None) -> None:
        self.line = talk.line()
        self.member_id = member_id
        self.epoch = JOINS
        self._talk = talk
        self._group = group
        self._instance = instance

    def beat(
        self,
        what: str,
        epoch: int | None = None,
        *,
        version: int = BEAT,
        topics: list[str] | None = None,
        owned: Mapping[str, tuple[int, ...]] | None = None,
        rebalance_ms: int = -1,
        regex: str | None = None,
        assignor: str | None = None,
    ) -> Any:
        """One heartbeat; its epoch is the member's unless another is given. Returns the answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self._instance if epoch in (JOINS, LEAVES_FOR_A_WHILE) or self.epoch == 0 else None,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None if owned is None else self._owned(owned),
        )
        answer = self.line.ask(f"{self.member_id or 'no id'}: {what}", request, version)
        if not answer.error_code and answer.member_epoch > 0:
            self.epoch = answer.member_epoch
        return answer

    def join(self, *topics: str, assignor: str | None = None) -> Any:
        """Joins, and owns nothing."""
        return self.beat(
            "joins", JOINS, topics=list(topics), owned={}, rebalance_ms=REBALANCE_MS, assignor=assignor
        )

    def _owned(self, owned: Mapping[str, tuple[int, ...]]) -> list[TopicPartitions]:
        return [TopicPartitions(id_of(self._talk, name), list(each)) for name, each in owned.items()]


def topic_of(talk: Talk, name: str) -> str:
    """Creates a topic, and waits until the coordinator knows it: Kafka's hears of it later than clients."""
    topic = talk.topic(name)
    time.sleep(SEEN_S)
    return topic


def id_of(talk: Talk, topic: str) -> bytes:
    """A topic's id."""
    with KafkaSocket(talk.server.port, ANSWER_S) as client:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        return bytes(client.ask(request, MetadataResponse, 12).topics[0].topic_id)


def describe(line: Line, what: str, *groups: str) -> None:
    """Describes groups by the request for this kind, and by the other."""
    line.ask(f"{what}: described", ConsumerGroupDescribeRequest(list(groups)), DESCRIBE)
    line.ask(f"{what}: described as classic", DescribeGroupsRequest(list(groups)), 6)


def one_alone(talk: Talk) -> None:
    """A member joins, lives, and leaves."""
    topic, group = topic_of(talk, "t"), talk.group()
    one, asks = Beats(talk, group, "one"), talk.line()
    describe(asks, "not there", group)
    one.join(topic)
    one.beat("owns all", owned={topic: (0, 1, 2, 3)})
    one.beat("lives")
    one.beat("says all again", topics=[topic], owned={topic: (0, 1, 2, 3)}, rebalance_ms=REBALANCE_MS)
    one.beat("owns less than it may", owned={topic: (0,)})
    describe(asks, "stable", group)
    one.beat("an epoch of before", 0, topics=[topic], owned={}, rebalance_ms=REBALANCE_MS)
    one.beat("an epoch to come", 99)
    one.beat("lives")
    one.beat("reads nothing", topics=[])
    one.beat("reads a topic that is not there", topics=[f"{topic}.none"])
    one.beat("reads both", topics=[topic, f"{topic}.none"])
    one.beat("lives")
    one.beat("leaves", LEAVES)
    one.beat("lives no more")
    one.beat("leaves again", LEAVES)
    describe(asks, "empty", group)
    asks.ask("is deleted", delete_groups(group), 2)
    describe(asks, "deleted", group)


def refused(talk: Talk) -> None:
    """Heartbeats that are wrong by themselves."""
    topic = topic_of(talk, "t")
    group = talk.group()
    one = Beats(talk, group, "one")
    whole = {"topics": [topic], "owned": {}, "rebalance_ms": REBALANCE_MS}
    Beats(talk, "", "one").beat("no group", JOINS, **whole)  # type: ignore[arg-type]
    Beats(talk, group, "").beat("no id", JOINS, **whole)  # type: ignore[arg-type]
    Beats(talk, group, "two", "").beat("an empty instance", JOINS, **whole)  # type: ignore[arg-type]
    one.beat("no topics", JOINS, owned={}, rebalance_ms=REBALANCE_MS)
    one.beat("an empty list of topics", JOINS, topics=[], owned={}, rebalance_ms=REBALANCE_MS)
    one.beat("no rebalance timeout", JOINS, topics=[topic], owned={})
    one.beat("nothing owned said", JOINS, topics=[topic], rebalance_ms=REBALANCE_MS)
    one.beat("owns something", JOINS, topics=[topic], owned={topic: (0,)}, rebalance_ms=REBALANCE_MS)
    one.beat("an unknown assignor", JOINS, assignor="sticky", **whole)  # type: ignore[arg-type]
    one.beat("an empty assignor", JOINS, assignor="", **whole)  # type: ignore[arg-type]
    one.beat("an epoch below all", -3)
    one.beat("leaves for a while, not static", LEAVES_FOR_A_WHILE)
    one.beat("a group that isn't there", 5)
    one.beat("leaves a group that isn't there", LEAVES)
    one.beat("a bad expression", JOINS, regex="(", owned={}, rebalance_ms=REBALANCE_MS)


def by_an_expression(talk: Talk) -> None:
    """Topics by a regular expression. The answer that has the partitions may be a later one."""
    topic, group = topic_of(talk, "t"), talk.group()
    one = Beats(talk, group, "one")
    one.beat("joins", JOINS, regex=f"{topic[:-1]}[t-u]", topics=[], owned={}, rebalance_ms=REBALANCE_MS)
    one.beat("another expression that is bad", regex="[")


def two_share(talk: Talk) -> None:
    """A second member joins: it gets what the first has given up, and not before."""
    for assignor in (None, "uniform", "range"):
        topic, group = topic_of(talk, f"of-{assignor}"), talk.group(str(assignor))
        one, two, asks = Beats(talk, group, "one"), Beats(talk, group, "two"), talk.line()
        one.join(topic, assignor=assignor)
        one.beat("owns all", owned={topic: (0, 1, 2, 3)})
        two.join(topic, assignor=assignor)
        two.beat("lives")
        describe(asks, "assigning", group)
        answer = one.beat("lives")
        kept = tuple(answer.assignment.topic_partitions[0].partitions) if answer.assignment else ()
        two.beat("lives while one still owns all")
        one.beat("owns what it keeps", owned={topic: kept})
        two.beat("lives")
        two.beat("lives, once more")
        describe(asks, "stable", group)
        two.beat("leaves", LEAVES)
        one.beat("lives alone")
        one.beat("lives alone, once more")


def static(talk: Talk) -> None:
    """Static members, which leave for a while and come back under another id."""
    topic, group = topic_of(talk, "t"), talk.group()
    old, new, other = (Beats(talk, group, name, "i") for name in ("old", "new", "other"))
    asks = talk.line()
    old.join(topic)
    old.beat("owns all", owned={topic: (0, 1, 2, 3)})
    new.join(topic)
    old.beat("leaves for a while", LEAVES_FOR_A_WHILE)
    describe(asks, "one is away", group)
    new.join(topic)
    new.beat("owns all", owned={topic: (0, 1, 2, 3)})
    old.beat("lives")
    other.beat("leaves, who was never there", LEAVES)
    describe(asks, "one is back", group)
    new.beat("leaves", LEAVES)
    new.join(topic)


def positions(talk: Talk) -> None:
    """Commits and fetches by members, and by others."""
    topic, group = topic_of(talk, "t"), talk.group()
    one, line = Beats(talk, group, "one"), talk.line()
    one.join(topic)
    one.beat("owns all", owned={topic: (0, 1, 2, 3)})
    for version in (8, COMMIT):
        for who, member, epoch in (
            ("one", "one", one.epoch),
            ("one, of before", "one", one.epoch - 1),
            ("one, to come", "one", one.epoch + 1),
            ("nobody", "nobody", one.epoch),
            ("no member", "", -1),
        ):
            made = commit(group, topic, 4, member_id=member, generation=epoch)
            line.ask(f"{who} commits", made, version)
            if version == COMMIT:
                asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, member, epoch, None)])
                line.ask(f"{who} fetches", asked, FETCH)
    line.ask("anybody fetches", fetch(group), 7)
    line.ask("is deleted", delete_groups(group), 2)
    one.beat("leaves", LEAVES)
    line.ask("no member commits", commit(group, topic, 5), COMMIT)
    line.ask("is deleted", delete_groups(group), 2)


def asked_as_classic(talk: Talk) -> None:
    """Requests of the classic protocol by a member of this kind, and by nobody."""
    topic, group = topic_of(talk, "t"), talk.group()
    one, line = Beats(talk, group, "one"), talk.line()
    one.join(topic)
    one.beat("owns all", owned={topic: (0, 1, 2, 3)})
    for who in ("one", "nobody"):
        line.ask(f"{who} lives", heartbeat(group, one.epoch, who), HEARTBEAT)
        line.ask(f"{who} syncs", sync(group, one.epoch, who), SYNC)
        line.ask(f"{who} leaves", leave(group, (who, None)), LEAVE)
    line.ask("a worker joins", join(group, kind="connect"), 3)
    line.ask("words that can't be read", join(group, protocols=("range",), kind="other"), 3)
    one.beat("lives")
