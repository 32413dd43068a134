"""A broker's groups that answer what the test says, and a Kafka client's connection to them."""

from collections.abc import Callable, Mapping, Sequence

from tank_node.coordinators.groups import Groups
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    DescribedGroup,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncAnswer,
    SyncRequest,
    TopicPartition,
)
from tank_node.security.gate import Gate
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


class ScriptedGroups(Groups):
    """Keeps what it was asked, and answers what `error` and the other fields say. What waits in a real
    coordinator is kept with its callback, for the test to answer."""

    def __init__(self) -> None:
        self.error = GroupError.NONE
        """The answer to everything that has room for one error."""
        self.asked: list[object] = []
        """The arguments of each call, in order."""
        self.finding: list[tuple[str, Callable[[GroupError, int], None]]] = []
        self.joining: list[tuple[JoinRequest, Callable[[JoinAnswer], None]]] = []
        self.syncing: list[tuple[SyncRequest, Callable[[SyncAnswer], None]]] = []
        self.committing: list[
            tuple[CommitRequest, Callable[[Mapping[TopicPartition, GroupError]], None]]
        ] = []
        self.left: list[GroupError] = []
        """The results for members that leave, in order."""
        self.offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        """By group."""
        self.groups: dict[str, DescribedGroup] = {}
        self.results: dict[object, GroupError] = {}
        """The results for groups and partitions that are deleted; those that are not in it are NONE."""

    def coordinator_of(self, group_id: str, done: Callable[[GroupError, int], None]) -> None:
        self.finding.append((group_id, done))

    def join(self, request: JoinRequest, done: Callable[[JoinAnswer], None]) -> None:
        self.joining.append((request, done))

    def sync(self, request: SyncRequest, done: Callable[[SyncAnswer], None]) -> None:
        self.syncing.append((request, done))

    def heartbeat(self, member: MemberName, generation: int) -> GroupError:
        self.asked.append((member, generation))
        return self.error

    def leave(
        self,
        group_id: str,
        members: Sequence[tuple[str, str | None]],
        done: Callable[[GroupError, Sequence[GroupError]], None],
    ) -> None:
        self.asked.append((group_id, list(members)))
        done(self.error, [] if self.error else self.left)

    def commit(
        self, request: CommitRequest, done: Callable[[Mapping[TopicPartition, GroupError]], None]
    ) -> None:
        self.committing.append((request, done))

    def check_fetch(self, group_id: str, member_id: str, member_epoch: int) -> GroupError:
        return self.error

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition] | None
    ) -> tuple[GroupError, Mapping[TopicPartition, CommittedOffset]]:
        self.asked.append((group_id, partitions))
        if self.error:
            return self.error, {}
        offsets = self.offsets.get(group_id, {})
        if partitions is None:
            return GroupError.NONE, offsets
        return GroupError.NONE, {each: offsets[each] for each in partitions if each in offsets}

    def count_offsets(self, group_id: str) -> int:
        return len(self.offsets.get(group_id, {}))

    def describe(self, group_id: str) -> DescribedGroup:
        self.asked.append(group_id)
        return self.groups.get(group_id, DescribedGroup(self.error, group_id))

    def listed(self) -> tuple[GroupError, list[ListedGroup]]:
        found = [
            ListedGroup(each.group_id, each.protocol_type, each.state, members=len(each.members))
            for each in self.groups.values()
        ]
        return self.error, found

    def list_all(self, done: Callable[[GroupError, list[ListedGroup]], None]) -> None:
        done(*self.listed())

    def delete(self, group_ids: Sequence[str], done: Callable[[Mapping[str, GroupError]], None]) -> None:
        self.asked.append(list(group_ids))
        done({each: self.results.get(each, GroupError.NONE) for each in group_ids})

    def delete_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition],
        done: Callable[[GroupError, Mapping[TopicPartition, GroupError]], None],
    ) -> None:
        self.asked.append((group_id, list(partitions)))
        results = {each: self.results.get(each, GroupError.NONE) for each in partitions}
        done(self.error, {} if self.error else results)


class GroupLine(KafkaLine):
    """A connection of a client that uses groups. `groups` are the broker's from now on."""

    def __init__(self, node: BenchNode, groups: ScriptedGroups, gate: Gate | None = None) -> None:
        super().__init__(node, gate)
        node.broker.groups = groups
        self.session.came_from = lambda: "10.0.0.7"
