"""Flushes, deleted segments and sizes, at leaders anywhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import NO_LEADER
from tank_node.stored.leader.deletion import start_without_oldest
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import PartitionExtent, Place
from tank_node.stored.stored_partitions import stored_partitions
from tank_protos.feature_levels import IGGY
from tests.node.stored.stored_cell import (
    KAFKA_PLACE,
    PLACE,
    StoredClient,
    cell_of,
    line_pipe,
    replica,
    told_outcomes,
)
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.storage.logs import Folder, append

DONE = StoredOutcome.DONE
ANYWHERE = pytest.mark.parametrize("broker_id", [1, 2], ids=["at the leader", "through another broker"])


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; the first one leads."""
    cell = cell_of(tmp_path)
    yield cell
    cell.close()


# --- flush ---------------------------------------------------------------------------------------


@ANYWHERE
def test_a_flush_is_done_when_disk_and_replicas_have_all(cell: BrokerCell, broker_id: int) -> None:
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    client.append(b"y")
    cell.run(300)
    log = replica(cell.nodes[1]).log
    assert log.synced < 2, "flush=replicated"
    client.flush()
    cell.run(300)
    assert client.outcomes == [DONE]
    assert log.synced == 2


def test_a_flush_has_what_was_staged_before_it_in_the_same_tick(cell: BrokerCell) -> None:
    node = cell.nodes[1]
    client = StoredClient(node)
    stored = stored_partitions(node.broker)
    from tests.support.clients.produce import batch_of

    node.broker.begin_tick()
    batch = memoryview(bytearray(batch_of(b"x")))
    stored.append(PLACE, batch, client.session, client.appended.append)
    stored.flush(PLACE, client.session, client.outcomes.append)
    node.broker.end_tick()
    assert not client.outcomes
    cell.run(300)
    assert client.outcomes == [DONE]
    assert replica(node).log.synced == 1


@ANYWHERE
def test_a_flush_waits_for_the_replicas(cell: BrokerCell, broker_id: int) -> None:
    cell.judge = lambda node: None
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(300)
    cell.disconnect(1, 3)
    client.append(b"y")
    client.flush()
    cell.run(1_000)
    assert not client.outcomes
    assert replica(cell.nodes[1]).log.synced == 2
    cell.connect(1, 3)
    cell.run(2_000)
    assert client.outcomes == [DONE]


@ANYWHERE
def test_a_flush_that_nobody_waits_for_is_answered_at_once(cell: BrokerCell, broker_id: int) -> None:
    cell.judge = lambda node: None
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(300)
    cell.disconnect(1, 3)
    client.append(b"y")
    client.flush(waits=False)
    cell.run(300)
    assert client.outcomes == [DONE]
    assert replica(cell.nodes[1]).log.synced == 2


@ANYWHERE
def test_an_empty_partition_is_flushed(cell: BrokerCell, broker_id: int) -> None:
    client = StoredClient(cell.nodes[broker_id])
    client.flush()
    cell.run(300)
    assert client.outcomes == [DONE]


@ANYWHERE
def test_a_flush_that_takes_too_long_may_be_done(cell: BrokerCell, broker_id: int) -> None:
    cell.judge = lambda node: None
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(300)
    cell.disconnect(1, 3)
    client.append(b"y")
    client.flush()
    cell.run(8_500)
    assert client.outcomes == [StoredOutcome.MAYBE_STORED]
    for node in cell.nodes.values():
        assert node.broker.deadlines.entries == 0


@ANYWHERE
def test_a_disk_that_fails_is_told(cell: BrokerCell, broker_id: int) -> None:
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(300)
    node = cell.nodes[1]
    node.broker.begin_tick()
    replica(node).log.fail("the disk says no")
    replica(node).note_state()
    client.flush()
    client.delete_segments(1)
    cell.run(300)
    assert client.outcomes == [StoredOutcome.STORAGE] * 2


# --- segments ------------------------------------------------------------------------------------


def rolled(cell: BrokerCell, place: Place = PLACE, segments: int = 5) -> None:
    """Segments of two messages each; the active one is empty."""
    client = StoredClient(cell.nodes[1])
    for _ in range(segments - 1):
        client.append(b"x", b"y", place=place)
        cell.run(200)
        for node in cell.nodes.values():
            replica(node, place).log.roll()
    assert [len(replica(node, place).log.segments) for node in cell.nodes.values()] == [segments] * 3


