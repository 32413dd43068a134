"""What the leading controller does on its own, until there is nothing left to do."""

from collections import Counter

import pytest

from tank_controller import limits
from tank_controller.duties import Duties, Work
from tank_controller.end_questions import Ask
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster

STEP_MS = limits.DUTIES_EVERY_MS


class Governed:
    """A cluster whose leaders take in who can, and a controller that does its duties."""

    def __init__(self, cluster: Cluster, *, replicate: bool = True) -> None:
        self.cluster = cluster
        self.duties = Duties()
        self.now_ms = 0
        self.kinds: Counter[str] = Counter()
        """The commands that the controller proposed."""
        self.most_moving = 0
        self._replicate = replicate

    def step(self) -> Work:
        """Some time passes."""
        self.now_ms += STEP_MS
        work = self.duties.tick(self.cluster.state, self.now_ms)
        for command in work.commands:
            self.kinds[command.WhichOneof("command") or ""] += 1
            self.cluster.do(command)
        self.most_moving = max(self.most_moving, len(self.cluster.state.derived.moving))
        if self._replicate:
            self.catch_up()
        return work

    def run(self, seconds: int) -> None:
        for _ in range(seconds * 1000 // STEP_MS):
            self.step()

    def rest(self, at_most_s: int = 600) -> None:
        """Until nothing is done any more for a while."""
        quiet = 0
        for _ in range(at_most_s * 1000 // STEP_MS):
            quiet = 0 if self.step().commands else quiet + 1
            if quiet == 20:
                return
        raise AssertionError("it does not come to rest")

    def catch_up(self) -> None:
        """Leaders take in every replica whose broker lives and stays."""
        for topic_id, topic in self.cluster.state.topics.items():
            for number, partition in enumerate(topic.partitions):
                brokers = self.cluster.state.brokers
                able = {
                    each for each in partition.replicas if not (brokers[each].fenced or brokers[each].leaves)
                }
                members = able | set(partition.in_sync)
                if partition.leader and members != set(partition.in_sync):
                    self.cluster.set_in_sync(topic_id, *members, number=number)

    def moved(self) -> int:
        """How many moves were proposed since this was asked last."""
        return self.kinds.pop("reassign", 0)

    def held(self) -> dict[int, int]:
        return {each: len(self.cluster.state.held_by(each)) for each in self.cluster.state.brokers}

    def led(self) -> dict[int, int]:
        return {each: self.cluster.state.derived.led[each] for each in self.cluster.state.brokers}


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
    governed.step()
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
    assert not governed.duties.may_stop(cluster.state, leader), "the other may catch up"
    governed.run(2)
    assert cluster.partition(t).leader != leader
    assert governed.duties.may_stop(cluster.state, leader)


def test_a_broker_that_shuts_down_does_not_wait_for_what_nobody_else_can_lead() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(factor=1, partitions=3)
    duties = Duties()
    cluster.set_broker(1, shutting_down=True)
    assert duties.may_stop(cluster.state, 1)
    t = cluster.topic("u", factor=2)
    leader, other = cluster.partition(t).replicas
    cluster.set_in_sync(t, leader)
    cluster.set_broker(leader, shutting_down=True)
    assert not duties.may_stop(cluster.state, leader)
    cluster.fence(other)
    assert duties.may_stop(cluster.state, leader), "the other is not there"


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


def test_a_drained_broker_s_replicas_stay_apart_over_racks() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "c", 5: "a"}
    cluster = Cluster(1, 2, 3, 4, 5, racks=racks)
    t = cluster.topic(partitions=10)
    cluster.set_broker(3, draining=True)
    governed = Governed(cluster)
    governed.rest()
    for partition in cluster.state.topics[t].partitions:
        assert {racks[each] for each in partition.replicas} == {"a", "b", "c"}


# --- ends of logs ---


def impaired(cluster: Cluster, *, third: bool = False) -> int:
    """A topic of 1, 2 and 3: 2 and 3 could lead, but are impaired; 1 is behind, and lives if `third`."""
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    cluster.up(3, new_disk=True)
    if third:
        cluster.unfence(1)
    return t


def end(topic_id: int, epoch: int, number: int) -> pb.LogEnd:
    return pb.LogEnd(topic_id=topic_id, epoch_at_end=epoch, end=number)


def test_the_controller_asks_everybody_where_the_logs_end_and_elects_the_greatest() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    asks = governed.step().asks
    assert asks == [Ask(each, cluster.epoch(each), ((t, 0),)) for each in (1, 2, 3)]
    governed.duties.ends(2, cluster.epoch(2), [end(t, 1, 10)], governed.now_ms)
    governed.duties.ends(3, cluster.epoch(3), [end(t, 1, 20)], governed.now_ms)
    governed.step()
    assert cluster.partition(t).leader == 0, "1 may yet answer"
    governed.duties.ends(1, cluster.epoch(1), [end(t, 2, 5)], governed.now_ms)
    governed.step()
    assert cluster.partition(t).leader == 1
    assert cluster.partition(t).lossy_elections == 1


def test_who_was_behind_is_waited_for_a_short_while_only() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.duties.ends(2, cluster.epoch(2), [end(t, 1, 10)], governed.now_ms)
    governed.duties.ends(3, cluster.epoch(3), [end(t, 1, 20)], governed.now_ms)
    governed.run(limits.WAIT_FOR_ENDS_MS // 1000)
    assert cluster.partition(t).leader == 3


def test_who_could_lead_is_waited_for_and_asked_again() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.duties.ends(2, cluster.epoch(2), [end(t, 1, 10)], governed.now_ms)
    asked = [ask for _ in range(12) for ask in governed.step().asks]
    assert {ask.broker_id for ask in asked} == {3}
    assert len(asked) == 12 * STEP_MS // limits.ASK_ENDS_AGAIN_MS
    assert cluster.partition(t).leader == 0


def test_a_replica_that_an_answer_leaves_out_has_nothing_to_lead_with() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.duties.ends(2, cluster.epoch(2), [end(t, 0, 0)], governed.now_ms)
    governed.duties.ends(3, cluster.epoch(3), [], governed.now_ms)
    governed.step()
    assert cluster.partition(t).leader == 2


def test_when_nobody_has_anything_to_lead_with_nothing_is_proposed() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    for broker_id in (2, 3):
        governed.duties.ends(broker_id, cluster.epoch(broker_id), [], governed.now_ms)
    governed.run(5)
    assert not governed.kinds["elect_lossy"]
    assert cluster.partition(t).leader == 0


def test_what_another_process_said_and_what_nobody_asked_is_passed_over() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.duties.ends(2, cluster.epoch(2), [end(t, 9, 9)], 0)
    governed.step()
    old = cluster.epoch(3)
    governed.duties.ends(2, cluster.epoch(2), [end(t, 1, 10), end(99, 9, 9)], governed.now_ms)
    governed.duties.ends(3, old, [end(t, 1, 30)], governed.now_ms)
    cluster.up(3)
    asks = governed.step().asks
    assert [(ask.broker_id, ask.broker_epoch) for ask in asks] == [(3, cluster.epoch(3))]
    governed.duties.ends(3, old, [end(t, 1, 30)], governed.now_ms)
    governed.step()
    assert cluster.partition(t).leader == 0
    governed.duties.ends(3, cluster.epoch(3), [end(t, 1, 5)], governed.now_ms)
    governed.step()
    assert cluster.partition(t).leader == 2


def test_who_comes_back_whole_meanwhile_leads_and_the_answers_count_no_more() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    governed = Governed(cluster, replicate=False)
    assert governed.step().asks == [], "3 may be whole"
    cluster.up(3)
    governed.step()
    assert (cluster.partition(t).leader, cluster.partition(t).lossy_elections) == (3, 0)
