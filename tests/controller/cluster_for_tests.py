"""A cluster's metadata as tests drive it: every command is checked, and told to a broker's view."""

from collections.abc import Iterable

from tank_controller.commands import commands
from tank_controller.commands.levels import is_internal
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.keys import key_of
from tank_controller.state.state import ClusterState, PartitionState
from tank_node.cluster.view import ClusterView, TopicView, WholeState
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import ALL_RIGHTS
from tank_protos.users.rules import ROOT
from tests.controller.commands_for_tests import create


class Reigns:
    """Who led what, over all commands: in one epoch there is one leader, and one process of it."""

    def __init__(self) -> None:
        self._led: dict[tuple[int, int], tuple[int, int]] = {}
        self._epochs: dict[int, tuple[int, int]] = {}

    def check(self, state: ClusterState) -> None:
        """After a command."""
        for topic_id, topic in state.topics.items():
            for number, partition in enumerate(topic.partitions):
                key = key_of(topic_id, number)
                epochs = partition.leader_epoch, partition.partition_epoch
                before = self._epochs.get(key, (0, 0))
                assert epochs[0] >= before[0], "the leader epoch goes back"
                assert epochs[1] >= before[1], "the partition epoch goes back"
                self._epochs[key] = epochs
                if partition.leader:
                    process = partition.leader, state.brokers[partition.leader].epoch
                    reign = self._led.setdefault((key, partition.leader_epoch), process)
                    assert reign == process, "two led in one epoch"


def check_invariants(state: ClusterState, *, deep: bool = True) -> None:
    """What holds after every command."""
    fenced = {broker.broker_id for broker in state.brokers.values() if broker.fenced}
    assert all(broker.draining or not broker.scaled_down for broker in state.brokers.values())
    for topic in state.topics.values():
        for partition in topic.partitions:
            check_partition(partition, topic.min_insync, fenced)
            if is_internal(state, topic):
                assert len(partition.target) >= topic.replication_factor
            else:
                assert len(partition.target) == topic.replication_factor
    check_iggy(state)
    check_users(state)
    if deep:
        snapshot = state.snapshot()
        again = ClusterState.load(snapshot)
        assert again == state, "what is derived was not kept"
        assert again.snapshot() == snapshot
        check_derived(state)


def check_iggy(state: ClusterState) -> None:
    """The names of Iggy's clients: no number and no name is two living things, and none hangs in the air."""
    iggy = state.iggy
    assert iggy.stream_numbers == {each.name: number for number, each in iggy.streams.items()}
    assert len(iggy.stream_numbers) == len(iggy.streams), "two streams have one name"
    parts = [(topic_id, topic.iggy) for topic_id, topic in state.topics.items() if topic.iggy is not None]
    places = {(part.stream, part.number): topic_id for topic_id, part in parts}
    assert len(places) == len(parts), "two topics of a stream have one number"
    assert len({(part.stream, part.name) for _, part in parts}) == len(parts), "two of them have one name"
    assert {stream for stream, _ in places} <= iggy.streams.keys(), "a topic's stream is gone"
    assert places == {
        (stream, number): topic_id
        for stream, topics in iggy.topics.items()
        for number, topic_id in topics.items()
    }
    going = {each.number for each in iggy.streams.values() if each.going}
    assert going <= {stream for stream, _ in places}, "a stream that is going has no topic left"
    groups = list(iggy.all_groups())
    assert {group.topic_id for group in groups} <= {topic_id for topic_id, _ in parts}, "its topic is gone"
    assert len({(group.topic_id, group.name) for group in groups}) == len(groups) == iggy.group_count
    assert len({group.born for group in groups}) == len(groups)
    assert len({each.born for each in iggy.streams.values()}) == len(iggy.streams)
    assert iggy.option_bytes == sum(part.option_bytes for _, part in parts)
    if parts or iggy.streams:
        assert state.feature_level >= feature_levels.IGGY


def check_users(state: ClusterState) -> None:
    """Users: no number, name or token is two users', and the root user is always there and has all rights."""
    users = state.users
    assert users.numbers == {user.name: number for number, user in users.by_number.items()}
    assert len(users.numbers) == len(users.by_number), "two users have one name"
    tokens = [(token.digest, number) for number, user in users.by_number.items() for token in user.tokens]
    assert users.owners == dict(tokens)
    assert len(users.owners) == len(tokens), "two tokens are one"
    assert len({user.born for user in users.by_number.values()}) == len(users.by_number)
    assert users.permissions_bytes == sum(len(user.permissions or b"") for user in users.by_number.values())
    if users.by_number:
        assert state.feature_level >= feature_levels.IGGY
        root = users.by_number[ROOT]
        assert root.active
        assert root.permissions == ALL_RIGHTS.encode()


