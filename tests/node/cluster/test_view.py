"""The node's copy of the cluster's state."""

import pytest

from tank_node.cluster.view import ChangeKind, ClusterView, TopicChange, WholeState
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


def replace(view: ClusterView, *parts: pb.Delta) -> list[TopicChange]:
    """The whole state, in these parts, takes the place of what is there."""
    whole = WholeState(view)
    for part in parts:
        whole.add(part)
    return view.replace(whole)


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


def kafka_endpoints(*names: str) -> list[pb.Endpoint]:
    return [pb.Endpoint(name=name, host=f"{name}.test", port=9092) for name in names]


@pytest.mark.parametrize("is_whole", [False, True])
def test_brokers_are_reached_by_kafkas_clients_at_their_own_endpoints(is_whole: bool) -> None:
    view = ClusterView("c", 1)
    both = pb.Broker(broker_id=1, epoch=1, endpoints=kafka_endpoints("tank", "kafka", "kafka-outside"))
    inside = pb.Broker(broker_id=2, epoch=2, endpoints=kafka_endpoints("tank", "outside", "kafka"))
    neither = pb.Broker(broker_id=3, epoch=3, endpoints=kafka_endpoints("tank", "outside"))
    delta = pb.Delta(index=3, brokers=[both, inside, neither])
    if is_whole:
        whole = WholeState(view)
        whole.add(delta)
        view.replace(whole)
    else:
        view.apply(delta)
    shown = {
        broker_id: (broker.kafka_address(outside=False), broker.kafka_address(outside=True))
        for broker_id, broker in view.brokers.items()
    }
    assert shown == {
        1: (("kafka.test", 9092), ("kafka-outside.test", 9092)),
        2: (("kafka.test", 9092), ("kafka.test", 9092)),
        3: (None, None),
    }
    assert view.brokers[1].address(outside=True) == ("tank.test", 9092)


def test_a_broker_that_registers_without_its_kafka_port_has_none_any_more() -> None:
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=1, brokers=[pb.Broker(broker_id=1, endpoints=kafka_endpoints("kafka"))]))
    view.apply(pb.Delta(index=2, brokers=[pb.Broker(broker_id=1, endpoints=kafka_endpoints("tank"))]))
    assert (view.brokers[1].kafka_host, view.brokers[1].kafka_port) == ("", 0)


def partition(number: int, leader_epoch: int) -> pb.Partition:
    return pb.Partition(
        partition=number,
        replicas=[1, 2],
        in_sync=[2],
        leader=2,
        leader_epoch=leader_epoch,
        eligible=[1],
        impaired=[1],
        adding=[2],
        removing=[1],
        lossy_elections=1,
        lossy_epoch=leader_epoch,
    )


def test_single_partitions_of_a_topic_change_and_the_others_stay_the_same_objects() -> None:
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=2, topics=[topic(2, "t", 3)]))
    before = view.topic("t")
    assert before is not None
    changed = pb.ChangedPartitions(topic_id=2, partitions=[partition(1, 5), partition(7, 5)])
    gone = pb.ChangedPartitions(topic_id=9, partitions=[partition(0, 5)])
    (change,) = view.apply(pb.Delta(index=3, changed=[changed, gone]))
    assert (change.kind, change.partitions) == (ChangeKind.ALTERED, (1,))
    after = change.topic
    assert after is view.topic("t") is view.topic_by_id(2)
    assert after.partitions[0] is before.partitions[0]
    told = after.partitions[1]
    assert (told.leader, told.leader_epoch, told.in_sync) == (2, 5, (2,))
    assert (told.eligible, told.impaired, told.adding, told.removing) == ((1,), (1,), (2,), (1,))
    assert (told.lossy_elections, told.lossy_epoch) == (1, 5)
    assert before.partitions[1].leader_epoch == 1, "who holds the old one is not surprised"


def test_brokers_are_fenced_leave_and_go() -> None:
    view = ClusterView("c", 1)
    endpoint = pb.Endpoint(name="tank", host="h", port=5)
    broker = pb.Broker(broker_id=1, epoch=2, endpoints=[endpoint], fenced_index=2, draining=True)
    view.apply(pb.Delta(index=2, brokers=[broker]))
    told = view.brokers[1]
    assert (told.host, told.port, told.fenced, told.draining, told.shutting_down) == (
        "h",
        5,
        True,
        True,
        False,
    )
    view.apply(pb.Delta(index=3, brokers=[pb.Broker(broker_id=1, epoch=2, shutting_down=True)]))
    assert (view.brokers[1].fenced, view.brokers[1].shutting_down, view.brokers[1].port) == (False, True, 0)
    view.apply(pb.Delta(index=4, removed_brokers=[1]))
    assert not view.brokers


def test_the_whole_state_takes_the_place_of_what_was_known() -> None:
    view = ClusterView("c", 1)
    view.apply(
        pb.Delta(
            index=5,
            brokers=[pb.Broker(broker_id=1), pb.Broker(broker_id=2)],
            topics=[topic(2, "gone"), topic(3, "same"), topic(4, "grown"), topic(5, "set")],
            ended_producers=[7],
        )
    )
    whole = pb.Delta(
        index=9,
        brokers=[pb.Broker(broker_id=2)],
        topics=[topic(3, "same"), topic(4, "grown", 2), topic(5, "set", flush="disk"), topic(8, "gone")],
        ended_producers=[8],
    )
    changes = replace(view, whole)
    assert [(change.kind, change.topic.topic_id, change.partitions) for change in changes] == [
        (ChangeKind.DELETED, 2, ()),
        (ChangeKind.ALTERED, 4, (1,)),
        (ChangeKind.ALTERED, 5, ()),
        (ChangeKind.CREATED, 8, (0,)),
    ]
    assert view.brokers.keys() == {2}
    assert (view.producer_ended(7), view.producer_ended(8)) == (False, True)
    again = view.topic("gone")
    assert again is not None
    assert again.topic_id == 8
    assert replace(view, pb.Delta(index=8)) == [], "what is older says nothing"
    assert len(list(view.topics())) == 4


def test_what_a_whole_state_says_as_it_was_stays_the_same_object() -> None:
    """A million partitions are compared as their parts come, not at the stroke that changes the view."""
    view = ClusterView("c", 1)
    view.apply(pb.Delta(index=5, topics=[topic(3, "t", 3)]))
    before = view.topics()
    (kept,) = [list(each.partitions) for each in before]
    now = topic(3, "t", 4)
    now.partitions[1].leader_epoch = 2
    (change,) = replace(view, pb.Delta(), pb.Delta(index=9, topics=[now]), pb.Delta(index=9))
    assert (change.kind, change.partitions) == (ChangeKind.ALTERED, (1, 3))
    shared = [any(each is one for one in kept) for each in change.topic.partitions]
    assert shared == [True, False, True, False]
    assert (view.index, change.topic.partitions[1].leader_epoch) == (9, 2)
