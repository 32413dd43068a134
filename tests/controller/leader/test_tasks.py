"""What the leading controller does on its own, until there is nothing left to do."""

import pytest

from tank_controller import limits
from tank_controller.commands.elections import Elections
from tank_controller.leader.tasks import LeaderTasks
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import Governed


def spread_of(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


# --- leaders ---


def test_a_preferred_leader_leads_again_once_its_broker_is_back_in_sync_and_steady() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=6)
    governed = Governed(cluster)
    governed.run(5)
    cluster.fence(1)
    governed.run(5)
    assert governed.led()[1] == 0
    cluster.up(1)
    governed.run(1)
    assert all(len(p.in_sync) == 3 for p in cluster.state.topics[t].partitions)
    assert governed.led()[1] == 0, "it may crash again at once"
    governed.run(limits.LEADERSHIP_SETTLES_MS // 1000 + 1)
    assert all(p.leader == p.replicas[0] for p in cluster.state.topics[t].partitions)


def test_leaders_are_restored_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PARTITIONS_PER_COMMAND", 2)
    monkeypatch.setattr(limits, "MAX_PROBES_PER_TICK", 3)
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=12)
    governed = Governed(cluster)
    cluster.fence(1)
    cluster.up(1)
    governed.run(limits.LEADERSHIP_SETTLES_MS // 1000)
    before = governed.led()[1]
    for _ in range(10):
        governed.step()
        assert governed.led()[1] - before <= 2
        before = governed.led()[1]
    assert before == 4


def test_while_a_broker_is_away_the_others_displaced_partitions_get_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_PROBES_PER_TICK", 2)
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=12)
    governed = Governed(cluster)
    cluster.fence(1, 2)
    cluster.up(2)
    governed.run(20)
    displaced = [p for p in cluster.state.topics[t].partitions if p.replicas[0] == 2 and p.leader != 2]
    assert not displaced


def test_a_broker_that_shuts_down_hands_over_what_others_can_lead_later() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2)
    leader = cluster.partition(t).leader
    cluster.set_in_sync(t, leader)
    cluster.set_broker(leader, shutting_down=True)
    governed = Governed(cluster)
    assert not governed.tasks.may_stop(cluster.state, leader), "the other may catch up"
    governed.run(2)
    assert cluster.partition(t).leader != leader
    assert governed.tasks.may_stop(cluster.state, leader)


def test_a_broker_that_shuts_down_does_not_wait_for_what_nobody_else_can_lead() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(factor=1, partitions=3)
    tasks = LeaderTasks()
    cluster.set_broker(1, shutting_down=True)
    assert tasks.may_stop(cluster.state, 1)
    t = cluster.topic("u", factor=2)
    leader, other = cluster.partition(t).replicas
    cluster.set_in_sync(t, leader)
    cluster.set_broker(leader, shutting_down=True)
    assert not tasks.may_stop(cluster.state, leader)
    cluster.fence(other)
    assert tasks.may_stop(cluster.state, leader), "the other is not there"


# --- balance ---


def test_what_is_even_is_left_alone() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=9)
    governed = Governed(cluster)
    governed.run(20)
    assert not governed.kinds


def test_when_a_broker_comes_replicas_and_leaders_move_there_in_bounded_steps() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=40)
    governed = Governed(cluster)
    cluster.up(4)
    governed.rest()
    assert spread_of(governed.held()) <= 2, governed.held()
    assert spread_of(governed.led()) <= 2, governed.led()
    assert 0 < governed.most_moving <= limits.MAX_MOVING_TO_BROKER
    for topic in cluster.state.topics.values():
        assert all(len(p.replicas) == 3 for p in topic.partitions)


def test_so_many_partitions_move_at_a_time_in_the_whole_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MOVING", 3)
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=20)
    cluster.up(4)
    cluster.up(5)
    governed = Governed(cluster)
    governed.rest()
    assert governed.most_moving == 3
    assert spread_of(governed.held()) <= 2


