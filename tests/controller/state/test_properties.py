"""Any commands, in any order, of brokers that crash, thaw, lose disks, leave: what must hold, holds."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.leader.tasks import LeaderTasks
from tank_controller.state.state import ClusterState, PartitionState
from tank_node.cluster.view import ChangeKind, ClusterView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Reigns, check_invariants, incarnation_of, view_of
from tests.controller.commands_for_tests import alter, create, delete
from tests.support.examples import examples

BROKERS = (1, 2, 3, 4)

brokers = st.sampled_from(BROKERS)
flags = st.booleans()
some_brokers = st.lists(brokers, max_size=4)


@dataclass
class World:
    """A state, the commands that made it, and what was seen of it."""

    state: ClusterState = field(default_factory=ClusterState)
    history: list[pb.Command] = field(default_factory=list)
    view: ClusterView = field(default_factory=lambda: ClusterView("c", 1))
    reigns: Reigns = field(default_factory=Reigns)
    starts: dict[int, int] = field(default_factory=dict)
    disks: dict[int, int] = field(default_factory=dict)
    old: list[pb.Command] = field(default_factory=list)
    """Commands that may come a second time, late."""

    def apply(self, command: pb.Command) -> None:
        """One more entry, with all that must hold behind it."""
        self.history.append(command)
        before = self.state.snapshot()
        expected = commands.check(self.state, command)
        outcome = commands.apply(self.state, self.state.index + 1 + len(self.history) % 2, command)
        assert (outcome.rejection and outcome.rejection.error) == (expected and expected.error)
        if (
            outcome.rejection is not None
            or set(outcome.results) - {ErrorCode.NONE} == set(outcome.results) != set()
        ):
            self._must_be(before)
        self.reigns.check(self.state)
        check_invariants(self.state)
        for change in self.view.apply(outcome.delta):
            if change.kind is ChangeKind.ALTERED:
                assert change.partitions or outcome.delta.topics
        assert self.view == view_of(self.state)
        self._applied_twice(command)

    def _must_be(self, before: bytes) -> None:
        was = ClusterState.load(before)
        was.index = self.state.index
        assert was == self.state, "what was refused changed something"

    def _applied_twice(self, command: pb.Command) -> None:
        if command.WhichOneof("command") == "init_producer":
            return
        again = copy.deepcopy(self.state)
        outcome = commands.apply(again, again.index + 1, command)
        again.index = self.state.index
        assert again == self.state, "applied twice is not applied once"
        assert not outcome.delta.changed
        assert not outcome.delta.brokers

    # --- who there is ---

    def epoch(self, broker_id: int) -> int:
        broker = self.state.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def partitions(self) -> list[tuple[int, int, PartitionState]]:
        return [
            (topic_id, number, partition)
            for topic_id, topic in self.state.topics.items()
            for number, partition in enumerate(topic.partitions)
        ]


Step = Callable[[World], None]


def step(
    make: Callable[..., pb.Command | None], *strategies: st.SearchStrategy[object]
) -> st.SearchStrategy[Step]:
    """A command that depends on the world as it is then."""

    def build(args: Sequence[object]) -> Step:
        def run(world: World) -> None:
            command = make(world, *args)
            if command is not None:
                world.old.append(command)
                world.apply(command)

        return run

    return st.tuples(*strategies).map(build)


def register(
    world: World, broker_id: int, restart: bool, new_disk: bool, sure: bool, memory: bool, damaged: list[int]
) -> pb.Command:
    world.starts[broker_id] = world.starts.get(broker_id, 0) + restart
    world.disks[broker_id] = world.disks.get(broker_id, 0) + (new_disk and restart)
    known = world.partitions()
    return pb.Command(
        register_broker=pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=incarnation_of(broker_id, world.starts[broker_id]),
            disk_uuid=incarnation_of(broker_id, world.disks[broker_id]),
            tail_sure=sure,
            endpoints=[pb.Endpoint(name="tank", host=f"b{broker_id}", port=1)],
            rack=f"r{broker_id % 3}",
            damaged=[
                pb.PartitionRef(topic_id=t, partition=n) for at in damaged for t, n, _ in known[at : at + 1]
            ],
            replicates=True,
            flush_replicated=memory,
            min_level=feature_levels.FIRST,
            max_level=feature_levels.IGGY,
        )
    )


def fence(world: World, broker_id: int) -> pb.Command:
    return pb.Command(fence_broker=pb.FenceBroker(broker_id=broker_id, epoch=world.epoch(broker_id)))


def unfence(world: World, broker_id: int) -> pb.Command:
    return pb.Command(unfence_broker=pb.UnfenceBroker(broker_id=broker_id, epoch=world.epoch(broker_id)))


def set_broker(world: World, broker_id: int, *flags: bool | None) -> pb.Command:
    change = pb.SetBroker(broker_id=broker_id, epoch=world.epoch(broker_id))
    for name, flag in zip(("draining", "shutting_down", "scaled_down", "clock_off"), flags, strict=True):
        if flag is not None:
            setattr(change, name, flag)
    return pb.Command(set_broker=change)


def remove_broker(world: World, broker_id: int) -> pb.Command:
    return pb.Command(remove_broker=pb.RemoveBroker(broker_id=broker_id))


def change_in_sync(world: World, at: int, members: list[int], off: int) -> pb.Command | None:
    known = world.partitions()
    if not known:
        return None
    topic_id, number, partition = known[at % len(known)]
    leader = partition.leader or partition.replicas[0]
    chosen = [each for each in partition.replicas if each in members or each == leader]
    wanted = pb.InSyncSet(
        topic_id=topic_id,
        partition=number,
        leader_epoch=partition.leader_epoch,
        partition_epoch=max(partition.partition_epoch + off, 0),
        in_sync=[pb.InSyncMember(broker_id=each, broker_epoch=world.epoch(each)) for each in chosen],
    )
    change = pb.ChangeInSync(broker_id=leader, broker_epoch=world.epoch(leader), sets=[wanted])
    return pb.Command(change_in_sync=change)


def report_failed(world: World, broker_id: int, at: int) -> pb.Command:
    refs = [pb.PartitionRef(topic_id=t, partition=n) for t, n, _ in world.partitions()[at : at + 2]]
    report = pb.ReportFailed(broker_id=broker_id, broker_epoch=world.epoch(broker_id), partitions=refs)
    return pb.Command(report_failed=report)


def elect(world: World, at: int, unclean: bool) -> pb.Command:
    refs = [pb.PartitionRef(topic_id=t, partition=n) for t, n, _ in world.partitions()[at : at + 3]]
    kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
    return pb.Command(elect_leader=pb.ElectLeader(kind=kind, partitions=refs))


def elect_lossy(world: World, at: int, numbers: list[int], usable: bool) -> pb.Command | None:
    known = sorted(world.partitions(), key=lambda each: each[2].leader)
    if not known:
        return None
    topic_id, number, partition = known[at % len(known)]
    ends = [
        pb.ReplicaEnd(
            broker_id=each,
            broker_epoch=world.epoch(each),
            epoch_at_end=value % 2,
            end=value,
            unusable=not usable,
        )
        for each, value in zip(partition.replicas, numbers, strict=False)
    ]
    return pb.Command(elect_lossy=pb.ElectLossy(topic_id=topic_id, partition=number, ends=ends))


def move(world: World, at: int, replicas: list[int]) -> pb.Command:
    placed = [
        pb.Placed(
            topic_id=t, partition=n, replicas=list(dict.fromkeys([*replicas, *BROKERS]))[: len(p.target)]
        )
        for t, n, p in world.partitions()[at : at + 2]
    ]
    return pb.Command(reassign=pb.Reassign(partitions=placed))


def end_move(world: World, at: int, finish: bool) -> pb.Command:
    refs = [pb.PartitionRef(topic_id=t, partition=n) for t, n, _ in world.partitions()[at : at + 2]]
    if finish:
        return pb.Command(finish_reassign=pb.FinishReassign(partitions=refs))
    return pb.Command(cancel_reassign=pb.CancelReassign(partitions=refs))


def make_topic(world: World, name: str, partitions: int, factor: int, given: dict[str, str]) -> pb.Command:
    settings = {key.replace(".", "__"): value for key, value in given.items()}
    return create(name, partitions, factor, **settings)


def alter_topic(
    world: World, at: int, partitions: int, given: dict[str, str], unset: list[str]
) -> pb.Command:
    topics = sorted(world.state.topics) or [1]
    return alter(topics[at % len(topics)], partitions, given, tuple(unset))


def delete_topic(world: World, at: int) -> pb.Command:
    topics = sorted(world.state.topics) or [1]
    return delete(topics[at % len(topics)])


def stream_command(world: World, at: int, name: str, kind: int, born: int) -> pb.Command:
    """Of streams: `born` is that of another one now and then."""
    streams = world.state.iggy.streams
    number = sorted(streams)[at % len(streams)] if streams else 0
    births = born or (streams[number].born if streams else 1)
    match kind:
        case 0:
            chosen = at if born else None
            return pb.Command(create_stream=pb.CreateStream(name=name, number=chosen))
        case 1:
            return pb.Command(rename_stream=pb.RenameStream(stream=number, born=births, name=name))
        case 2:
            return pb.Command(delete_stream=pb.DeleteStream(stream=number, born=births))
        case _:
            values = pb.IggyValues(max_bytes=100 * at, expiry_us=at, per_partition=bool(born))
            create = pb.CreateIggyTopic(
                stream=number, born=births, name=name, partitions=at, replication_factor=1, values=values
            )
            return pb.Command(create_iggy_topic=create)


def iggy_topic_command(world: World, at: int, name: str, kind: int, count: int) -> pb.Command | None:
    """Of topics in streams, or others."""
    topics = sorted(world.state.topics)
    if not topics:
        return None
    topic = world.state.topics[topics[at % len(topics)]]
    groups = world.state.iggy.groups.get(topic.topic_id, {})
    match kind:
        case 0:
            return pb.Command(purge_topic=pb.PurgeTopic(topic_id=topic.topic_id))
        case 1:
            shrink = pb.ShrinkTopic(topic_id=topic.topic_id, partitions=count)
            shrink.seen_partitions, shrink.seen_epoch_floor = len(topic.partitions), topic.epoch_floor
            return pb.Command(shrink_topic=shrink)
        case 2:
            alter = pb.AlterIggyTopic(topic_id=topic.topic_id, name=name, max_bytes=count * 1000)
            return pb.Command(alter_iggy_topic=alter)
        case 3:
            return pb.Command(hide_topic=pb.HideTopic(topic_id=topic.topic_id))
        case 4:
            stream = world.state.iggy.streams.get(count % 2)
            expose = pb.ExposeTopic(
                topic_id=topic.topic_id, stream=count % 2, born=stream.born if stream else 1, name=name
            )
            return pb.Command(expose_topic=expose)
        case 5 if groups:
            number = sorted(groups)[count % len(groups)]
            delete = pb.DeleteIggyGroup(
                topic_id=topic.topic_id, number=number, born=groups[number].born + count // 3
            )
            return pb.Command(delete_iggy_group=delete)
        case _:
            return pb.Command(create_iggy_group=pb.CreateIggyGroup(topic_id=topic.topic_id, name=name))


def repeat(world: World, at: int) -> pb.Command | None:
    return world.old[-1 - at] if at < len(world.old) else None


numbers = st.integers(0, 5)
given_settings = st.dictionaries(
    st.sampled_from(["flush", "min.insync.replicas", "unclean.leader.election"]),
    st.sampled_from(["disk", "replicated", "1", "2", "3", "true"]),
    max_size=2,
).map(
    lambda pairs: {
        key: value
        for key, value in pairs.items()
        if (key == "flush") == (value in ("disk", "replicated")) and (key[0] == "u") == (value == "true")
    }
)
keys = st.lists(st.sampled_from(["flush", "min.insync.replicas", "unclean.leader.election"]), max_size=2)
maybe = st.none() | flags

steps: st.SearchStrategy[Step] = st.one_of(
    step(register, brokers, flags, flags, flags, flags, st.lists(numbers, max_size=2)),
    step(fence, brokers),
    step(fence, brokers),
    step(unfence, brokers),
    step(unfence, brokers),
    step(unfence, brokers),
    step(set_broker, brokers, maybe, maybe, maybe, maybe),
    step(remove_broker, brokers),
    step(change_in_sync, numbers, some_brokers, st.sampled_from([0, 0, 0, 0, -1, 1])),
    step(change_in_sync, numbers, st.just(list(BROKERS)), st.just(0)),
    step(change_in_sync, numbers, st.just(list(BROKERS)), st.just(0)),
    step(report_failed, brokers, numbers),
    step(elect, numbers, flags),
    step(
        elect_lossy, numbers, st.lists(numbers, min_size=4, max_size=4), st.sampled_from([True, True, False])
    ),
    step(move, numbers, some_brokers),
    step(end_move, numbers, st.sampled_from([True, True, False])),
    step(make_topic, st.sampled_from(["a", "b", "c"]), st.integers(1, 3), numbers, given_settings),
    step(alter_topic, numbers, numbers, given_settings, keys),
    step(delete_topic, numbers),
    step(stream_command, numbers, st.sampled_from(["a", "b"]), numbers, st.sampled_from([0, 0, 0, 20])),
    step(iggy_topic_command, numbers, st.sampled_from(["a", "b", ""]), st.integers(0, 6), numbers),
    step(iggy_topic_command, numbers, st.sampled_from(["a", "b"]), st.integers(0, 6), numbers),
    step(repeat, st.integers(0, 8)),
)
stories = st.lists(steps, min_size=5, max_size=60)


def begun() -> World:
    """Four brokers that live, and a topic, at the level of Iggy's names."""
    world = World()
    for level in range(feature_levels.KAFKA, feature_levels.IGGY + 1):
        world.apply(pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=1 << 40)))
    for broker_id in BROKERS:
        world.apply(register(world, broker_id, True, False, True, False, []))
        world.apply(unfence(world, broker_id))
    world.apply(create("a", 2, 3))
    world.apply(pb.Command(create_stream=pb.CreateStream(name="a")))
    return world


