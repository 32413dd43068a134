"""Topics in which brokers keep their own records: they come from brokers alone, and users don't change
them."""

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import GROUPS, KAFKA
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import alter, create, create_internal, delete, raise_level

OFFSETS = "__consumer_offsets"


def upgraded(*brokers: int, level: int = GROUPS) -> Cluster:
    """A cluster of these brokers, with this feature level in force."""
    cluster = Cluster(*brokers)
    for each in range(KAFKA, level + 1):
        cluster.do(raise_level(each))
    return cluster


def with_internal(*brokers: int, partitions: int = 1) -> tuple[Cluster, int]:
    """A cluster with the topic, and the topic's id."""
    cluster = upgraded(*brokers)
    return cluster, cluster.do(create_internal(partitions=partitions)).topic_id


def factor(topic_id: int, wanted: int) -> pb.Command:
    return pb.Command(alter_topic=pb.AlterTopic(topic_id=topic_id, replication_factor=wanted))


def test_a_broker_creates_what_users_can_not() -> None:
    cluster = upgraded(1)
    assert cluster.error(create(OFFSETS)) is ErrorCode.INVALID_NAME
    topic_id = cluster.do(create_internal()).topic_id
    assert cluster.seen(topic_id).name == OFFSETS
    assert cluster.error(create_internal()) is ErrorCode.TOPIC_EXISTS


def test_brokers_have_no_other_topics_of_their_own() -> None:
    cluster = upgraded(1)
    assert cluster.error(create_internal("orders")) is ErrorCode.INVALID_NAME


@pytest.mark.parametrize("level", [KAFKA - 1, KAFKA])
def test_controllers_of_an_earlier_level_would_refuse_it_so_it_waits(level: int) -> None:
    cluster = upgraded(1, level=level)
    assert cluster.error(create_internal()) is ErrorCode.INVALID_NAME


@pytest.mark.parametrize("change", [delete, lambda topic_id: alter(topic_id, partitions=51)])
def test_users_neither_delete_it_nor_add_partitions(change) -> None:  # type: ignore[no-untyped-def]
    cluster, topic_id = with_internal(1)
    assert cluster.error(change(topic_id)) is ErrorCode.INVALID_NAME


def test_its_settings_are_an_operators() -> None:
    cluster, topic_id = with_internal(1)
    cluster.do(alter(topic_id, settings={"log.segment.bytes": "32m"}))
    assert cluster.seen(topic_id).settings.segment_bytes == 32 * 1024 * 1024


def test_its_partitions_may_have_more_replicas_before_its_factor_rises() -> None:
    cluster, topic_id = with_internal(1, partitions=2)
    cluster.up(2)
    assert cluster.error(factor(topic_id, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.do(cluster.reassign(topic_id, 1, 2))
    assert cluster.error(factor(topic_id, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR, "it is being added"
    cluster.set_in_sync(topic_id, 1, 2)
    cluster.do(cluster.finish(topic_id))
    assert cluster.error(factor(topic_id, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR, "the other has one"
    cluster.do(cluster.reassign(topic_id, 1, 2, number=1))
    cluster.set_in_sync(topic_id, 1, 2, number=1)
    cluster.do(cluster.finish(topic_id, 1))
    cluster.do(factor(topic_id, 2))
    assert cluster.seen(topic_id).replication_factor == 2
    assert cluster.error(factor(topic_id, 1)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.error(cluster.reassign(topic_id, 1)) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_how_many_must_be_in_sync_rises_with_the_factor() -> None:
    cluster, topic_id = with_internal(1)
    cluster.up(2)
    cluster.up(3)
    cluster.do(cluster.reassign(topic_id, 1, 2, 3))
    cluster.set_in_sync(topic_id, 1, 2, 3)
    cluster.do(cluster.finish(topic_id))
    assert cluster.state.topics[topic_id].min_insync == 1
    cluster.do(factor(topic_id, 3))
    assert cluster.state.topics[topic_id].min_insync == 2
    cluster.fence(2, 3)
    assert cluster.partition(topic_id).eligible == (3,), "nothing was acknowledged without the last to go"


def test_the_factor_of_a_users_topic_stays() -> None:
    cluster = Cluster(1, 2)
    cluster.do(raise_level())
    topic_id = cluster.topic(factor=1)
    assert cluster.error(factor(topic_id, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.error(cluster.reassign(topic_id, 1, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR
