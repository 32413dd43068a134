"""Clients that prefer the broker which they have asked read what it follows in sync, up to its own mark."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
)
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append

END = 2**64 - 1
PREFERS_THIS = 1
LEADER, FOLLOWER = 1, 2


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Broker 1 leads one partition with three messages; 2 and 3 follow in sync and know of all."""
    cell = BrokerCell(tmp_path, 3)
    cell.create(flush="replicated")
    cell.run(200)
    write(cell, 3)
    cell.run(300)
    yield cell
    cell.close()


def write(cell: BrokerCell, count: int) -> None:
    for token in range(count):
        append(cell.nodes[LEADER], b"%d" % token, Told(), token)


def consume(
    client: BenchClient, number: int, *, wait_ms: int = 0, flags: int = PREFERS_THIS, min_bytes: int = 0
) -> None:
    topics = [ConsumeTopic("a", [ConsumePartition(0, number, 1 << 20)])]
    client.send(ConsumeRequest(3, 1, "", wait_ms, min_bytes, flags, topics))


def answers(client: BenchClient) -> list[FetchedPartition]:
    return [ConsumeResponse.decode(payload).topics[0].partitions[0] for _, payload in client.answers()]


def flags(client: BenchClient) -> list[int]:
    return [answer.flag for answer in answers(client)]


def test_an_in_sync_follower_serves_who_prefers_it(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 2)
    (answer,) = answers(client)
    assert (answer.flag, answer.base_sequence_number, answer.high_water_mark) == (ConsumeFlag.DATA, 2, 3)
    assert answer.chunk_length > 0


def test_the_first_available_message_is_the_followers_own(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 0)
    (answer,) = answers(client)
    assert (answer.flag, answer.base_sequence_number) == (ConsumeFlag.DATA, 1)


def test_who_does_not_prefer_it_is_sent_to_the_leader(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 2, flags=0)
    consume(client, 2, flags=0xFE)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER] * 2


def test_the_flag_means_nothing_to_the_leader(cell: BrokerCell) -> None:
    client = cell.nodes[LEADER].client()
    consume(client, 3)
    consume(client, 99)
    first, beyond = answers(client)
    assert (first.flag, first.base_sequence_number) == (ConsumeFlag.DATA, 3)
    assert beyond.flag == ConsumeFlag.OUT_OF_BOUNDS


def test_nothing_is_shown_behind_the_followers_mark(cell: BrokerCell) -> None:
    """Messages 4 and 5 lie in the follower's log; the third replica lacks them: they may yet be cut."""
    cell.disconnect(LEADER, 3)
    write(cell, 2)
    cell.step()
    cell.step()
    replica = cell.nodes[FOLLOWER].partition()
    assert (replica.log.last, replica.high_water_mark) == (5, 3)
    client = cell.nodes[FOLLOWER].client()
    consume(client, 1)
    (answer,) = answers(client)
    alone = cell.nodes[FOLLOWER].client()
    consume(alone, 4)
    (nothing,) = answers(alone)
    assert (answer.flag, answer.high_water_mark) == (ConsumeFlag.DATA, 3)
    stored = [length for _, length in batches_of(cell)]
    assert answer.chunk_length == sum(stored[:3])
    assert (nothing.flag, nothing.high_water_mark, nothing.chunk_length) == (ConsumeFlag.DATA, 3, 0)


def batches_of(cell: BrokerCell) -> list[tuple[int, int]]:
    """(first number, bytes) of the leader's batches."""
    log = cell.nodes[LEADER].log()
    found = []
    number = log.first_available
    while number <= log.last:
        stretch = log.read(number, 1, log.last)
        assert stretch is not None
        stretch.file.release()
        found.append((stretch.first, stretch.length))
        number = stretch.last + 1
    return found


@pytest.mark.parametrize("number", [5, 1000])
def test_numbers_behind_its_log_are_for_the_leader_to_judge(cell: BrokerCell, number: int) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, number)
    consume(client, number, wait_ms=5000)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER] * 2


def test_so_are_those_before_its_first(cell: BrokerCell) -> None:
    cell.nodes[FOLLOWER].log().retain_from(3)
    client = cell.nodes[FOLLOWER].client()
    consume(client, 2)
    consume(client, 3)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER, ConsumeFlag.DATA]


