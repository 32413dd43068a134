"""Brokers register, are fenced, come back, leave: each sentence of the design that says what happens then."""

import pytest

from tank_controller import limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.support.controllers.eligible import both_eligible

# --- a new process ---


def test_a_new_process_is_fenced_and_out_of_every_in_sync_set_until_it_has_seen_its_registration() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=6)
    cluster.register(2)
    assert cluster.state.brokers[2].fenced
    assert all(2 not in p.in_sync for p in cluster.state.topics[t].partitions)
    assert cluster.seen_as_fenced() == {2}
    cluster.unfence(2)
    assert cluster.seen_as_fenced() == set()
    assert all(2 not in p.in_sync for p in cluster.state.topics[t].partitions), "it catches up first"


def test_a_new_process_gets_a_new_epoch_and_never_goes_on_in_one_that_it_led() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=3)
    led = {p.leader: p.leader_epoch for p in cluster.state.topics[t].partitions}
    before = cluster.epoch(1)
    cluster.up(1)
    assert cluster.epoch(1) > before
    for partition in cluster.state.topics[t].partitions:
        if partition.replicas[0] == 1:
            assert partition.leader != 1
            assert partition.leader_epoch == led[1] + 1
        else:
            assert partition.leader_epoch == led[partition.leader]


def test_the_only_replica_leads_again_in_a_new_epoch_as_soon_as_it_is_back() -> None:
    cluster = Cluster(1)
    t = cluster.topic(partitions=2, factor=1)
    cluster.register(1)
    assert [(p.leader, p.leader_epoch) for p in cluster.state.topics[t].partitions] == [(0, 2)] * 2
    cluster.unfence(1)
    assert [(p.leader, p.leader_epoch) for p in cluster.state.topics[t].partitions] == [(1, 3)] * 2
    assert cluster.partition(t).lossy_elections == 0, "it has all that it had"


def test_a_restart_faster_than_fencing_moves_leadership_like_any_other() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    assert cluster.partition(t).leader == 1
    cluster.register(1)
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (2, 2)


def test_a_registration_that_is_repeated_because_its_answer_was_lost_changes_nothing() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2)
    cluster.register(1)
    epoch = cluster.epoch(1)
    outcome = cluster.do(cluster.registration(1, again=True))
    assert cluster.epoch(1) == epoch
    assert not outcome.delta.brokers
    cluster.unfence(1)
    outcome = cluster.do(cluster.registration(1, again=True, host="elsewhere"))
    assert not cluster.state.brokers[1].fenced, "the same process, at another address"
    assert cluster.view.brokers[1].host == "elsewhere"
    assert not outcome.delta.changed
    assert cluster.partition(t).leader == 2


def test_a_process_of_before_can_not_be_fenced_or_unfenced_any_more() -> None:
    cluster = Cluster(1)
    old = cluster.epoch(1)
    cluster.register(1)
    for command in (
        pb.Command(fence_broker=pb.FenceBroker(broker_id=1, epoch=old)),
        pb.Command(unfence_broker=pb.UnfenceBroker(broker_id=1, epoch=old)),
        pb.Command(set_broker=pb.SetBroker(broker_id=1, epoch=old, shutting_down=True)),
        pb.Command(report_failed=pb.ReportFailed(broker_id=1, broker_epoch=old)),
    ):
        assert cluster.error(command) is ErrorCode.STALE_EPOCH
    assert (
        cluster.error(pb.Command(fence_broker=pb.FenceBroker(broker_id=9, epoch=old)))
        is ErrorCode.UNKNOWN_BROKER
    )


# --- what a replica may claim ---


def test_an_emptied_disk_is_impaired_everywhere_and_elected_nowhere() -> None:
    cluster = Cluster(1, 2)
    t = both_eligible(cluster)
    cluster.up(1, new_disk=True)
    assert cluster.partition(t).impaired == (1,)
    assert cluster.partition(t).leader == 0
    cluster.up(2)
    assert cluster.partition(t).leader == 2