@given(stories)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_after_every_command_all_invariants_hold_and_brokers_views_tell_the_truth(story: list[Step]) -> None:
    world = begun()
    for each in story:
        each(world)


@given(stories, st.integers(0, 70))
@settings(examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_snapshot_and_the_rest_of_the_log_give_the_state_that_the_whole_log_gives(
    story: list[Step], cut: int
) -> None:
    world = begun()
    for each in story:
        each(world)
    replayed = ClusterState()
    for number, command in enumerate(world.history, 1):
        if number == cut:
            replayed = ClusterState.load(replayed.snapshot())
        commands.apply(
            replayed, replayed.index + 1 + number % 2, pb.Command.FromString(command.SerializeToString())
        )
    assert replayed.snapshot() == world.state.snapshot()
    assert replayed == world.state


@given(stories, st.integers(0, 40), st.integers(1, 3))
@settings(
    examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_snapshot_made_in_pieces_is_of_its_moment_whatever_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, story: list[Step], cut: int, part: int
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_PART", part)
    world = begun()
    for each in story[:cut]:
        each(world)
    before = world.state.snapshot()
    pieces = world.state.snapshot_pieces(part)
    made = []
    for each in story[cut:]:
        made.append(next(pieces, b""))
        each(world)
    made.extend(pieces)
    assert b"".join(made) == before
    assert ClusterState.load(before).snapshot() == before


@given(stories, st.integers(0, 40), st.integers(1, 3), st.sampled_from([1, 60, 10_000]))
@settings(
    examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_whole_view_made_in_pieces_is_of_its_moment_whatever_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, story: list[Step], cut: int, part: int, part_bytes: int
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_PART", part)
    world = begun()
    for each in story[:cut]:
        each(world)
    before = world.state.delta()
    pieces = world.state.whole_view(part, part_bytes)
    made = []
    for each in story[cut:]:
        made.append(next(pieces, None))
        each(world)
    updates = [update for update in [*made, *pieces] if update is not None]
    together = pb.Delta()
    for update in updates:
        assert (update.whole, update.more) == (True, update is not updates[-1])
        together.MergeFrom(update.delta)
    assert together == before


@given(stories)
@settings(examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_when_all_brokers_are_back_and_duties_are_done_every_partition_is_led(story: list[Step]) -> None:
    world = begun()
    for each in story:
        each(world)
    for broker_id in BROKERS:
        world.apply(register(world, broker_id, True, False, True, False, []))
        world.apply(set_broker(world, broker_id, False, None, None, False))
    for broker_id in BROKERS:
        world.apply(unfence(world, broker_id))
    tasks = LeaderTasks()
    for now_ms in range(0, 60_000, 500):
        work = tasks.tick(world.state, now_ms)
        for command in work.commands:
            world.apply(command)
        for ask in work.asks:
            ends = [pb.LogEnd(topic_id=t, partition=n, end=ask.broker_id) for t, n in ask.partitions]
            answer = pb.LogEnds(ends=ends, question=ask.question)
            tasks.ends(ask.broker_id, ask.broker_epoch, answer, now_ms)
        for at, (_, _, partition) in enumerate(world.partitions()):
            if partition.leader and len(partition.in_sync) < len(partition.replicas):
                wanted = change_in_sync(world, at, list(BROKERS), 0)
                assert wanted is not None
                world.apply(wanted)
    for _, _, partition in world.partitions():
        assert partition.leader, "somebody leads"
        assert not partition.moves, "moves are through"
        assert set(partition.in_sync) == set(partition.replicas)
        assert partition.leader == partition.replicas[0], "the preferred leader leads"
