"""A bench node that coordinates consumer groups, and what a test asks of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tank_node.cluster.view import ChangeKind
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
    TopicPartition,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.disk import Disk
from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_protos.wire.names import GROUPS_TOPIC
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.bench_node import BenchNode

GROUP = "billing"


class Ignored:
    """A completion that nobody waits for."""

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        assert not refusal


class Coordinating:
    """A node with the topic `orders` of ten partitions, and its groups. Member ids are `client-1` and so
    on."""

    def __init__(self, node: BenchNode, settings: GroupSettings) -> None:
        self.node = node
        self._ids = 0
        self.groups = Groups(node.broker, settings, self._new_id)
        node.broker.groups = self.groups

    def _new_id(self, client_id: str) -> str:
        self._ids += 1
        return f"{client_id}-{self._ids}"

    def found(self, group_id: str = GROUP) -> list[tuple[GroupError, int]]:
        """The coordinator of a group, when it is known by now."""
        answers: list[tuple[GroupError, int]] = []
        self.node.broker.begin_tick()
        self.groups.coordinator_of(group_id, lambda error, broker: answers.append((error, broker)))
        self.node.tick()
        return answers

    def partition(self, group_id: str = GROUP) -> Partition:
        """The partition of a group."""
        number = self.groups.partition_of(group_id)
        assert number is not None
        return self.node.broker.topics[GROUPS_TOPIC].partitions[number]

    def lead(self, leader: int, leader_epoch: int) -> None:
        """The view says that this broker leads the groups' partitions, which another one follows."""
        topic = self.node.controller.view.topic(GROUPS_TOPIC)
        assert topic is not None
        placed = [
            replace(each, leader=leader, leader_epoch=leader_epoch, replicas=(1, 2), in_sync=(leader,))
            for each in topic.partitions
        ]
        self.node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))

    def load(self) -> None:
        """Time passes until all groups are read."""
        for _ in range(10_000):
            if self.groups.listed()[0] is not GroupError.LOADING:
                return
            self.node.pass_ms(1)
            self.node.tick()
        raise AssertionError("the groups are not read in time")

    def settle(self) -> None:
        """The tick ends, and the disk has what was appended."""
        self.node.tick()
        self.node.sync()
        self.node.tick()

    def begin_commit(
        self,
        offset: int = 7,
        group_id: str = GROUP,
        places: Sequence[TopicPartition] = (("orders", 0),),
        *,
        member_id: str = "",
        generation: int = -1,
        metadata: str = "",
        expire_ms: int = -1,
    ) -> list[Mapping[TopicPartition, GroupError]]:
        """Commits this offset of all places. The tick has not ended; the answer comes into the list."""
        answers: list[Mapping[TopicPartition, GroupError]] = []
        committed = CommittedOffset(offset, 3, metadata, self.node.clock.now_ms(), expire_ms)
        request = CommitRequest(MemberName(group_id, member_id), generation, dict.fromkeys(places, committed))
        self.node.broker.begin_tick()
        self.groups.commit(request, answers.append)
        return answers

    def commit(self, offset: int = 7, group_id: str = GROUP, **more: object) -> list[GroupError]:
        """Commits, waits for the disk, and gives the errors."""
        answers = self.begin_commit(offset, group_id, **more)  # type: ignore[arg-type]
        self.settle()
        (results,) = answers
        return list(results.values())

    def offsets(self, group_id: str = GROUP) -> dict[TopicPartition, int]:
        """All offsets of a group."""
        self.node.broker.begin_tick()
        error, found = self.groups.committed(group_id, None)
        assert error is GroupError.NONE
        return {place: offset.offset for place, offset in found.items()}

    def join(
        self,
        member_id: str = "",
        group_id: str = GROUP,
        *,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
    ) -> list[JoinAnswer]:
        """Joins; the answer comes into the list."""
        answers: list[JoinAnswer] = []
        name = MemberName(group_id, member_id, instance_id)
        request = JoinRequest(
            name, "client", "/10.0.0.7", 10_000, 60_000, protocol_type, (("range", b"subscription"),)
        )
        self.node.broker.begin_tick()
        self.groups.join(request, answers.append)
        self.node.tick()
        return answers

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        group_id: str = GROUP,
    ) -> list[SyncAnswer]:
        """Asks for the assignment; the answer comes into the list."""
        answers: list[SyncAnswer] = []
        request = SyncRequest(MemberName(group_id, member_id), generation, assignments or {})
        self.node.broker.begin_tick()
        self.groups.sync(request, answers.append)
        self.node.tick()
        return answers

    def stable_member(self, group_id: str = GROUP) -> str:
        """The id of a member of a new group of one, which has its assignment."""
        joined = self.join(group_id=group_id)
        self.node.pass_ms(1)
        self.settle()
        (answer,) = joined
        assert answer.error is GroupError.NONE
        synced = self.sync(answer.member_id, answer.generation, {answer.member_id: b"work"}, group_id)
        self.settle()
        assert [each.assignment for each in synced] == [b"work"]
        return answer.member_id


@contextmanager
def coordinating(
    folder: Path,
    *,
    controller: InstantController | None = None,
    settings: GroupSettings | None = None,
    limits: Limits | None = None,
    disk: Disk | None = None,
) -> Iterator[Coordinating]:
    """A node that coordinates, with one partition for all groups unless the settings say another number. The
    initial delay is 0."""
    settings = settings or GroupSettings(topic_partitions=1, initial_delay_ms=0)
    with BenchNode(folder, limits, disk, controller) as node:
        if node.controller.view.topic("orders") is None:
            node.controller.add("orders", 10)
        yield Coordinating(node, settings)
