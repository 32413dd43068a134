"""The factor of internal topics rises as brokers join."""

import pytest

from tank_controller import limits
from tank_protos.feature_levels import GROUPS, KAFKA
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import create_internal, raise_level
from tests.controller.governed import Governed


def born_as_one(partitions: int = 50) -> tuple[Governed, int]:
    """A cluster of one broker with the internal topic, whose id comes with it."""
    cluster = Cluster(1)
    for level in (KAFKA, GROUPS):
        cluster.do(raise_level(level))
    topic_id = cluster.do(create_internal(partitions=partitions)).topic_id
    return Governed(cluster), topic_id


def test_a_cluster_born_as_one_broker_keeps_its_groups_on_three_later() -> None:
    governed, topic_id = born_as_one()
    governed.run(10)
    assert not governed.kinds
    governed.cluster.up(2)
    governed.cluster.up(3)
    governed.rest()
    topic = governed.cluster.state.topics[topic_id]
    assert topic.replication_factor == 3
    assert all(len(each.replicas) == len(each.in_sync) == 3 for each in topic.partitions)
    assert {each.leader for each in topic.partitions} == {1, 2, 3}


def test_it_rises_with_each_broker_and_no_further_than_three() -> None:
    governed, topic_id = born_as_one(5)
    topic = governed.cluster.state.topics[topic_id]
    factors = []
    for broker_id in (2, 3, 4, 5):
        governed.cluster.up(broker_id)
        governed.rest()
        factors.append(topic.replication_factor)
    assert factors == [2, 3, 3, 3]
    assert all(len(each.replicas) == 3 for each in topic.partitions)


def test_few_replicas_are_added_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MOVING", 4)
    monkeypatch.setattr(limits, "MAX_MOVING_TO_BROKER", 3)
    governed, topic_id = born_as_one()
    governed.cluster.up(2)
    governed.cluster.up(3)
    governed.rest()
    assert governed.most_moving <= 4
    assert governed.cluster.state.topics[topic_id].replication_factor == 3


def test_the_factor_waits_until_all_partitions_have_so_many_replicas() -> None:
    governed, topic_id = born_as_one(3)
    governed.cluster.up(2)
    slow = Governed(governed.cluster, replicate=False)
    slow.run(30)
    topic = governed.cluster.state.topics[topic_id]
    assert topic.replication_factor == 1
    assert all(each.adding == (2,) for each in topic.partitions)
    slow.catch_up()
    slow.run(5)
    assert topic.replication_factor == 2


def test_a_users_topic_keeps_its_factor() -> None:
    cluster = Cluster(1)
    for level in (KAFKA, GROUPS):
        cluster.do(raise_level(level))
    topic_id = cluster.topic(factor=1)
    governed = Governed(cluster)
    cluster.up(2)
    governed.rest()
    assert cluster.state.topics[topic_id].replication_factor == 1


def test_a_broker_that_leaves_gets_none() -> None:
    governed, topic_id = born_as_one(4)
    governed.cluster.up(2)
    governed.cluster.set_broker(2, draining=True)
    governed.rest()
    assert governed.cluster.state.topics[topic_id].replication_factor == 1
    assert not len(governed.cluster.state.held_by(2))
