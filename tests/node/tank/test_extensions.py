"""Our own messages: features, times, descriptions, topics and positions."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import GroupsOutcome, TopicOutcome
from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import GROUPS
from tank_protos.generated.tank import (
    AlteredSetting,
    AlterTopicRequest,
    AlterTopicResponse,
    CommitPositionsRequest,
    CommitPositionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    FeaturesRequest,
    FeaturesResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    FindByTimeRequest,
    FindByTimeResponse,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentTopic,
    InitProducerRequest,
    InitProducerResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    PositionToCommit,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    TimeToFind,
    TopicSetting,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message
from tests.support.clients.produce import batch_of, produce
from tests.support.nodes.bench_node import BenchClient, BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 2, flush="replicated")
        yield node


def test_features_name_every_message_from_0x40_on(node: BenchNode) -> None:
    answer = FeaturesResponse.decode(node.client().ask(FeaturesRequest(0, 1)))
    assert (answer.cluster_id, answer.broker_id) == ("test-cluster", 1)
    assert {"idempotent_produce", "find_by_time", "await_ends"} <= {
        feature.name for feature in answer.features
    }
    assert len(answer.features) == len([*range(65, 84), 85])
    assert {limit.name: limit.value for limit in answer.limits}["fetch_bytes"] == 64 * 1024 * 1024


def test_find_by_time_gives_the_first_batch_that_reaches_a_time(node: BenchNode) -> None:
    client = node.client()
    for i, time_ms in enumerate((100, 300, 200)):
        entry = IdempotentPartition(0, i, time_ms, memoryview(batch_of(b"x", b"y")))
        client.ask(IdempotentProduceRequest(0, 1, "", 0, 0, 0, 0, [IdempotentTopic("a", [entry])]))
    wanted = [TimeToFind(0, 0), TimeToFind(0, 101), TimeToFind(0, 301), TimeToFind(1, 5), TimeToFind(9, 5)]
    answer = FindByTimeResponse.decode(client.ask(FindByTimeRequest(0, 1, "a", wanted)))
    found = [(f.error, f.sequence_number, f.timestamp_ms) for f in answer.partitions]
    assert found == [(0, 1, 100), (0, 3, 300), (0, 7, 0), (0, 1, 0), (ErrorCode.UNKNOWN_PARTITION, 0, 0)]
    missing = FindByTimeResponse.decode(client.ask(FindByTimeRequest(0, 1, "none", wanted)))
    assert missing.error == ErrorCode.UNKNOWN_TOPIC
    assert "none" in missing.message


def test_a_topic_is_created_described_altered_and_deleted(node: BenchNode) -> None:
    client = node.client()
    create = CreateTopicsRequest(0, 1, 0, "new", 1, 0, [TopicSetting("log.segment.bytes", "64m")], 0)
    created = CreateTopicsResponse.decode(client.ask(create))
    assert (created.error, created.topic_id > 0) == (0, True)
    assert CreateTopicsResponse.decode(client.ask(create)).error == ErrorCode.TOPIC_EXISTS
    alter = AlterTopicRequest(0, 2, "new", 3, [AlteredSetting("flush", "replicated")], 0)
    assert AlterTopicResponse.decode(client.ask(alter)).error == 0
    assert produce(client, batch_of(b"x"), topic="new", partition=2) == b"\0"
    described = DescribeTopicsResponse.decode(client.ask(DescribeTopicsRequest(0, 3, ["new", "none"])))
    topic, missing = described.topics
    assert [broker.broker_id for broker in described.brokers] == [1]
    assert topic.topic_id == created.topic_id
    settings = {setting.key: (setting.value, setting.is_default) for setting in topic.settings}
    assert settings["flush"] == ("replicated", 0)
    assert settings["log.roll.jitter.secs"][1] == 1
    marks = [(p.partition, p.leader, p.replicas, p.high_water_mark) for p in topic.partitions]
    assert marks == [(0, 1, [1], 0), (1, 1, [1], 0), (2, 1, [1], 1)]
    assert missing.error == ErrorCode.UNKNOWN_TOPIC
    assert len(DescribeTopicsResponse.decode(client.ask(DescribeTopicsRequest(0, 4))).topics) == 2
    assert DeleteTopicResponse.decode(client.ask(DeleteTopicRequest(0, 5, "new"))).error == 0
    assert (
        DeleteTopicResponse.decode(client.ask(DeleteTopicRequest(0, 6, "new"))).error
        == ErrorCode.UNKNOWN_TOPIC
    )
    assert produce(client, batch_of(b"x"), topic="new") == b"\xff"


def test_a_topic_made_durable_or_not_is_acknowledged_accordingly(node: BenchNode) -> None:
    client = node.client()
    assert produce(client, batch_of(b"x")) == b"\0"
    client.ask(AlterTopicRequest(0, 2, "a", 0, [AlteredSetting("flush", "disk")], 0))
    partition = node.broker.topics["a"].partitions[0]
    assert partition.high_water_mark == 1
    node.sync()
    assert partition.log.synced == 1, "what was written before is made durable too"
    entry = ProducePartition(0, memoryview(batch_of(b"y")))
    client.send(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [entry])]))
    assert client.taken() == b""
    node.client().ask(AlterTopicRequest(0, 3, "a", 0, [AlteredSetting("flush", "replicated")], 0))
    assert client.answers()[0][1][-1] == 0
    node.sync()


def ask_in_time(node: BenchNode, client: BenchClient, request: Message) -> memoryview:
    """Asks for what takes the disk, or a load, and gives the payload of the answer."""
    client.send(request)
    for _ in range(200):
        if answers := client.answers():
            ((_, payload),) = answers
            return payload
        node.pass_ms(10)
        node.tick()
        node.sync()
        node.tick()
    raise AssertionError("there is no answer")


def test_positions_are_kept_for_groups(node: BenchNode) -> None:
    client = node.client()
    commit = CommitPositionsRequest(0, 1, "g", positions=[PositionToCommit("a", 0, 7, "note")])
    committed = CommitPositionsResponse.decode(ask_in_time(node, client, commit))
    assert (committed.error, [result.error for result in committed.results]) == (0, [0])
    fetched = FetchPositionsResponse.decode(
        ask_in_time(node, client, FetchPositionsRequest(0, 2, "g", ["a"]))
    )
    assert [(p.topic, p.partition, p.sequence_number, p.metadata) for p in fetched.positions] == [
        ("a", 0, 7, "note")
    ]
    unknown = FetchPositionsResponse.decode(
        ask_in_time(node, client, FetchPositionsRequest(0, 3, "other", []))
    )
    assert unknown.error == ErrorCode.UNKNOWN_GROUP
    assert ListGroupsResponse.decode(ask_in_time(node, client, ListGroupsRequest(0, 4))).groups == ["g"]


def test_a_producer_id_is_given_out(node: BenchNode) -> None:
    answer = InitProducerResponse.decode(node.client().ask(InitProducerRequest(0, 1, "", 0)))
    assert answer.error == 0
    assert answer.producer_id


def test_asking_for_partitions_that_do_not_exist_ends_nothing(node: BenchNode) -> None:
    client = node.client()
    answer = DiscoverPartitionsResponse.decode(client.ask(DiscoverPartitionsRequest(1, "a", [0, 77])))
    known, unknown = answer.partitions
    assert (known.first_available, known.high_water_mark) == (0, 0)
    assert (unknown.first_available, unknown.reason) == (2**64 - 1, 0xFB)


def test_what_the_controller_has_not_answered_is_bounded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(request_bytes=100)) as node:
        client = node.client()
        pending: list[Callable[[TopicOutcome], None]] = []
        node.controller.delete_topic = lambda name, done: pending.append(done)  # type: ignore[method-assign]
        request = DeleteTopicRequest(0, 1, "x" * 40)
        client.feed(b"".join(frame(request.ID, request.encode())) * 5)
        assert (len(pending), client.session.is_full) == (3, True)
        while pending:
            pending.pop(0)(TopicOutcome(ErrorCode.NONE, "", 1))
            client.feed(b"")
        assert len(client.answers()) == 5
        assert client.session.asked_bytes == 0


def test_answers_for_a_connection_that_is_gone_are_dropped(node: BenchNode) -> None:
    node.controller.view.feature_level = GROUPS
    client = node.client()
    pending: list[Callable[[GroupsOutcome], None]] = []
    node.controller.list_groups = pending.append  # type: ignore[method-assign, assignment]
    client.send(ListGroupsRequest(0, 1))
    assert client.session.in_flight == 1
    client.session.close()
    pending[0](GroupsOutcome(ErrorCode.NONE))
    assert client.session.in_flight == 0