def test_an_emptied_disk_is_impaired_for_good_whatever_its_next_process_says() -> None:
    cluster = Cluster(1, 2)
    t = both_eligible(cluster)
    cluster.up(1, new_disk=True)
    cluster.up(1)
    assert cluster.partition(t).impaired == (1,)
    assert cluster.partition(t).leader == 0


def test_damaged_partitions_alone_are_impaired() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(partitions=2, factor=2, min__insync__replicas="2")
    cluster.fence(2, 1)
    cluster.up(2, damaged=[(t, 1), (99, 0)])
    assert (cluster.partition(t, 0).leader, cluster.partition(t, 1).leader) == (2, 0)


def test_so_many_damaged_ones_that_they_are_not_named_are_all() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(partitions=2, factor=2, min__insync__replicas="2")
    cluster.fence(2, 1)
    registration = cluster.registration(2)
    registration.register_broker.all_damaged = True
    cluster.do(registration)
    cluster.unfence(2)
    assert [cluster.partition(t, number).impaired for number in range(2)] == [(2,), (2,)]


def test_an_impaired_replica_that_is_in_sync_again_is_whole() -> None:
    cluster = Cluster(1, 2)
    t = both_eligible(cluster)
    cluster.up(1, new_disk=True)
    cluster.up(2)
    cluster.set_in_sync(t, 1, 2)
    assert cluster.partition(t).impaired == ()
    cluster.fence(2, 1)
    cluster.up(1)
    assert cluster.partition(t).leader == 1


def test_a_running_broker_reports_a_failed_partition_likewise() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=2)
    leader = cluster.partition(t, 0).leader
    cluster.failed(leader, (t, 0))
    assert leader not in cluster.partition(t, 0).in_sync
    assert cluster.partition(t, 0).leader != leader
    assert len(cluster.partition(t, 1).in_sync) == 3


def test_the_only_replica_that_failed_does_not_lead_again_before_its_broker_was_started_again() -> None:
    cluster = Cluster(1)
    t = cluster.topic(factor=1, unclean__leader__election="true")
    cluster.failed(1, (t, 0))
    assert cluster.partition(t).leader == 0
    cluster.up(1)
    assert cluster.partition(t).leader == 1
    assert cluster.partition(t).lossy_elections == 1


def test_a_failed_replica_that_is_not_one_is_refused() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=1)
    other = 3 - cluster.partition(t).leader
    refs = [
        pb.PartitionRef(topic_id=t),
        pb.PartitionRef(topic_id=99),
        pb.PartitionRef(topic_id=t, partition=7),
    ]
    report = pb.ReportFailed(broker_id=other, broker_epoch=cluster.epoch(other), partitions=refs)
    assert cluster.apply(pb.Command(report_failed=report)).results == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_PARTITION,
    ]


# --- addresses, and brokers that are alone ---


def test_an_address_is_reused_only_when_the_broker_that_had_it_is_fenced() -> None:
    cluster = Cluster(1)
    taken = cluster.registration(2, host="b1")
    assert cluster.error(taken) is ErrorCode.IN_USE
    cluster.fence(1)
    cluster.do(taken)
    assert (cluster.view.brokers[1].host, cluster.view.brokers[1].port) == ("", 0), "it isn't there any more"
    assert cluster.view.brokers[2].host == "b1"
    cluster.register(1, host="b7")
    assert cluster.view.brokers[1].host == "b7"


def test_a_broker_that_is_alone_is_refused_where_brokers_replicate() -> None:
    cluster = Cluster(1)
    assert cluster.state.replicates
    assert cluster.error(cluster.registration(2, replicates=False)) is ErrorCode.INVALID_REQUEST


