"""A group's coordinator is killed under members of a stock library: they go on, and no commit is lost."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

from tank_client.sync import Client
from tank_protos.generated.kafka import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tank_protos.wire.names import GROUPS_TOPIC
from tests.kafka_clients.groups import ALL, GroupTests, is_shared
from tests.kafka_clients.libraries import StockLibrary
from tests.kafka_clients.member import END_S, Member, until
from tests.support import waiting
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.cluster import LocalCluster, Process

LIBRARIES: Final = ("librdkafka", "franz-go", "Java")
"""Those that are tried, in this order."""
COMMITS: Final = 3
"""How often each member has committed before the kill."""
PAUSE_S: Final = 0.05
"""Between two rounds of records, one to each partition."""


@dataclass(slots=True)
class Feed:
    """Records that are sent to all partitions, round by round, until it is stopped."""

    tank_servers: str
    topic: str
    sent: dict[tuple[int, int], float] = field(default_factory=dict)
    """When each was sent, by partition and offset, by the monotonic clock."""
    stopped: Event = field(default_factory=Event)

    def run(self) -> None:
        """Sends."""
        with Client(self.tank_servers) as client, client.producer() as producer:
            while not self.stopped.wait(PAUSE_S):
                began = time.monotonic()
                stored = [(each, producer.send(self.topic, b"x" * 100, partition=each)) for each in ALL]
                producer.flush()
                for partition, answer in stored:
                    self.sent[partition, answer.result(END_S).first - 1] = began

    def ends(self) -> dict[int, int]:
        """Where each partition ends."""
        ends: dict[int, int] = {}
        for partition, offset in self.sent:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
        return ends


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group whose coordinator was killed."""

    problem: str
    """Empty: nothing is wrong."""
    went_on_s: float = 0.0
    """From the kill until every member had a commit acknowledged of a record that was sent after it."""
    changes: int = 0
    """How often the members' assignments changed."""

    @property
    def note(self) -> str:
        """The figures in a sentence."""
        return (
            f"members commit again after {self.went_on_s:.2f} s, with {self.changes} changes of assignments"
        )


def killed(tests: GroupTests, cluster: LocalCluster, library: StockLibrary) -> Outcome:
    """Kills the coordinator of a group with two members, and starts the broker again at the end. Raises
    RuntimeError when the members do not go on."""
    group = f"group-killed-{library.name}-{time.time():.0f}"
    feed = Feed(tests.tank_servers, tests.topic)
    feeding = Thread(target=feed.run, daemon=True)
    with ExitStack() as stack:
        stack.callback(_restore, cluster, tests.topic)
        stack.callback(feed.stopped.set)
        members = [stack.enter_context(tests.member(library, group)) for _ in range(2)]
        until(members, lambda: is_shared(members))
        feeding.start()
        until(members, lambda: all(len(member.committed) >= COMMITS for member in members))
        victim = _coordinator(cluster, group)
        changes = sum(member.changes for member in members)
        at = time.monotonic()
        victim.kill()
        until(members, lambda: all(_went_on(member, feed, at) for member in members))
        went_on_s = max(_went_on(member, feed, at) for member in members) - at
        feed.stopped.set()
        feeding.join(END_S)
        until(members, lambda: {place for member in members for place in member.read} >= feed.sent.keys())
        changes = sum(member.changes for member in members) - changes
        for member in members:
            member.leave()
        problem = _lost(members, feed, _committed(cluster, group, tests.topic))
    return Outcome(problem, went_on_s, changes)


def _went_on(member: Member, feed: Feed, killed_at: float) -> float:
    """When the member heard that a record is committed that was sent after the kill; 0: not yet."""
    for at, offsets in list(member.committed):
        if at > killed_at:
            for partition, following in offsets.items():
                if feed.sent.get((partition, following - 1), 0.0) > killed_at:
                    return at
    return 0.0


def _lost(members: list[Member], feed: Feed, committed: dict[int, int]) -> str:
    told: dict[int, int] = {}
    for member in members:
        for _, offsets in member.committed:
            for partition, following in offsets.items():
                told[partition] = max(following, told.get(partition, 0))
    lost = {each: (committed.get(each), told[each]) for each in told if committed.get(each, -1) < told[each]}
    if lost:
        return f"commits are lost, by partition (committed, acknowledged): {lost}"
    behind = {
        each: (committed.get(each), end) for each, end in feed.ends().items() if committed.get(each) != end
    }
    return f"the group is not at the end, by partition (committed, end): {behind}" if behind else ""


def _alive(cluster: LocalCluster) -> list[Process]:
    return [each for each in cluster.processes("broker") if each.facts()]


def _socket(broker: Process) -> KafkaSocket:
    return KafkaSocket(int(str(broker.addresses["kafka"]).rpartition(":")[2]))


def _coordinator(cluster: LocalCluster, group: str) -> Process:
    found: list[int] = []

    def is_known() -> bool:
        with _socket(_alive(cluster)[0]) as client:
            answer = client.ask(FindCoordinatorRequest(group), FindCoordinatorResponse, 3)
        found[:] = [] if answer.error_code else [answer.node_id]
        return bool(found)

    waiting.until(is_known, f"{group} has no coordinator")
    (broker,) = [each for each in cluster.processes("broker") if each.number == found[0]]
    return broker


def _committed(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """What is committed, by partition."""
    found: dict[int, int] = {}

    def is_told() -> bool:
        with _socket(_coordinator(cluster, group)) as client:
            answer = client.ask(OffsetFetchRequest(group, None), OffsetFetchResponse, 7)
        for each in answer.topics:
            if each.name == topic:
                found.update({one.partition_index: one.committed_offset for one in each.partitions})
        return not answer.error_code

    waiting.until(is_told, f"the coordinator of {group} does not answer")
    return found


def _restore(cluster: LocalCluster, topic: str) -> None:
    """Starts the broker again, and waits until all replicas are in sync."""
    cluster.up()

    def is_whole() -> bool:
        partitions = [each for name in (topic, GROUPS_TOPIC) for each in cluster.partitions(name)]
        return all(len(each["in_sync"]) == len(each["replicas"]) for each in partitions)

    waiting.until(is_whole, "a replica is not in sync", 120)