@pytest.mark.parametrize("number", [4, END])
@pytest.mark.parametrize("min_bytes", [0, 1])
def test_a_wait_at_a_follower_ends_with_the_next_message(
    cell: BrokerCell, number: int, min_bytes: int
) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, number, wait_ms=60_000, min_bytes=min_bytes)
    assert answers(client) == []
    write(cell, 1)
    cell.run(300)
    (answer,) = answers(client)
    assert (answer.flag, answer.base_sequence_number, answer.high_water_mark) == (ConsumeFlag.DATA, 4, 4)


def test_a_wait_at_a_follower_ends_empty_at_its_time(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=1000)
    cell.run(1500)
    (answer,) = answers(client)
    assert (answer.flag, answer.high_water_mark, answer.chunk_length) == (ConsumeFlag.DATA, 3, 0)


def test_news_of_other_replicas_does_not_end_a_wait(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=60_000)
    cell.change(in_sync=(LEADER, FOLLOWER))
    assert answers(client) == []


def out_of_sync(cell: BrokerCell) -> None:
    cell.judge = lambda node: None
    cell.change(in_sync=(LEADER, 3))


def without_controllers(cell: BrokerCell) -> None:
    cell.nodes[FOLLOWER].controller.connected = False


def without_its_leader(cell: BrokerCell) -> None:
    cell.judge = lambda node: None
    cell.disconnect(LEADER, FOLLOWER)


def under_a_leader_that_it_has_not_heard(cell: BrokerCell) -> None:
    cell.change(leader=3)


def behind_an_epoch_that_its_view_has_not(cell: BrokerCell) -> None:
    cell.change(leader=3, brokers=(3,))
    cell.run(200)
    assert cell.nodes[FOLLOWER].partition().leader_epoch == 2


def with_a_log_that_failed(cell: BrokerCell) -> None:
    cell.nodes[FOLLOWER].log().fail("the disk refused an fsync")


CANNOT_TELL = [
    out_of_sync,
    without_controllers,
    without_its_leader,
    under_a_leader_that_it_has_not_heard,
    behind_an_epoch_that_its_view_has_not,
    with_a_log_that_failed,
]


@pytest.mark.parametrize("happens", CANNOT_TELL)
def test_a_follower_that_cannot_tell_answers_as_without_the_flag(
    cell: BrokerCell, happens: Callable[[BrokerCell], None]
) -> None:
    happens(cell)
    client = cell.nodes[FOLLOWER].client()
    consume(client, 1)
    consume(client, 4)
    consume(client, 1, flags=0)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER] * 3


@pytest.mark.parametrize("happens", [out_of_sync, under_a_leader_that_it_has_not_heard])
def test_a_wait_ends_at_once_when_the_view_says_that_it_is_in_vain(
    cell: BrokerCell, happens: Callable[[BrokerCell], None]
) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=60_000)
    happens(cell)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER]


@pytest.mark.parametrize("happens", [without_controllers, without_its_leader])
def test_and_at_its_time_where_only_silence_does(
    cell: BrokerCell, happens: Callable[[BrokerCell], None]
) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=1000)
    happens(cell)
    cell.run(1500)
    assert flags(client) == [ConsumeFlag.OTHER_LEADER]


def test_a_wait_goes_on_when_the_follower_comes_to_lead(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=60_000)
    cell.change(leader=FOLLOWER)
    cell.run(300)
    append(cell.nodes[FOLLOWER], b"x", Told(), 0)
    cell.run(300)
    (answer,) = answers(client)
    assert (answer.flag, answer.base_sequence_number) == (ConsumeFlag.DATA, 4)


def test_a_deleted_topic_ends_a_wait_at_a_follower(cell: BrokerCell) -> None:
    client = cell.nodes[FOLLOWER].client()
    consume(client, 4, wait_ms=60_000)
    cell.nodes[FOLLOWER].controller.delete_topic("a", lambda outcome: None)
    assert flags(client) == [ConsumeFlag.UNKNOWN_PARTITION]


def test_a_follower_serves_itself_where_it_would_forward(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, forwarding=ForwardingPolicy.ALWAYS)
    cell.create(flush="replicated", partitions=2)
    cell.change(1, leader=FOLLOWER)
    cell.run(300)
    write(cell, 1)
    cell.run(300)
    client = cell.nodes[FOLLOWER].client()
    consume(client, 1)
    assert [answer.high_water_mark for answer in answers(client)] == [1], "before anything could travel"
    consume(client, 99)
    assert answers(client) == []
    cell.run(300)
    assert flags(client) == [ConsumeFlag.OUT_OF_BOUNDS], "its leader has said so"
    cell.close()