def test_replicas_that_share_a_rack_part_when_another_rack_comes() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    cluster = Cluster(1, 2, 3, 4, racks=racks)
    t = cluster.topic(partitions=12)
    cluster.up(5)
    cluster.up(6)
    governed = Governed(cluster)
    governed.rest()
    for partition in cluster.state.topics[t].partitions:
        assert {racks[each] for each in partition.replicas} == {"a", "b", "c"}
    assert spread_of(governed.held()) <= 2


def test_balancing_does_not_bring_replicas_together_in_a_rack() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "b", 5: "b"}
    cluster = Cluster(1, 2, 3, 4, 5, racks=racks)
    t = cluster.topic(partitions=12, factor=2)
    governed = Governed(cluster)
    governed.rest()
    assert governed.held()[1] == 12, "its rack needs one of each"
    for partition in cluster.state.topics[t].partitions:
        assert {racks[each] for each in partition.replicas} == {"a", "b"}


def test_partitions_in_trouble_are_not_moved_to_balance() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=9)
    cluster.fence(3)
    cluster.up(4)
    cluster.up(5)
    governed = Governed(cluster)
    governed.run(30)
    assert not governed.kinds["reassign"], "each lacks a replica already"
    assert all(len(p.in_sync) == 2 for p in cluster.state.topics[t].partitions)


def test_when_nothing_can_be_more_even_it_is_not_tried_for_a_while_unless_a_broker_comes() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=12, factor=1)
    governed = Governed(cluster)
    governed.rest()
    for topic_id in [cluster.topic(f"t{n}", factor=1) for n in range(6)]:
        if cluster.partition(topic_id).leader != 1:
            cluster.do(pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic_id)))
    cluster.topic("u", factor=1)
    cluster.do(cluster.reassign(max(cluster.state.topics), 1))
    governed.moved()
    governed.run(5)
    assert spread_of(governed.held()) >= 2
    assert governed.moved() == 0
    governed.run(limits.BALANCED_FOR_MS // 1000)
    assert governed.moved() > 0
    assert spread_of(governed.held()) <= 1
    governed.rest()
    governed.moved()
    cluster.up(4)
    governed.run(5)
    assert governed.moved() > 0


# --- draining ---


def test_what_a_broker_that_leaves_yet_leads_is_looked_at_in_bounded_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_PROBES_PER_TICK", 3)
    cluster = Cluster(1)
    cluster.topic("alone", partitions=20, factor=1)
    cluster.up(2)
    t = cluster.topic("both", factor=2)
    cluster.do(cluster.reassign(t, 1, 2))
    cluster.fence(2)
    cluster.up(2)
    cluster.set_broker(1, shutting_down=True)
    assert (cluster.partition(t).leader, len(cluster.state.derived.displaced)) == (1, 0)
    looks: list[object] = []
    best = Elections.best

    def counted(elections: Elections, members: tuple[int, ...]) -> int:
        looks.append(members)
        return best(elections, members)

    monkeypatch.setattr(Elections, "best", counted)
    governed = Governed(cluster)
    for _ in range(10):
        looks.clear()
        governed.tasks.tick(cluster.state, governed.now_ms)
        governed.now_ms += limits.LEADER_TASKS_EVERY_MS
        assert 0 < len(looks) <= 3
    governed.run(10)
    assert cluster.partition(t).leader == 2, "those behind have their turn"


def test_a_broker_that_is_drained_holds_nothing_in_the_end() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.topic(partitions=24)
    cluster.topic("alone", partitions=3, factor=1)
    cluster.set_broker(2, draining=True)
    governed = Governed(cluster)
    governed.rest()
    assert governed.held()[2] == 0
    assert spread_of({each: count for each, count in governed.held().items() if each != 2}) <= 2
    cluster.fence(2)
    cluster.do(pb.Command(remove_broker=pb.RemoveBroker(broker_id=2)))


def test_two_brokers_that_share_partitions_are_drained_at_once() -> None:
    cluster = Cluster(1, 2, 3, 4, 5)
    cluster.topic(partitions=10)
    cluster.set_broker(1, draining=True)
    cluster.set_broker(2, draining=True)
    governed = Governed(cluster)
    governed.rest()
    assert governed.held()[1] == governed.held()[2] == 0


def test_what_has_nowhere_to_go_stays() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=4)
    cluster.set_broker(3, draining=True)
    governed = Governed(cluster)
    governed.run(10)
    assert governed.held()[3] == 4
    assert governed.led()[3] == 0, "others lead, though"