def check_derived(state: ClusterState) -> None:
    """What is counted as it changes, counted anew."""
    found = [
        (key_of(topic_id, number), topic, partition)
        for topic_id, topic in state.topics.items()
        for number, partition in enumerate(topic.partitions)
    ]
    derived = state.derived
    assert derived.leaderless == {key for key, _, each in found if not each.leader}
    assert derived.doubtful == {key for key, _, each in found if not each.leader and each.impaired}
    assert derived.moving == {key for key, _, each in found if each.moves}
    assert derived.below_min_insync == sum(len(each.in_sync) < topic.min_insync for _, topic, each in found)
    lacking = [set(each.replicas) - set(each.in_sync) - set(each.adding) for _, _, each in found]
    assert derived.under_replicated == sum(map(bool, lacking))


def check_partition(partition: PartitionState, min_insync: int, fenced: set[int]) -> None:
    """One partition's part of it."""
    replicas = partition.replicas
    assert len(set(replicas)) == len(replicas)
    for members in (partition.in_sync, partition.eligible, partition.impaired):
        assert members == tuple(each for each in replicas if each in members), "out of order, or a stranger"
    assert not fenced & set(partition.in_sync), "a fenced broker is in sync"
    assert not set(partition.in_sync) & set(partition.eligible)
    assert set(partition.impaired) <= set(partition.eligible)
    assert set(partition.adding) <= set(replicas)
    assert replicas[len(replicas) - len(partition.removing) :] == partition.removing
    assert not set(partition.adding) & set(partition.removing)
    if partition.leader:
        assert partition.leader in partition.in_sync
    else:
        assert not partition.in_sync, "somebody is in sync, and nobody leads"
        assert partition.eligible, "nobody can ever lead"
        whole = set(partition.eligible) - set(partition.impaired)
        assert whole <= fenced, "one lives that could lead"
    if partition.eligible:
        assert len(partition.in_sync) < min_insync
    assert partition.lossy_epoch <= partition.leader_epoch
    assert bool(partition.lossy_epoch) == bool(partition.lossy_elections)


def view_of(state: ClusterState) -> ClusterView:
    """As a broker has it that is told the whole state."""
    view = ClusterView("c", 1)
    whole = WholeState(view)
    whole.add(state.delta())
    view.replace(whole)
    return view


def incarnation_of(broker_id: int, start: int) -> bytes:
    return broker_id.to_bytes(8, "big") + start.to_bytes(8, "big")


