"""Metadata: brokers, topics, leaders, in every version."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView, TopicView
from tank_node.security.gate import Gate, Operation, Principal, Resource
from tank_protos.generated.kafka import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tank_protos.generated.kafka.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from tank_protos.wire.errors import WireError
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

VERSIONS = range(14)
NOT_ASKED = -(1 << 31)
NO_ID = bytes(16)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def asked(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def known(version: int, *names: str) -> MetadataRequest:
    """A question for topics that must not create them, in the versions that can say so."""
    return asked(*names, create=version < 4)


def by_id(*ids: bytes) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(each, None) for each in ids])


def answer(node: BenchNode, request: MetadataRequest, version: int) -> MetadataResponse:
    return KafkaLine(node).ask(request, MetadataResponse, version)


def the_topic(node: BenchNode, request: MetadataRequest, version: int) -> MetadataResponseTopic:
    (topic,) = answer(node, request, version).topics
    return topic


def names(response: MetadataResponse) -> set[str | None]:
    return {topic.name for topic in response.topics}


def place(controller: InstantController, topic: TopicView, *placed: PartitionView) -> None:
    controller.publish(ChangeKind.ALTERED, replace(topic, partitions=list(placed)))


def kafka_broker(number: int, rack: str = "", *, fenced: bool = False) -> BrokerView:
    return BrokerView(
        number, 1, "h", 11011, rack, fenced=fenced, kafka_host=f"k{number}.test", kafka_port=9092
    )


# --- brokers ---


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_come_with_their_kafka_addresses_and_racks(node: BenchNode, version: int) -> None:
    brokers = node.controller.view.brokers
    brokers[12] = kafka_broker(12, "rack-b")
    brokers[2] = kafka_broker(2)
    found = [(b.node_id, b.host, b.port, b.rack) for b in answer(node, known(version), version).brokers]
    rack = "rack-b" if version else None
    assert found == [
        (1, "127.0.0.1", 9092, None),
        (2, "k2.test", 9092, None),
        (12, "k12.test", 9092, rack),
    ]


def test_a_client_from_outside_gets_outside_addresses(node: BenchNode) -> None:
    node.controller.view.brokers[1] = replace(
        kafka_broker(1), kafka_outside_host="out.test", kafka_outside_port=31092
    )
    line = KafkaLine(node, is_outside=True)
    (broker,) = line.ask(known(12), MetadataResponse, 12).brokers
    assert (broker.host, broker.port) == ("out.test", 31092)


def test_fenced_brokers_and_those_without_the_port_are_not_listed(node: BenchNode) -> None:
    brokers = node.controller.view.brokers
    brokers[2] = kafka_broker(2, fenced=True)
    brokers[3] = BrokerView(3, 1, "h", 11011, "")
    assert [each.node_id for each in answer(node, known(9), 9).brokers] == [1]


def test_while_all_brokers_are_fenced_all_are_listed_and_lead_nothing(node: BenchNode) -> None:
    """Else a client would have no broker to ask again: librdkafka gives up all that aren't in the list."""
    topic = node.controller.add("a", 1)
    brokers = node.controller.view.brokers
    brokers[1], brokers[2] = kafka_broker(1, fenced=True), kafka_broker(2, fenced=True)
    brokers[3] = BrokerView(3, 1, "h", 11011, "")
    told = answer(node, known(9, topic.name), 9)
    assert [each.node_id for each in told.brokers] == [1, 2]
    assert [each.leader_id for found in told.topics for each in found.partitions] == [-1]


@pytest.mark.parametrize("version", range(1, 14))
def test_the_controller_is_the_broker_that_was_asked(node: BenchNode, version: int) -> None:
    node.controller.view.brokers[0] = kafka_broker(0)
    assert answer(node, known(version), version).controller_id == 1


def test_the_controller_is_always_among_the_brokers(node: BenchNode) -> None:
    brokers = node.controller.view.brokers
    brokers[1] = kafka_broker(1, fenced=True)
    brokers[7], brokers[8] = kafka_broker(7), kafka_broker(8)
    assert answer(node, known(5), 5).controller_id == 7
    brokers.clear()
    assert answer(node, known(5), 5).controller_id == -1


@pytest.mark.parametrize("version", range(2, 14))
def test_the_clusters_id_is_ours(node: BenchNode, version: int) -> None:
    assert answer(node, known(version), version).cluster_id == "test-cluster"


# --- which topics ---


@pytest.mark.parametrize("version", range(9, 14))
def test_all_topics_may_be_asked_for_with_a_length_of_four_bytes(node: BenchNode, version: int) -> None:
    """As librdkafka writes it, in `kcat -L` and in `AdminClient.list_topics` of confluent-kafka."""
    node.controller.add("one")
    node.controller.add("two")
    line = KafkaLine(node)
    frame = line.frame(MetadataRequest(None, True), version)
    flags = 3 if version < 11 else 2
    body_at = len(frame) - 1 - flags - 1
    stretched = frame[4:body_at] + bytes(4) + frame[body_at + 1 :]
    line.feed(len(stretched).to_bytes(4, "big") + stretched)
    (answered,) = line.frames()
    _, response = line.read(answered, MetadataResponse, version)
    assert names(response) == {"one", "two"}