@pytest.mark.parametrize("drained", [True, False])
def test_moves_to_a_broker_that_does_not_come_back_are_taken_back(drained: bool) -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic(partitions=4)
    for number, partition in enumerate(cluster.state.topics[t].partitions):
        if 4 not in partition.replicas:
            cluster.do(cluster.reassign(t, *partition.replicas[:2], 4, number=number))
    moves = set(cluster.state.derived.moving)
    assert moves
    cluster.fence(4)
    governed = Governed(cluster)
    governed.run(5)
    assert cluster.state.derived.moving == moves, "it may come back"
    if drained:
        cluster.set_broker(4, draining=True)
        governed.run(1)
    else:
        governed.run(limits.GONE_AFTER_MS // 1000)
    assert not moves & cluster.state.derived.moving
    assert governed.kinds["cancel_reassign"] == 1
    if drained:
        governed.rest()
        assert governed.held()[4] == 0
        cluster.do(pb.Command(remove_broker=pb.RemoveBroker(broker_id=4)))


def test_a_move_is_not_taken_back_while_too_few_but_the_added_ones_have_everything() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.up(4)
    cluster.up(5)
    cluster.do(cluster.reassign(t, 1, 4, 5))
    cluster.fence(2, 3)
    cluster.set_in_sync(t, 1, 4)
    cluster.set_broker(5, draining=True)
    governed = Governed(cluster, replicate=False)
    governed.run(5)
    assert not governed.kinds["cancel_reassign"]
    assert cluster.partition(t).in_sync == (1, 4)


def test_a_drained_broker_s_replicas_stay_apart_over_racks() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "c", 5: "a"}
    cluster = Cluster(1, 2, 3, 4, 5, racks=racks)
    t = cluster.topic(partitions=10)
    cluster.set_broker(3, draining=True)
    governed = Governed(cluster)
    governed.rest()
    for partition in cluster.state.topics[t].partitions:
        assert {racks[each] for each in partition.replicas} == {"a", "b", "c"}


def test_loads_are_not_even_while_partitions_that_nobody_looked_at_could_even_them_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_PROBES_PER_TICK", 3)
    cluster = Cluster(1, 2)
    t = cluster.topic(partitions=12, factor=2)
    cluster.fence(2)
    cluster.up(2)
    cluster.up(3)
    governed = Governed(cluster, replicate=False)
    governed.run(20)
    assert not governed.tasks.balanced, "nothing can move, but not everything was looked at"
    for number in (10, 11):
        cluster.set_in_sync(t, 1, 2, number=number)
    governed.run(20)
    assert governed.kinds["reassign"] > 0, "those behind have their turn"
    governed = Governed(cluster)
    governed.run(60)
    assert governed.tasks.balanced
    assert spread_of(governed.held()) <= 2


def test_a_broker_that_comes_and_goes_holds_up_no_drain() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.topic("t", partitions=12, factor=3)
    world = Governed(cluster)
    world.scaling.wanted = 3
    for _ in range(120):
        if 5 not in cluster.state.brokers:
            cluster.register(5)  # fenced as yet, and not wanted
        world.step()
    assert not cluster.state.held_by(4)