def test_a_broker_of_before_replication_is_as_it_was_and_becomes_one_of_today() -> None:
    cluster = Cluster()
    cluster.register(1, replicates=False)
    assert not cluster.state.brokers[1].fenced
    t = cluster.topic(factor=1)
    cluster.register(1, replicates=False)
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (1, 2)
    cluster.up(1)
    assert (cluster.partition(t).leader, cluster.partition(t).leader_epoch) == (1, 4)
    assert cluster.state.replicates


def test_the_number_of_brokers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BROKERS", 2)
    cluster = Cluster(1, 2)
    assert cluster.error(cluster.registration(3)) is ErrorCode.OVERLOADED
    cluster.up(2)


# --- leaving ---


def test_a_controlled_shutdown_moves_leadership_first_and_nobody_waits_for_who_stops() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=3)
    cluster.set_broker(1, shutting_down=True)
    for partition in cluster.state.topics[t].partitions:
        assert partition.leader in (2, 3)
        assert set(partition.in_sync) == {2, 3}
    assert cluster.view.brokers[1].shutting_down


def test_who_stops_stays_in_sync_where_too_few_would_be_left() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2, min__insync__replicas="2")
    cluster.set_broker(1, shutting_down=True)
    assert (cluster.partition(t).leader, cluster.partition(t).in_sync) == (2, (1, 2))


def test_who_stops_leads_on_where_nobody_else_can() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2)
    cluster.set_in_sync(t, cluster.partition(t).leader)
    leader = cluster.partition(t).leader
    cluster.set_broker(leader, shutting_down=True)
    assert cluster.partition(t).leader == leader


def test_who_stops_does_not_hand_over_to_another_who_stops() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2, min__insync__replicas="2")
    cluster.set_broker(1, shutting_down=True)
    assert (cluster.partition(t).leader, cluster.partition(t).in_sync) == (2, (1, 2))
    cluster.set_broker(2, shutting_down=True)
    assert cluster.partition(t).leader == 2


def test_a_shutdown_ends_with_the_next_registration_and_a_drain_outlives_it() -> None:
    cluster = Cluster(1)
    cluster.set_broker(1, shutting_down=True, draining=True)
    cluster.up(1)
    assert (cluster.state.brokers[1].shutting_down, cluster.state.brokers[1].draining) == (False, True)
    cluster.do(pb.Command(set_broker=pb.SetBroker(broker_id=1, draining=False)))
    assert not cluster.state.brokers[1].draining


def test_a_broker_is_removed_when_it_holds_nothing_and_does_not_run() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=1)
    holder = cluster.partition(t).leader
    remove = pb.Command(remove_broker=pb.RemoveBroker(broker_id=holder))
    cluster.fence(holder)
    assert cluster.error(remove) is ErrorCode.IN_USE, "it holds a partition"
    other = 3 - holder
    remove_other = pb.Command(remove_broker=pb.RemoveBroker(broker_id=other))
    assert cluster.error(remove_other) is ErrorCode.IN_USE, "it runs"
    cluster.fence(other)
    cluster.do(remove_other)
    cluster.do(remove_other)
    assert cluster.view.brokers.keys() == {holder}


def test_new_partitions_go_to_brokers_that_stay_and_live() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.set_broker(1, draining=True)
    cluster.fence(2)
    t = cluster.topic(partitions=4, factor=2)
    assert {each for p in cluster.state.topics[t].partitions for each in p.replicas} == {3, 4}
    u = cluster.topic("u", factor=0)
    assert set(cluster.partition(u).replicas) == {2, 3, 4}, (
        "a fenced broker comes back; a draining one leaves"
    )
    assert set(cluster.partition(u).in_sync) == {3, 4}


def test_a_new_partition_whose_brokers_are_away_waits_for_them() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fence(1, 2)
    t = cluster.topic()
    assert (cluster.partition(t).in_sync, cluster.partition(t).leader) == ((3,), 3)
    cluster.fence(3)
    u = cluster.topic("u")
    assert cluster.partition(u).leader == 0
    cluster.unfence(2)
    assert (cluster.partition(t).leader, cluster.partition(u).leader) == (2, 2)
