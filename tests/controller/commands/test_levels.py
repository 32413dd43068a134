"""Feature levels: the next comes into force when all know it, and nobody else is let in then."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tank_controller.commands.machine import Metadata, UnknownEntryError
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.raising import Raising
from tank_controller.state.state import ClusterState, SnapshotError
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster, view_of
from tests.support.processes import next_level

OLD, NEW = Levels(1, 1), Levels(1, 2)
NOBODY = Raising(max_level=2)


@pytest.fixture(autouse=True)
def _the_next_level_is_known() -> Iterator[None]:
    with next_level.known():
        yield


@dataclass
class Nowhere:
    """A line on which nothing goes."""

    def send(self, message: pb.BrokerDown) -> None: ...

    def end(self) -> None: ...


def streams(cluster: Cluster, **levels: int) -> dict[int, Stream]:
    """As brokers that are connected now have registered: b1=2 is broker 1, which knows up to level 2."""
    found = {}
    for name, level in levels.items():
        broker_id = int(name[1:])
        stream = found[broker_id] = Stream(Nowhere())
        stream.epoch, stream.max_level = cluster.epoch(broker_id), level
    return found


def raised(level: int, seen_index: int = 1 << 40) -> pb.Command:
    return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=seen_index))


# --- when the next one comes into force ---


def test_it_is_raised_when_all_brokers_and_controllers_know_the_next() -> None:
    cluster = Cluster(1, 2)
    command = NOBODY.command(cluster.state, streams(cluster, b1=2, b2=2))
    assert command is not None
    cluster.do(command)
    assert cluster.state.feature_level == 2
    assert cluster.view.feature_level == 2, "brokers are told"
    assert NOBODY.command(cluster.state, streams(cluster, b1=2, b2=2)) is None, "nobody knows more"


def test_a_broker_that_is_old_or_away_holds_it_up_and_is_named_also_when_it_is_fenced() -> None:
    cluster = Cluster(1, 2, 3)
    for there in (streams(cluster, b1=2, b2=2, b3=1), streams(cluster, b1=2, b2=2)):
        assert NOBODY.command(cluster.state, there) is None
        assert NOBODY.waits_for(cluster.state, there) == ([3], ())
    cluster.fence(3)
    assert NOBODY.command(cluster.state, streams(cluster, b1=2, b2=2)) is None
    cluster.do(pb.Command(remove_broker=pb.RemoveBroker(broker_id=3)))
    assert NOBODY.command(cluster.state, streams(cluster, b1=2, b2=2)) is not None


def test_a_stream_of_a_brokers_process_before_says_nothing_of_the_present_one() -> None:
    cluster = Cluster(1)
    before = streams(cluster, b1=2)
    cluster.up(1, levels=OLD)
    assert NOBODY.command(cluster.state, before) is None
    assert NOBODY.waits_for(cluster.state, before) == ([1], ())


def test_a_controller_that_has_not_said_that_it_knows_it_holds_it_up() -> None:
    cluster = Cluster(1)
    there = streams(cluster, b1=2)
    asked: list[int] = []

    def behind(level: int) -> list[int]:
        asked.append(level)
        return [3]

    raising = Raising(behind, max_level=2)
    assert raising.command(cluster.state, there) is None
    assert raising.waits_for(cluster.state, there) == ([], [3])
    assert set(asked) == {2}


def test_an_old_leader_raises_nothing_and_waits_for_nobody() -> None:
    cluster = Cluster(1)
    old = Raising(max_level=1)
    assert old.command(cluster.state, streams(cluster, b1=2)) is None
    assert old.waits_for(cluster.state, {}) == ((), ())


def test_a_process_that_registers_after_the_leader_looked_is_judged_first() -> None:
    cluster = Cluster(1)
    command = NOBODY.command(cluster.state, streams(cluster, b1=2))
    assert command is not None
    cluster.up(2, levels=OLD)
    assert cluster.error(command) is ErrorCode.STALE_EPOCH
    assert cluster.state.feature_level == 1


def test_it_rises_by_one_and_never_goes_back() -> None:
    cluster = Cluster()
    assert cluster.error(raised(3)) is ErrorCode.INVALID_REQUEST
    cluster.do(raised(2))
    before = cluster.state.snapshot()
    assert not cluster.do(raised(1)).delta.feature_level
    assert not cluster.do(raised(2)).delta.feature_level, "applied again it changes nothing"
    again = ClusterState.load(before)
    again.index = cluster.state.index
    assert again == cluster.state


# --- who is let in ---


def test_a_broker_that_does_not_know_the_level_in_force_is_refused_with_what_to_do() -> None:
    cluster = Cluster(1)
    cluster.up(2, levels=OLD)
    cluster.do(raised(2))
    outcome = cluster.apply(cluster.registration(2, levels=OLD))
    assert outcome.rejection is not None
    assert outcome.rejection.error is ErrorCode.INVALID_REQUEST
    assert "start a version at least as new" in outcome.rejection.message
    assert cluster.error(cluster.registration(3, levels=Levels(0, 0))) is ErrorCode.INVALID_REQUEST
    cluster.up(2, levels=NEW)


def test_a_broker_that_knows_only_later_levels_is_refused() -> None:
    cluster = Cluster()
    outcome = cluster.apply(cluster.registration(1, levels=Levels(2, 3)))
    assert outcome.rejection is not None
    assert "upgrade all processes to a version between the two first" in outcome.rejection.message


# --- what is kept ---


def test_snapshots_are_of_the_level_in_force() -> None:
    cluster = Cluster(1)
    first = pb.Snapshot.FromString(cluster.state.snapshot())
    assert (first.format, first.feature_level) == (1, 1)
    assert ClusterState.load(cluster.state.snapshot()).feature_level == 1
    cluster.do(raised(2))
    second = pb.Snapshot.FromString(cluster.state.snapshot())
    assert (second.format, second.feature_level) == (2, 2)
    assert view_of(ClusterState.load(cluster.state.snapshot())).feature_level == 2


def test_replayed_or_loaded_and_gone_on_with_it_is_the_same_bytes() -> None:
    straight, loaded = Cluster(1), Cluster(1)
    for cluster in (straight, loaded):
        cluster.topic(factor=1)
    loaded.state = ClusterState.load(loaded.state.snapshot())
    for cluster in (straight, loaded):
        cluster.do(raised(2))
        cluster.topic("u", factor=1)
    assert straight.state.snapshot() == loaded.state.snapshot()


def test_a_version_that_does_not_know_a_level_ends_before_it_makes_another_state() -> None:
    old, new = Metadata(max_level=1), Metadata(max_level=2)
    data = raised(2).SerializeToString()
    new.apply(1, data)
    with pytest.raises(UnknownEntryError, match="start a version at least as new"):
        old.apply(1, data)
    with pytest.raises(SnapshotError, match="has format 2, and this version reads up to 1"):
        old.restore(b"".join(new.snapshot()))
    assert (old.state.index, old.state.feature_level) == (0, 1)
