"""How Kafka's clients in the simulated world choose the leader that Metadata names."""

import pytest

from tank_protos.generated.kafka import MetadataResponse
from tank_protos.generated.kafka.headers import response_header_version
from tank_protos.generated.kafka.metadata_response import (
    MetadataResponseBroker,
    MetadataResponseBrokerCollection,
    MetadataResponsePartition,
    MetadataResponseTopic,
    MetadataResponseTopicCollection,
)
from tank_protos.generated.kafka.response_header import ResponseHeader
from tests.simulation.books.kafka_ages import AGES, Age
from tests.simulation.clients.clients import Target
from tests.simulation.clients.kafka_lines import KafkaLine
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import Network, Weather
from tests.simulation.world.serving import Addresses
from tests.simulation.world.world import World

TARGET = Target("t", 1, 0)
LEADERS = {1: ("b1", 9092), 2: ("b2", 9092)}
WITH_EPOCHS, WITH_IDS = 7, 10


def line_of(age: Age) -> KafkaLine:
    """It has a broker to begin with, which is never connected."""
    begins: dict[int, BrokerMachine | None] = {1: None}
    line = KafkaLine(Network(World(0), Weather()), Addresses(), begins, "client", _unheard, _not_lost)  # type: ignore[arg-type]
    line.age = age
    return line


def _unheard(number: int, payload: memoryview) -> None:
    raise AssertionError


def _not_lost() -> None:
    raise AssertionError


def named(line: KafkaLine, leader: int, epoch: int, topic_id: int) -> bool:
    """Whether the line takes the leader that an answer names."""
    version = line.age.metadata
    brokers = MetadataResponseBrokerCollection(
        MetadataResponseBroker(number, *place) for number, place in LEADERS.items()
    )
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="t", topic_id=bytes(15) + bytes([topic_id]), partitions=[partition])
    answer = MetadataResponse(brokers=brokers, topics=MetadataResponseTopicCollection([topic]))
    header = ResponseHeader(1).encode(response_header_version(answer.ID, version))
    return line.take_leader(memoryview(b"".join([*header, *answer.encode(version)])), TARGET)


@pytest.mark.parametrize("age", [age for age in AGES if age.metadata >= WITH_EPOCHS], ids=str)
def test_an_answer_that_is_older_than_what_is_known_is_left_out(age: Age) -> None:
    line = line_of(age)
    assert named(line, 1, 5, 1)
    assert not named(line, 2, 4, 1)
    assert line.leader == LEADERS[1]


@pytest.mark.parametrize("age", [age for age in AGES if age.metadata >= WITH_IDS], ids=str)
def test_a_topic_that_was_made_anew_begins_with_an_epoch_of_its_own(age: Age) -> None:
    line = line_of(age)
    assert named(line, 1, 5, 1)
    assert named(line, 2, 1, 2)
    assert (line.leader, line.epoch) == (LEADERS[2], 1)


@pytest.mark.parametrize("age", [age for age in AGES if WITH_EPOCHS <= age.metadata < WITH_IDS], ids=str)
def test_a_client_that_knows_no_ids_takes_it_after_it_was_started_again(age: Age) -> None:
    line = line_of(age)
    assert named(line, 1, 5, 1)
    assert not named(line, 2, 1, 2)
    assert named(line, 2, 1, 2)
