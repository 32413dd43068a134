"""Reads while leaders move and connections break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import NO_LEADER
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.strategy import StoredStrategy
from tank_protos.generated.tank import FetchedBatch, FetchStoredResponse
from tank_protos.wire.framing import frame
from tests.node.stored.stored_cell import StoredClient, cell_of, line_pipe, replica, values_of
from tests.support.nodes.broker_cell import BrokerCell

NUMBER = StoredStrategy.NUMBER


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; the first one leads and has one message."""
    cell = cell_of(tmp_path)
    StoredClient(cell.nodes[1]).append(b"x")
    cell.run(300)
    yield cell
    cell.close()


@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_read_waits_for_a_leader_and_gives_up(cell: BrokerCell, broker_id: int) -> None:
    cell.change(0, leader=NO_LEADER)
    client = StoredClient(cell.nodes[broker_id])
    client.fetch()
    cell.run(2_000)
    assert not client.fetched
    cell.change(0, leader=3)
    cell.run(500)
    assert [values_of(found) for found in client.fetched] == [[b"x"]]
    cell.change(0, leader=NO_LEADER)
    client.fetch()
    cell.run(5_200)
    assert [found.outcome for found in client.fetched] == [StoredOutcome.DONE, StoredOutcome.NO_LEADER]


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_waiting_read_follows_the_leader(cell: BrokerCell, broker_id: int) -> None:
    client = StoredClient(cell.nodes[broker_id])
    client.fetch(NUMBER, 2, wait_ms=20_000)
    cell.run(1_000)
    cell.change(0, leader=3)
    cell.run(1_000)
    assert not client.fetched
    StoredClient(cell.nodes[2]).append(b"y")
    cell.run(500)
    assert [values_of(found) for found in client.fetched] == [[b"y"]]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_wait_that_moves_ends_when_it_was_to_end(cell: BrokerCell, broker_id: int) -> None:
    client = StoredClient(cell.nodes[broker_id])
    client.fetch(NUMBER, 2, wait_ms=2_000)
    cell.run(1_000)
    cell.change(0, leader=3)
    cell.run(800)
    assert not client.fetched
    cell.run(400)
    assert [(found.outcome, list(found.batches)) for found in client.fetched] == [(StoredOutcome.DONE, [])]


def test_a_read_behind_which_the_connection_breaks_is_made_anew(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    assert values_of(client.now_fetched()) == [b"x"]
    near, _ = line_pipe(cell.nodes[2], 1)
    client.fetch()
    near.close()
    cell.run(1_000)
    assert [values_of(found) for found in client.fetched] == [[b"x"]]


@pytest.mark.parametrize("broker_id", [2, 3])
def test_a_new_leader_that_does_not_know_its_end_tells_none(cell: BrokerCell, broker_id: int) -> None:
    """Its mark may be below one that an earlier leader has shown."""
    for other in (2, 3):
        assert replica(cell.nodes[other]).log.written == 1
    cell.disconnect(3, 1)
    cell.disconnect(3, 2)
    if broker_id == 2:
        cell.cut -= {(2, 3)}  # it can ask, and gets no pushes
    cell.judge = lambda node: None
    node = cell.nodes[3]
    replica(node).high_water_mark = 0  # as it is when the leader dies before it has told its mark
    cell.change(0, leader=3)
    assert not replica(node).end_known
    client = StoredClient(cell.nodes[broker_id])
    client.fetch(NUMBER, 2)
    client.fetch(StoredStrategy.LAST)
    cell.run(1_000)
    assert not client.fetched
    cell.connect(3, 1)
    cell.connect(3, 2)
    cell.run(3_000)
    assert [(found.mark, values_of(found)) for found in client.fetched] == [(1, []), (1, [b"x"])]


@pytest.mark.parametrize(
    "answer",
    [
        FetchStoredResponse(0, 0, 0, 1, 1, 1, 2, [FetchedBatch(1, 1, 5, 3)], b"xx"),
        FetchStoredResponse(0, 0, 0, 1, 1, 1, 2, [FetchedBatch(1, 1, 5, 1)], b"xx"),
        FetchStoredResponse(0, 0, 9, 1, 1, 1, 2, [], b""),
        FetchStoredResponse(0, 0x77, 0, 1, 1, 1, 2, [], b""),
    ],
    ids=["too few bytes", "too many bytes", "an unknown format", "an unknown error"],
)
def test_an_answer_that_is_none_closes_the_connection(cell: BrokerCell, answer: FetchStoredResponse) -> None:
    client = StoredClient(cell.nodes[2])
    assert values_of(client.now_fetched()) == [b"x"]
    near, _ = line_pipe(cell.nodes[2], 1)
    client.fetch()
    near.send()
    answer.request_id = 2
    near.received += b"".join(frame(answer.ID, answer.encode()))
    near.receive()
    assert near.closed
    assert [error.reason for error in cell.nodes[2].refused] == ["unexpected_answer"]
    cell.run(1_000)
    assert [values_of(found) for found in client.fetched] == [[b"x"]]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_damage_is_told(cell: BrokerCell, broker_id: int) -> None:
    node = cell.nodes[1]
    node.broker.begin_tick()
    replica(node).log.damage("bits have rotted")
    replica(node).note_state()
    client = StoredClient(cell.nodes[broker_id])
    client.fetch()
    client.append(b"y")
    cell.run(400)
    assert [found.outcome for found in client.fetched] == [StoredOutcome.STORAGE]
    assert [result.outcome for result in client.appended] == [StoredOutcome.STORAGE]
