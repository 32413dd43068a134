"""Metadata that is asked for when a leader has just died, and the controllers have not said so yet."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import PartitionView
from tank_node.kafka.metadata.metadata_answers import answers_of
from tank_node.limits import Limits
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tank_protos.wire.errors import WireError
from tests.support.nodes.broker_cell import TOPIC, BrokerCell
from tests.support.nodes.kafka_line import KafkaLine

LEADER, ASKED, OTHER = 1, 2, 3
VERSION = 12
LIMIT_MS = Limits().lost_leader_wait_ms
LISTED_MS = Limits().lost_broker_listed_ms
NOTICE_MS = Limits().lost_leader_notice_ms


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers, of which the first leads the only partition of a topic."""
    cell = BrokerCell(tmp_path, 3)
    cell.create()
    cell.run(300)
    yield cell
    cell.close()


class Client:
    """A client of the second broker, which asks for metadata."""

    def __init__(self, cell: BrokerCell) -> None:
        self.line = KafkaLine(cell.nodes[ASKED])

    def ask(self, *names: str) -> None:
        """Asks for these topics, for all if none is named, and lets the time pass in which a death is
        noticed."""
        self.send(*names)
        self.line.node.pass_ms(NOTICE_MS + 1)

    def send(self, *names: str) -> None:
        topics = [MetadataRequestTopic(name=name) for name in names] if names else None
        self.line.send(MetadataRequest(topics, allow_auto_topic_creation=False), VERSION)

    def answers(self) -> list[MetadataResponse]:
        return [self.line.read(each, MetadataResponse, VERSION)[1] for each in self.line.frames()]

    def leaders(self) -> list[int]:
        """The leaders in the answer, one for each partition; none: there is no answer."""
        return [
            partition.leader_id
            for answer in self.answers()
            for topic in answer.topics
            for partition in topic.partitions
        ]


@pytest.fixture
def client(cell: BrokerCell) -> Client:
    return Client(cell)


def fail_over(cell: BrokerCell, number: int = 0, topic: str = TOPIC) -> None:
    cell.change(number, topic, leader=OTHER, in_sync=(ASKED, OTHER))


