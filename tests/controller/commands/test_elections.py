"""In-sync sets and who leads: each sentence of the design that says who may, and who may not."""

import pytest

from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import alter

# --- the in-sync set: the leader's wish, by compare-and-set ---


def behind(cluster: Cluster) -> int:
    """A topic of 1, 2 and 3, led by 1, of which 3 is out of sync."""
    t = cluster.topic()
    cluster.set_in_sync(t, 1, 2)
    assert cluster.partition(t).leader == 1
    return t


def test_the_leader_takes_a_slow_follower_out_and_back_in() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    assert cluster.partition(t).in_sync == (1, 2)
    cluster.set_in_sync(t, 1, 2, 3)
    assert cluster.partition(t).in_sync == (1, 2, 3)
    assert cluster.partition(t).leader_epoch == 1, "nobody else leads"
    assert cluster.seen(t).partitions[0].in_sync == (1, 2, 3)


def test_nobody_but_the_leader_changes_the_in_sync_set() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    command.change_in_sync.broker_id = 2
    command.change_in_sync.broker_epoch = cluster.epoch(2)
    assert cluster.error(command) is ErrorCode.OTHER_LEADER


@pytest.mark.parametrize("field", ["leader_epoch", "partition_epoch"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_change_from_another_state_of_the_partition_is_refused(field: str, by: int) -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    change = command.change_in_sync.sets[0]
    setattr(change, field, getattr(change, field) + by)
    assert cluster.error(command) is ErrorCode.STALE_EPOCH


def test_a_change_that_comes_twice_counts_once() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    cluster.do(command)
    assert cluster.error(command) is ErrorCode.STALE_EPOCH
    cluster.set_in_sync(t, 1, 2)
    assert cluster.error(command) is ErrorCode.STALE_EPOCH, "nor later, when the set is the same again"


def test_a_leader_that_was_fenced_or_started_again_changes_nothing() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    cluster.fence(1)
    assert cluster.error(command) is ErrorCode.FENCED
    cluster.up(1)
    assert cluster.error(command) is ErrorCode.STALE_EPOCH


def test_a_member_that_is_fenced_or_was_registered_anew_is_refused() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    cluster.fence(3)
    assert cluster.error(command) is ErrorCode.INELIGIBLE_REPLICA
    cluster.up(3, new_disk=True)
    assert cluster.error(command) is ErrorCode.INELIGIBLE_REPLICA, "what matched was another process's"
    cluster.set_in_sync(t, 1, 2, 3)


@pytest.mark.parametrize("leaving", ["draining", "shutting_down"])
def test_a_member_that_is_to_leave_does_not_come_in_and_need_not_go_out(leaving: str) -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    cluster.set_broker(3, **{leaving: True})
    assert cluster.error(cluster.in_sync_change(t, 1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
    cluster.set_broker(3, **{leaving: False})
    cluster.set_in_sync(t, 1, 2, 3)
    cluster.set_broker(2, draining=True)
    cluster.set_in_sync(t, 1, 2)
    assert cluster.partition(t).in_sync == (1, 2)


@pytest.mark.parametrize("members", [(2, 3), (1, 4), (1, 2, 2)])
def test_a_set_without_its_leader_with_a_stranger_or_with_a_twin_makes_no_sense(
    members: tuple[int, ...],
) -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = behind(cluster)
    command = cluster.in_sync_change(t, *members)
    assert cluster.error(command) is ErrorCode.INVALID_REQUEST


def test_many_sets_are_judged_one_by_one() -> None:
    cluster = Cluster(1, 2, 3)
    t = behind(cluster)
    command = cluster.in_sync_change(t, 1, 2, 3)
    sets = command.change_in_sync.sets
    sets.add(topic_id=99)
    sets.add(topic_id=t, partition=5)
    sets.append(sets[0])
    assert cluster.apply(command).results == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_PARTITION,
        ErrorCode.STALE_EPOCH,
    ]


def test_a_command_names_so_many_partitions_and_no_more() -> None:
    cluster = Cluster(1)
    command = pb.Command()
    command.change_in_sync.broker_id, command.change_in_sync.broker_epoch = 1, cluster.epoch(1)
    for _ in range(1001):
        command.change_in_sync.sets.add()
    assert cluster.error(command) is ErrorCode.TOO_LARGE


# --- fencing ---


def test_a_fenced_broker_leads_nothing_and_the_preferred_of_the_others_leads() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1)
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (2, 2)
    assert cluster.partition(t).in_sync == (2, 3)
    cluster.unfence(1)
    assert cluster.partition(t).leader == 2, "it has to catch up"


def test_fencing_a_follower_leaves_the_leader_its_epoch() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(3)
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (1, 1)
    assert cluster.partition(t).partition_epoch == 2
    cluster.fence(3)
    assert cluster.partition(t).partition_epoch == 2


def test_a_broker_that_is_to_leave_leads_only_where_no_other_can() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.set_broker(2, draining=True)
    cluster.fence(1)
    assert cluster.partition(t).leader == 3
    cluster.fence(3)
    assert cluster.partition(t).leader == 2


# --- eligible replicas ---


def test_a_member_whose_removal_leaves_too_few_stays_eligible_and_is_elected_when_nobody_else_is_there() -> (
    None
):
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1)
    assert cluster.partition(t).eligible == (), "two of three are enough"
    cluster.fence(2)
    assert (cluster.partition(t).in_sync, cluster.partition(t).eligible) == ((3,), (2,))
    cluster.fence(3)
    assert (cluster.partition(t).leader, cluster.partition(t).eligible) == (0, (2, 3))
    cluster.unfence(1)
    assert cluster.partition(t).leader == 0, "it was not waited for any more: it may lack something"
    cluster.unfence(2)
    assert (cluster.partition(t).leader, cluster.partition(t).in_sync) == (2, (2,))
    assert cluster.partition(t).eligible == (3,)
    assert cluster.partition(t).lossy_elections == 0


def test_whoever_a_leader_takes_out_stays_eligible_too_when_too_few_are_left() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.set_in_sync(t, 1)
    assert cluster.partition(t).eligible == (2, 3)
    cluster.fence(1)
    assert cluster.partition(t).leader == 2, "nothing was acknowledged without it"


def test_eligibility_ends_when_the_set_is_large_enough_again() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(2, 3)
    assert cluster.partition(t).eligible == (3,)
    cluster.up(2)
    cluster.set_in_sync(t, 1, 2)
    assert cluster.partition(t).eligible == ()
    cluster.fence(1, 2)
    cluster.unfence(3)
    assert cluster.partition(t).leader == 0


def test_eligibility_ends_when_the_setting_is_lowered() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(2, 3)
    cluster.do(alter(t, 0, {"min.insync.replicas": "1"}))
    assert cluster.partition(t).eligible == ()
    assert cluster.seen(t).partitions[0].eligible == ()
    cluster.fence(1)
    cluster.unfence(3)
    assert cluster.partition(t).leader == 0, "messages were acknowledged without it since"


def test_a_setting_that_is_lowered_while_nobody_leads_ends_nothing() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.do(alter(t, 0, {"min.insync.replicas": "1"}))
    cluster.unfence(3)
    assert cluster.partition(t).leader == 3


@pytest.mark.parametrize(("factor", "needed"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
def test_how_many_must_be_in_sync_follows_from_the_replication_factor(factor: int, needed: int) -> None:
    cluster = Cluster(1, 2, 3, 4, 5)
    t = cluster.topic(factor=factor)
    assert cluster.state.topics[t].min_insync == needed


# --- preferred leaders ---


def test_the_preferred_leader_leads_again_when_it_is_in_sync() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1)
    cluster.up(1)
    cluster.do(cluster.elect(t))
    assert cluster.partition(t).leader == 2
    cluster.set_in_sync(t, 1, 2, 3)
    cluster.do(cluster.elect(t))
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (1, 3)
    cluster.do(cluster.elect(t))
    assert cluster.partition(t).leader_epoch == 3


def test_an_election_of_a_kind_that_nobody_knows_is_refused() -> None:
    cluster = Cluster(1)
    command = pb.Command(elect_leader=pb.ElectLeader(kind=7))  # type: ignore[arg-type]
    assert cluster.error(command) is ErrorCode.INVALID_REQUEST


# --- a broker whose clock is off ---


def mark(cluster: Cluster, broker_id: int, name: str, *, is_so: bool = True) -> None:
    """One flag of a broker."""
    change = pb.SetBroker(broker_id=broker_id, epoch=cluster.epoch(broker_id))
    setattr(change, name, is_so)
    cluster.do(pb.Command(set_broker=change))


def test_a_broker_whose_clock_is_off_is_passed_over_while_another_is_in_sync() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    mark(cluster, 2, "clock_off")
    cluster.fence(1)
    assert cluster.partition(t).leader == 3


def test_a_broker_whose_clock_is_off_leads_what_no_other_can() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    mark(cluster, 2, "clock_off")
    cluster.fence(1, 3)
    assert cluster.partition(t).leader == 2
    assert cluster.state.brokers[2].clock_off


@pytest.mark.parametrize(("other", "leader"), [("draining", 3), ("shutting_down", 2), ("no_room", 2)])
def test_a_clock_that_is_off_is_worse_than_draining_and_better_than_what_takes_no_messages(
    other: str, leader: int
) -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    mark(cluster, 2, "clock_off")
    mark(cluster, 3, other)
    cluster.fence(1)
    assert cluster.partition(t).leader == leader


def test_a_clock_that_is_off_stays_so_over_a_snapshot_and_over_a_new_process() -> None:
    cluster = Cluster(1, 2)
    mark(cluster, 2, "clock_off")
    again = ClusterState.load(cluster.state.snapshot())
    assert [each.clock_off for each in again.brokers.values()] == [False, True]
    before = cluster.epoch(2)
    cluster.register(2)
    assert cluster.epoch(2) != before
    assert cluster.state.brokers[2].clock_off
    mark(cluster, 2, "clock_off", is_so=False)
    assert not ClusterState.load(cluster.state.snapshot()).brokers[2].clock_off