class Cluster:
    """State and view; `do` applies commands."""

    def __init__(self, *brokers: int, racks: dict[int, str] | None = None) -> None:
        self.state = ClusterState()
        self.view = ClusterView("c", 1)
        self.now_ms = 0
        self._reigns = Reigns()
        self._starts: dict[int, int] = {}
        self._disks: dict[int, int] = {}
        self._racks = racks or {}
        self._levels = feature_levels.OWN
        for broker_id in brokers:
            self.up(broker_id)

    # --- commands ---

    def apply(self, command: pb.Command) -> CommandOutcome:
        """The next entry, which may be rejected."""
        outcome = commands.apply(self.state, self.state.index + 1, command)
        check_invariants(self.state)
        self._reigns.check(self.state)
        self.view.apply(outcome.delta)
        assert self.view == view_of(self.state), "deltas and the whole state tell different things"
        return outcome

    def do(self, command: pb.Command) -> CommandOutcome:
        """The next entry, of which nothing may be refused."""
        outcome = self.apply(command)
        assert outcome.rejection is None, outcome.rejection
        assert all(error is ErrorCode.NONE for error in outcome.results), outcome.results
        return outcome

    def error(self, command: pb.Command) -> ErrorCode:
        """Why the whole command, or the first part of it, is refused; it changes nothing."""
        before = self.state.snapshot()
        index = self.state.index
        outcome = self.apply(command)
        self.state.index, after = index, self.state.index
        assert self.state.snapshot() == before
        self.state.index = after
        if outcome.rejection is not None:
            assert outcome.rejection.message
            return outcome.rejection.error
        return outcome.results[0]

    def registration(
        self,
        broker_id: int,
        *,
        new_disk: bool = False,
        sure: bool = True,
        damaged: Iterable[tuple[int, int]] = (),
        flush_replicated: bool = False,
        host: str = "",
        replicates: bool = True,
        levels: Levels | None = None,
        again: bool = False,
    ) -> pb.Command:
        """Of a process that starts; `again`: of the one that runs."""
        self._starts[broker_id] = self._starts.get(broker_id, 0) + (not again)
        self._disks[broker_id] = self._disks.get(broker_id, 0) + new_disk
        levels = levels or self._levels
        register = pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=incarnation_of(broker_id, self._starts[broker_id]),
            disk_uuid=incarnation_of(broker_id, self._disks[broker_id]),
            tail_sure=sure,
            endpoints=[pb.Endpoint(name="tank", host=host or f"b{broker_id}", port=11011)],
            rack=self._racks.get(broker_id, ""),
            damaged=[pb.PartitionRef(topic_id=topic_id, partition=number) for topic_id, number in damaged],
            replicates=replicates,
            flush_replicated=flush_replicated,
            min_level=levels.lowest,
            max_level=levels.highest,
        )
        return pb.Command(register_broker=register)

    def raise_to(self, level: int) -> None:
        """All processes know this level, and say so from now on."""
        self._levels = Levels(feature_levels.FIRST, level)
        for each in range(self.state.feature_level + 1, level + 1):
            self.do(pb.Command(raise_level=pb.RaiseLevel(level=each, seen_index=1 << 40)))

    def register(self, broker_id: int, **claims: object) -> None:
        """A process starts; it stays fenced."""
        self.do(self.registration(broker_id, **claims))  # type: ignore[arg-type]

    def up(self, broker_id: int, **claims: object) -> None:
        """A process starts, and sees its registration."""
        self.register(broker_id, **claims)
        self.unfence(broker_id)

    def fence(self, *brokers: int) -> None:
        for broker_id in brokers:
            self.do(pb.Command(fence_broker=pb.FenceBroker(broker_id=broker_id, epoch=self.epoch(broker_id))))

    def unfence(self, *brokers: int) -> None:
        for broker_id in brokers:
            self.do(
                pb.Command(unfence_broker=pb.UnfenceBroker(broker_id=broker_id, epoch=self.epoch(broker_id)))
            )

    def set_broker(
        self, broker_id: int, *, draining: bool | None = None, shutting_down: bool | None = None
    ) -> None:
        change = pb.SetBroker(broker_id=broker_id, epoch=self.epoch(broker_id))
        if draining is not None:
            change.draining = draining
        if shutting_down is not None:
            change.shutting_down = shutting_down
        self.do(pb.Command(set_broker=change))

    def topic(self, name: str = "t", partitions: int = 1, factor: int = 3, **settings: str) -> int:
        return self.do(create(name, partitions, factor, **settings)).topic_id

    def in_sync_change(self, topic_id: int, *members: int, number: int = 0) -> pb.Command:
        """What the leader would propose now."""
        partition = self.partition(topic_id, number)
        wanted = pb.InSyncSet(
            topic_id=topic_id,
            partition=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            in_sync=[pb.InSyncMember(broker_id=each, broker_epoch=self.epoch(each)) for each in members],
        )
        leader = partition.leader or members[0]
        change = pb.ChangeInSync(broker_id=leader, broker_epoch=self.epoch(leader), sets=[wanted])
        return pb.Command(change_in_sync=change)

    def set_in_sync(self, topic_id: int, *members: int, number: int = 0) -> None:
        self.do(self.in_sync_change(topic_id, *members, number=number))

    def failed(self, broker_id: int, *partitions: tuple[int, int]) -> None:
        refs = [pb.PartitionRef(topic_id=topic_id, partition=number) for topic_id, number in partitions]
        report = pb.ReportFailed(broker_id=broker_id, broker_epoch=self.epoch(broker_id), partitions=refs)
        self.do(pb.Command(report_failed=report))

    def elect(self, topic_id: int, number: int = 0, *, unclean: bool = False) -> pb.Command:
        kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
        ref = pb.PartitionRef(topic_id=topic_id, partition=number)
        return pb.Command(elect_leader=pb.ElectLeader(kind=kind, partitions=[ref]))

    def lossy(self, topic_id: int, ends: dict[int, tuple[int, int] | None], number: int = 0) -> pb.Command:
        """`ends`: by broker, (epoch at end, end); None: it has nothing to lead with."""
        given = [
            pb.ReplicaEnd(
                broker_id=broker_id,
                broker_epoch=self.epoch(broker_id),
                epoch_at_end=end[0] if end else 0,
                end=end[1] if end else 0,
                unusable=end is None,
            )
            for broker_id, end in ends.items()
        ]
        return pb.Command(elect_lossy=pb.ElectLossy(topic_id=topic_id, partition=number, ends=given))

    def reassign(self, topic_id: int, *replicas: int, number: int = 0) -> pb.Command:
        placed = pb.Placed(topic_id=topic_id, partition=number, replicas=replicas)
        return pb.Command(reassign=pb.Reassign(partitions=[placed]))

    def finish(self, topic_id: int, number: int = 0) -> pb.Command:
        ref = pb.PartitionRef(topic_id=topic_id, partition=number)
        return pb.Command(finish_reassign=pb.FinishReassign(partitions=[ref]))

    def cancel(self, topic_id: int, number: int = 0) -> pb.Command:
        ref = pb.PartitionRef(topic_id=topic_id, partition=number)
        return pb.Command(cancel_reassign=pb.CancelReassign(partitions=[ref]))

    # --- looking ---

    def epoch(self, broker_id: int) -> int:
        return self.state.brokers[broker_id].epoch

    def partition(self, topic_id: int, number: int = 0) -> PartitionState:
        return self.state.topics[topic_id].partitions[number]

    def seen(self, topic_id: int) -> TopicView:
        """The topic as brokers see it."""
        topic = self.view.topic_by_id(topic_id)
        assert topic is not None
        return topic

    def seen_as_fenced(self) -> set[int]:
        """The brokers that brokers take for fenced."""
        return {broker.broker_id for broker in self.view.brokers.values() if broker.fenced}