@ANYWHERE
@pytest.mark.parametrize("place", [PLACE, KAFKA_PLACE], ids=["bundles", "record batches"])
def test_the_oldest_sealed_segments_go_from_all_replicas(
    cell: BrokerCell, broker_id: int, place: Place
) -> None:
    rolled(cell, place)
    client = StoredClient(cell.nodes[broker_id])
    client.delete_segments(2, place)
    assert told_outcomes(client, 1) == [DONE]
    for node in cell.nodes.values():
        log = replica(node, place).log
        assert (log.first_available, len(log.segments)) == (5, 3)
    assert client.now_fetched(place=place).start == 5
    client.delete_segments(0, place)
    client.delete_segments(2**32 - 1, place)
    assert told_outcomes(client, 3) == [DONE] * 3
    assert [replica(node, place).log.first_available for node in cell.nodes.values()] == [9] * 3
    client.append(b"z", place=place)
    cell.run(300)
    assert client.appended[-1].first == 9, "numbers go on"


def test_only_sealed_segments_at_or_below_the_mark_go() -> None:
    log = Folder().log()
    for _ in range(3):
        append(log, b"a", b"b")
        log.roll()
    append(log, b"c")
    found = {
        (count, mark): start_without_oldest(log, count, mark)
        for count in (0, 1, 2, 9)
        for mark in (0, 1, 2, 5, 6, 7)
    }
    one, two, three = 3, 5, 7
    assert [found[0, mark] for mark in (0, 7)] == [1, 1]
    assert [found[1, mark] for mark in (0, 1, 2, 7)] == [1, 1, one, one]
    assert [found[2, mark] for mark in (1, 2, 5, 7)] == [1, one, two, two]
    assert [found[9, mark] for mark in (2, 5, 6, 7)] == [one, two, three, three]


def test_an_empty_log_has_no_segments_to_delete(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    client.delete_segments(3)
    cell.run(300)
    assert client.outcomes == [DONE]


@ANYWHERE
def test_a_deletion_is_answered_when_the_in_sync_followers_have_it(cell: BrokerCell, broker_id: int) -> None:
    rolled(cell)
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    client = StoredClient(cell.nodes[broker_id])
    client.delete_segments(1)
    cell.run(1_500)
    assert not client.outcomes
    cell.connect(1, 3)
    assert told_outcomes(client, 1) == [DONE]
    assert replica(cell.nodes[3]).log.first_available == 3


def test_a_topic_that_keeps_the_newest_of_each_key_keeps_its_segments(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, 2)
    cell.create("c", log_cleanup_policy="cleanup")
    cell.run(100)
    client = StoredClient(cell.nodes[2])
    client.delete_segments(1, (12, 0))
    cell.run(300)
    assert client.outcomes == [StoredOutcome.REFUSED]
    cell.close()


@pytest.mark.parametrize("what", ["flush", "delete_segments"])
def test_a_request_behind_which_the_connection_breaks_has_an_unknown_outcome(
    cell: BrokerCell, what: str
) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"x")
    cell.run(300)
    near, _ = line_pipe(cell.nodes[2], 1)
    if what == "flush":
        client.flush()
    else:
        client.delete_segments(1)
    near.close()
    cell.run(1_000)
    assert client.outcomes == [StoredOutcome.MAYBE_STORED]


@ANYWHERE
def test_requests_wait_for_a_leader(cell: BrokerCell, broker_id: int) -> None:
    cell.change(0, leader=NO_LEADER)
    client = StoredClient(cell.nodes[broker_id])
    client.flush()
    client.delete_segments(1)
    cell.run(1_000)
    assert not client.outcomes
    cell.change(0, leader=3)
    cell.run(1_000)
    assert told_outcomes(client, 2) == [DONE, DONE]
    client.flush(place=(99, 0))
    client.flush(place=(10, 7))
    assert client.outcomes[2:] == [StoredOutcome.UNKNOWN_TOPIC, StoredOutcome.UNKNOWN_PARTITION]


# --- sizes ---------------------------------------------------------------------------------------