def test_other_bytes_behind_a_question_close_the_connection(node: BenchNode) -> None:
    line = KafkaLine(node)
    frame = line.frame(asked("one"), 12)[4:] + bytes(3)
    with pytest.raises(WireError):
        line.feed(len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_asks_for_no_topics_and_null_for_all(node: BenchNode, version: int) -> None:
    node.controller.add("one")
    node.controller.add("two")
    none = answer(node, known(version), version)
    assert (len(none.brokers), len(none.topics)) == (1, 0)
    assert names(answer(node, MetadataRequest(None), version)) == {"one", "two"}


def test_an_empty_list_asks_for_all_topics_in_version_0(node: BenchNode) -> None:
    node.controller.add("one")
    node.controller.add("two")
    assert names(answer(node, asked(), 0)) == {"one", "two"}


def test_without_topics_all_are_none(node: BenchNode) -> None:
    assert answer(node, asked(), 0).topics == []
    assert answer(node, MetadataRequest(None), 13).topics == []


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_topics_that_are_named_come(node: BenchNode, version: int) -> None:
    for name in ("one", "two", "three"):
        node.controller.add(name)
    assert [each.name for each in answer(node, asked("three", "one"), version).topics] == ["three", "one"]


def test_a_topic_named_twice_comes_once(node: BenchNode) -> None:
    topic = node.controller.add("one")
    uuid = topic_uuid("test-cluster", topic.topic_id)
    request = asked("one", "one", "none", "none", create=False)
    request.topics = [*(request.topics or []), *(by_id(uuid, uuid).topics or [])]
    assert [each.name for each in answer(node, request, 12).topics] == ["one", "none"]


@pytest.mark.parametrize("version", range(4, 14))
def test_an_unknown_topic_is_an_error_of_that_topic_alone(node: BenchNode, version: int) -> None:
    node.controller.add("one")
    unknown, one = answer(node, asked("none", "one", create=False), version).topics
    assert (unknown.error_code, unknown.name, unknown.topic_id, unknown.partitions) == (3, "none", NO_ID, [])
    assert (one.error_code, len(one.partitions)) == (0, 1)


@pytest.mark.parametrize("version", range(4, 14))
@pytest.mark.parametrize("create", [True, False])
def test_a_name_that_no_topic_may_have_is_invalid(node: BenchNode, version: int, create: bool) -> None:
    for name in ("", ".", "a b", "x" * 250):
        found = the_topic(node, asked(name, create=create), version)
        assert (found.error_code, found.name) == (17, name)


def test_a_name_that_is_no_text_comes_back_as_it_came(node: BenchNode) -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    found = the_topic(node, asked(name), 1)
    assert (found.error_code, found.name) == (17, name)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(node: BenchNode, version: int) -> None:
    one = node.controller.add("one")
    node.controller.add("two")
    uuid = topic_uuid("test-cluster", one.topic_id)
    found = the_topic(node, by_id(uuid), version)
    assert (found.error_code, found.name, found.topic_id) == (0, "one", uuid)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_id_is_unknown_and_has_no_name(node: BenchNode, version: int) -> None:
    old = node.controller.add("one")
    node.controller.publish(ChangeKind.DELETED, old)
    node.controller.add("one")
    gone, strange = topic_uuid("test-cluster", old.topic_id), topic_uuid("other", 1)
    found = answer(node, by_id(gone, strange, NO_ID), version).topics
    assert [(each.error_code, each.name, each.topic_id) for each in found] == [
        (100, None, gone),
        (100, None, strange),
        (100, None, NO_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_before_version_12_no_topic_is_found_by_id(node: BenchNode, version: int) -> None:
    uuid = topic_uuid("test-cluster", node.controller.add("one").topic_id)
    found = the_topic(node, by_id(uuid), version)
    assert (found.error_code, found.name, found.topic_id, found.partitions) == (42, "", uuid, [])


# --- topics and partitions ---


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_described_whole(node: BenchNode, version: int) -> None:
    brokers = node.controller.view.brokers
    brokers[2], brokers[3] = kafka_broker(2), kafka_broker(3)
    topic = node.controller.add("one", 2)
    first = PartitionView(0, 2, 5, 9, (1, 2, 3), (1, 2))
    second = PartitionView(1, 1, 4, 9, (3, 1, 2), (3, 1, 2))
    place(node.controller, topic, first, second)
    found = the_topic(node, asked("one"), version)
    expected = [
        MetadataResponsePartition(0, 0, 2, 5, [1, 2, 3], [1, 2], []),
        MetadataResponsePartition(0, 1, 1, 4, [3, 1, 2], [3, 1, 2], []),
    ]
    if version < 7:
        for partition in expected:
            partition.leader_epoch = -1
    assert found == MetadataResponseTopic(
        0,
        "one",
        topic_uuid("test-cluster", topic.topic_id) if version >= 10 else NO_ID,
        False,
        expected,
        NOT_ASKED,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_a_leader_says_so_and_the_others_are_whole(node: BenchNode, version: int) -> None:
    topic = node.controller.add("one", 2)
    place(node.controller, topic, PartitionView(0, 0, 7, 3, (1,), (1,)), topic.partitions[1])
    found = the_topic(node, asked("one"), version)
    assert found.error_code == 0
    leaderless, led = found.partitions
    assert (leaderless.error_code, leaderless.leader_id) == (5, -1)
    assert leaderless.leader_epoch == (7 if version >= 7 else -1)
    assert (led.error_code, led.leader_id) == (0, 1)


def test_a_leader_that_serves_no_kafka_clients_is_none(node: BenchNode) -> None:
    node.controller.view.brokers[2] = BrokerView(2, 1, "h", 11011, "")
    topic = node.controller.add("one")
    place(node.controller, topic, PartitionView(0, 2, 7, 3, (2, 1), (2, 1)))
    (partition,) = the_topic(node, asked("one"), 7).partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (5, -1, 7)
    assert partition.offline_replicas == [2]


@pytest.mark.parametrize("version", range(1, 14))
def test_replicas_on_brokers_that_are_fenced_or_gone_are_offline(node: BenchNode, version: int) -> None:
    node.controller.view.brokers[2] = kafka_broker(2, fenced=True)
    topic = node.controller.add("one")
    place(node.controller, topic, PartitionView(0, 1, 1, 1, (2, 1, 3), (1,)))
    (partition,) = the_topic(node, asked("one"), version).partitions
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([2, 1, 3], [1])
    assert partition.offline_replicas == ([2, 3] if version >= 5 else [])


def test_version_0_names_only_brokers_in_its_list(node: BenchNode) -> None:
    topic = node.controller.add("one", 3)
    place(
        node.controller,
        topic,
        PartitionView(0, 1, 1, 1, (2, 1), (2, 1)),
        PartitionView(1, 0, 1, 1, (2, 1), (2,)),
        PartitionView(2, 1, 1, 1, (1,), (1,)),
    )
    found = the_topic(node, asked("one"), 0).partitions
    assert [(p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in found] == [
        (9, 1, [1], [1]),
        (5, -1, [1], []),
        (0, 1, [1], [1]),
    ]


@pytest.mark.parametrize("version", range(1, 14))
def test_the_clusters_own_topics_are_internal(node: BenchNode, version: int) -> None:
    mine = node.controller.add("__mine")
    node.controller.publish(ChangeKind.CREATED, replace(mine, topic_id=77, name="__consumer_offsets"))
    found = answer(node, MetadataRequest(None), version).topics
    assert {each.name: each.is_internal for each in found} == {"__consumer_offsets": True, "__mine": False}


@pytest.mark.parametrize("version", range(10, 14))
def test_a_topic_made_again_has_another_id(node: BenchNode, version: int) -> None:
    first = node.controller.add("one")
    before = the_topic(node, asked("one"), version).topic_id
    node.controller.publish(ChangeKind.DELETED, first)
    node.controller.add("one")
    assert the_topic(node, asked("one"), version).topic_id not in (before, NO_ID)


# --- authorized operations ---


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_come_only_if_asked_for(node: BenchNode, version: int) -> None:
    node.controller.add("one")
    response = answer(node, asked("one"), version)
    assert response.cluster_authorized_operations == NOT_ASKED
    assert response.topics[0].topic_authorized_operations == NOT_ASKED
    request = asked("one")
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = version <= 10
    response = answer(node, request, version)
    topic_operations = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    cluster_operations = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
    assert response.topics[0].topic_authorized_operations == topic_operations
    assert response.cluster_authorized_operations == (cluster_operations if version <= 10 else NOT_ASKED)


class ReadOnly(Gate):
    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return operation in (Operation.DESCRIBE, Operation.READ)


def test_operations_are_what_the_gate_allows(node: BenchNode) -> None:
    node.controller.add("one")
    request = asked("one")
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    response = KafkaLine(node, ReadOnly()).ask(request, MetadataResponse, 8)
    assert response.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8 | 1 << 10
    assert response.cluster_authorized_operations == 1 << 8 | 1 << 10


def test_ten_thousand_partitions_are_answered_at_once(node: BenchNode) -> None:
    topic = node.controller.add("one")
    place(node.controller, topic, *(PartitionView(n, 1, 1, 1, (1,), (1,)) for n in range(10_000)))
    found = the_topic(node, asked("one"), 12).partitions
    assert [each.partition_index for each in found] == list(range(10_000))
