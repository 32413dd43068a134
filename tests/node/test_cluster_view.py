"""The node's copy of the cluster's state."""

from tank_node.cluster_view import ChangeKind, ClusterView
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import FlushPolicy


def topic(topic_id: int, name: str, partitions: int = 1, **settings: str) -> pb.Topic:
    return pb.Topic(
        topic_id=topic_id,
        name=name,
        replication_factor=1,
        settings=[pb.Setting(key=key, value=value) for key, value in settings.items()],
        partitions=[
            pb.Partition(partition=n, replicas=[1], in_sync=[1], leader=1, leader_epoch=1)
            for n in range(partitions)
        ],
    )


def test_topics_come_change_and_go() -> None:
    view = ClusterView("c", 1)
    (created,) = view.apply(pb.Delta(index=2, topics=[topic(2, "t", flush="replicated")]))
    assert created.kind is ChangeKind.CREATED
    assert created.topic is view.topic("t") is view.topic_by_id(2)
    assert created.topic.settings.flush is FlushPolicy.REPLICATED
    (altered,) = view.apply(pb.Delta(index=3, topics=[topic(2, "t", 2)]))
    assert altered.kind is ChangeKind.ALTERED
    assert [p.partition for p in altered.topic.partitions] == [0, 1]
    (deleted,) = view.apply(pb.Delta(index=4, deleted_topics=[2]))
    assert (deleted.kind, deleted.topic.topic_id) == (ChangeKind.DELETED, 2)
    assert view.topic("t") is None
    assert list(view.topics()) == []


def test_what_is_known_already_changes_nothing() -> None:
    view = ClusterView("c", 1)
    delta = pb.Delta(index=2, topics=[topic(2, "t")])
    view.apply(delta)
    assert view.apply(delta) == []


def test_ids_at_or_below_the_index_that_are_gone_were_deleted() -> None:
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=5, topics=[topic(3, "t")]))
    assert not view.was_deleted(3)
    assert view.was_deleted(4)
    assert not view.was_deleted(6), "of a future that this view has not seen"


def test_ended_producers_are_known_until_they_are_forgotten() -> None:
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=2, ended_producers=[7, 8]))
    assert view.producer_ended(7)
    view.apply(pb.Delta(index=3, forgotten_producers=[7]))
    assert not view.producer_ended(7)
    assert view.producer_ended(8)


def test_settings_of_a_newer_controller_do_not_stop_the_node() -> None:
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=2, topics=[topic(2, "t", colour="red", flush="replicated")]))
    found = view.topic("t")
    assert found is not None
    assert found.settings.flush is FlushPolicy.REPLICATED
    assert found.settings_text["colour"] == "red"


def test_brokers_are_reached_at_their_tank_endpoint() -> None:
    view = ClusterView("c", 1)
    endpoints = [pb.Endpoint(name="kafka", host="k", port=1), pb.Endpoint(name="tank", host="h", port=2)]
    view.apply(pb.Delta(index=1, brokers=[pb.Broker(broker_id=1, epoch=1, endpoints=endpoints, rack="r")]))
    broker = view.brokers[1]
    assert (broker.host, broker.port, broker.rack, broker.epoch) == ("h", 2, "r", 1)