def sizes(client: StoredClient, *places: Place, run_ms: int = 300) -> dict[Place, PartitionExtent]:
    found: list[dict[Place, PartitionExtent]] = []
    broker = client.node.broker
    broker.begin_tick()
    stored_partitions(broker).sizes(places, client.session, lambda told: found.append(dict(told)))
    broker.end_tick()
    client.node.cell.run(run_ms)
    (told,) = found
    return told


@pytest.fixture
def spread(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; each leads one partition of topic 10."""
    cell = BrokerCell(tmp_path, 3)
    for node in cell.nodes.values():
        node.controller.view.feature_level = IGGY
    cell.create("a", partitions=4, flush="replicated")
    for number in (1, 2):
        cell.change(number, leader=number + 1)
    cell.run(300)
    yield cell
    cell.close()


def test_sizes_come_from_all_leaders(spread: BrokerCell) -> None:
    client = StoredClient(spread.nodes[2])
    for number in range(3):
        for _ in range(number + 1):
            client.append(b"x", b"y", place=(10, number))
    spread.run(500)
    spread.change(3, leader=NO_LEADER)
    found = sizes(client, *[(10, number) for number in range(6)], (99, 0))
    assert found.keys() == {(10, 0), (10, 1), (10, 2)}
    for number in range(3):
        log = replica(spread.nodes[number + 1], (10, number)).log
        assert found[10, number] == PartitionExtent(1, 2 * number + 2, log.size_bytes, 1)
        assert found[10, number].messages == 2 * number + 2


def test_sizes_of_empty_and_emptied_partitions(spread: BrokerCell) -> None:
    client = StoredClient(spread.nodes[1])
    client.append(b"x", b"y", place=(10, 1))
    spread.run(300)
    partition = replica(spread.nodes[2], (10, 1))
    partition.start.raise_to(3, partition.leadership)
    found = sizes(client, (10, 0), (10, 1))
    assert (found[10, 0], found[10, 0].messages) == (PartitionExtent(1, 0, 0, 0), 0)
    assert (found[10, 1].first, found[10, 1].mark, found[10, 1].messages) == (3, 2, 0)


def test_sizes_are_a_second_old_at_most(spread: BrokerCell) -> None:
    client = StoredClient(spread.nodes[1])
    assert sizes(client, (10, 1))[10, 1].messages == 0
    client.append(b"x", place=(10, 1))
    spread.run(300)
    forwarded = spread.nodes[1].metrics.forwarded.copy()
    assert sizes(client, (10, 1), run_ms=0)[10, 1].messages == 0, "as it was told before"
    assert spread.nodes[1].metrics.forwarded == forwarded
    spread.run(1_000)
    assert sizes(client, (10, 1))[10, 1].messages == 1


def test_the_sizes_of_the_brokers_own_partitions_are_those_of_now(spread: BrokerCell) -> None:
    client = StoredClient(spread.nodes[1])
    assert sizes(client, (10, 0), (10, 1))[10, 0].messages == 0
    client.append(b"x", place=(10, 0))
    client.append(b"x", place=(10, 1))
    spread.run(300)
    found = sizes(client, (10, 0), (10, 1), run_ms=0)
    assert (found[10, 0].messages, found[10, 1].messages) == (1, 0)


def test_a_leader_that_does_not_answer_is_left_out(spread: BrokerCell) -> None:
    client = StoredClient(spread.nodes[1])
    assert len(sizes(client, (10, 0), (10, 1), (10, 2))) == 3
    spread.run(2_000)
    near, _ = line_pipe(spread.nodes[1], 2)
    near.other = None  # what it sends is lost
    found = sizes(client, (10, 0), (10, 1), (10, 2), run_ms=3_000)
    assert found.keys() == {(10, 0), (10, 2)}


def test_many_partitions_are_asked_for_in_parts(spread: BrokerCell, monkeypatch: pytest.MonkeyPatch) -> None:
    from tank_node.stored import sizes_call
    from tank_node.tank import stored

    monkeypatch.setattr(sizes_call, "SIZED_PARTITIONS", 1)
    monkeypatch.setattr(stored, "SIZED_PARTITIONS", 1)
    spread.change(3, leader=2)
    spread.run(300)
    client = StoredClient(spread.nodes[1])
    assert len(sizes(client, (10, 1), (10, 2), (10, 3))) == 3
    assert sum(spread.nodes[1].metrics.forwarded[89, outcome] for outcome in ("ok",)) == 3