def test_the_answer_waits_for_the_new_leader(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask(TOPIC)
    cell.run(LIMIT_MS // 2)
    assert not client.leaders()
    fail_over(cell)
    assert client.leaders() == [OTHER]
    cell.run(2 * LIMIT_MS)
    assert not client.leaders()


def test_a_death_that_is_noticed_just_after_the_question_still_counts(
    cell: BrokerCell, client: Client
) -> None:
    """The sockets of a dying process don't all close at once."""
    client.send(TOPIC)
    cell.clock.pass_ms(NOTICE_MS - 1)
    cell.stop(LEADER)
    cell.run(LIMIT_MS // 2)
    assert not client.leaders()
    fail_over(cell)
    assert client.leaders() == [OTHER]


def test_while_nobody_dies_the_answer_comes_a_little_later(cell: BrokerCell, client: Client) -> None:
    client.send(TOPIC)
    cell.nodes[ASKED].pass_ms(NOTICE_MS)
    assert not client.leaders()
    cell.nodes[ASKED].pass_ms(1)
    assert client.leaders() == [LEADER]


def test_without_connections_that_could_tell_the_answer_comes_at_once(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 3)
    cell.create("b", leader=ASKED)
    client = Client(cell)
    client.send("b")
    assert client.leaders() == [ASKED]
    cell.close()


def test_a_malformed_request_ends_the_connection_at_once(cell: BrokerCell, client: Client) -> None:
    frame = bytearray(client.line.frame(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), VERSION))
    frame[-1] = 99
    with pytest.raises(WireError):
        client.line.feed(bytes(frame))


def test_a_question_for_all_topics_waits_as_well(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask()
    assert not client.leaders()
    fail_over(cell)
    assert client.leaders() == [OTHER]


def test_a_topic_that_is_asked_for_by_its_id_waits_as_well(cell: BrokerCell, client: Client) -> None:
    client.ask(TOPIC)
    ((topic,),) = [list(answer.topics) for answer in client.answers()]
    cell.stop(LEADER)
    by_id = MetadataRequest([MetadataRequestTopic(topic.topic_id, None)], allow_auto_topic_creation=False)
    client.line.send(by_id, VERSION)
    cell.run(50)
    assert not client.leaders()
    fail_over(cell)
    assert client.leaders() == [OTHER]


def test_without_a_new_leader_the_old_one_is_named_when_the_time_is_over(
    cell: BrokerCell, client: Client
) -> None:
    """The broker may be alive, and only its connections have broken."""
    cell.stop(LEADER)
    client.ask(TOPIC)
    cell.run(LIMIT_MS - 50)
    assert not client.leaders()
    cell.run(100)
    assert client.leaders() == [LEADER]


def test_the_time_runs_from_the_death_on_and_not_from_the_question(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    cell.run(LIMIT_MS - 100)
    client.ask(TOPIC)
    cell.run(50)
    assert not client.leaders()
    cell.run(100)
    assert client.leaders() == [LEADER]
    client.ask(TOPIC)
    assert client.leaders() == [LEADER]


def test_a_leader_that_is_back_at_once_is_named_at_once(cell: BrokerCell, client: Client) -> None:
    cell.disconnect(LEADER, ASKED)
    client.ask(TOPIC)
    assert not client.leaders()
    cell.connect(LEADER, ASKED)
    cell.run(200)
    assert client.leaders() == [LEADER]


def test_topics_of_other_leaders_are_answered_at_once(cell: BrokerCell, client: Client) -> None:
    cell.create("other", leader=OTHER)
    cell.run(200)
    cell.stop(LEADER)
    client.ask("other")
    assert client.leaders() == [OTHER]
    client.ask("unknown")
    assert [[topic.name for topic in answer.topics] for answer in client.answers()] == [["unknown"]]


def test_the_death_of_a_broker_that_leads_nothing_holds_nothing_up(cell: BrokerCell, client: Client) -> None:
    cell.stop(OTHER)
    client.ask(TOPIC)
    assert client.leaders() == [LEADER]


def fence(cell: BrokerCell) -> None:
    for node in cell.nodes.values():
        node.controller.view.brokers[LEADER].fenced = True


def brokers(client: Client) -> list[int]:
    (answer,) = client.answers()
    return [each.node_id for each in answer.brokers]


def test_a_broker_that_has_died_stays_in_the_list_for_a_while(cell: BrokerCell, client: Client) -> None:
    """librdkafka gives up a broker that has gone from the list, with partitions that it has moved away."""
    cell.stop(LEADER)
    fence(cell)
    fail_over(cell)
    client.ask(TOPIC)
    (answer,) = client.answers()
    assert [each.node_id for each in answer.brokers] == [LEADER, ASKED, OTHER]
    (partition,) = next(iter(answer.topics)).partitions
    assert (partition.leader_id, partition.offline_replicas) == (OTHER, [LEADER])
    cell.run(LISTED_MS, 1000)
    client.ask(TOPIC)
    assert brokers(client) == [ASKED, OTHER]


def test_a_broker_that_was_fenced_without_a_broken_connection_is_not_listed(
    cell: BrokerCell, client: Client
) -> None:
    fence(cell)
    client.ask(TOPIC)
    assert brokers(client) == [ASKED, OTHER]


def test_a_kept_answer_lists_a_dead_broker_no_longer_than_another(cell: BrokerCell, client: Client) -> None:
    cell.create("large", partitions=600, leader=OTHER)
    cell.run(200)
    cell.stop(LEADER)
    fence(cell)
    client.ask("large")
    assert brokers(client) == [LEADER, ASKED, OTHER]
    cell.run(LISTED_MS, 1000)
    client.ask("large")
    assert brokers(client) == [ASKED, OTHER]


def test_a_partition_without_a_leader_is_answered_so(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask(TOPIC)
    cell.change(leader=0, in_sync=(), eligible=(LEADER,))
    assert client.leaders() == [-1]


def test_new_leaders_that_come_in_several_steps_are_waited_for(cell: BrokerCell, client: Client) -> None:
    cell.create("b", partitions=2)
    cell.run(200)
    cell.stop(LEADER)
    client.ask(TOPIC, "b")
    fail_over(cell, 1, "b")
    fail_over(cell)
    assert not client.leaders()
    fail_over(cell, 0, "b")
    assert client.leaders() == [OTHER, OTHER, OTHER]


def test_a_topic_that_is_deleted_meanwhile_holds_nothing_up(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask(TOPIC)
    cell.nodes[ASKED].controller.delete_topic(TOPIC, lambda outcome: None)
    (answer,) = client.answers()
    assert [topic.error_code for topic in answer.topics] == [3]


def test_requests_behind_the_answer_wait_with_it(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask(TOPIC)
    client.line.send(ApiVersionsRequest(), 0)
    assert not client.line.frames()
    fail_over(cell)
    client.line.feed(b"")
    metadata, versions = client.line.frames()
    assert client.line.read(metadata, MetadataResponse, VERSION)[0] == 1
    assert client.line.read(versions, ApiVersionsResponse, 0)[0] == 2


def test_a_client_that_goes_meanwhile_leaves_nothing_behind(cell: BrokerCell, client: Client) -> None:
    cell.stop(LEADER)
    client.ask(TOPIC)
    node = cell.nodes[ASKED]
    assert node.broker.deadlines.entries == 1
    client.line.session.close()
    assert node.broker.deadlines.entries == node.metrics.waiting == 0
    fail_over(cell)
    cell.run(2 * LIMIT_MS)
    assert not client.line.frames()


def test_no_more_answers_wait_than_may(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 3, Limits(all_wait_entries=1))
    cell.create()
    cell.run(300)
    first, second = Client(cell), Client(cell)
    cell.stop(LEADER)
    first.ask(TOPIC)
    second.ask(TOPIC)
    assert (first.leaders(), second.leaders()) == ([], [LEADER])
    cell.close()


def test_an_answer_that_was_kept_for_all_clients_is_not_sent_meanwhile(cell: BrokerCell) -> None:
    cell.create("large", partitions=600)
    cell.run(200)
    clients = [Client(cell) for _ in range(3)]
    clients[0].ask("large")
    assert clients[0].leaders() == [LEADER] * 600
    assert answers_of(cell.nodes[ASKED].broker).size_bytes
    cell.stop(LEADER)
    for client in clients:
        client.ask("large")
    assert not any(client.leaders() for client in clients)
    placed = [PartitionView(n, OTHER, 2, 2, (LEADER, ASKED, OTHER), (ASKED, OTHER)) for n in range(600)]
    cell.nodes[ASKED].controller.view.index += 1
    cell.publish(replace(cell.topics["large"], partitions=placed))
    assert [client.leaders() for client in clients] == [[OTHER] * 600] * 3
