"""What a read of stored batches begins with and brings: on the leader's log, through the room's own door."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tank_node.limits import MIB, Limits
from tank_node.log.cleaning.maintenance import maintain
from tank_node.stored.leader import reading
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Place
from tank_node.stored.strategy import StoredStrategy
from tests.node.stored.stored_cell import (
    KAFKA_PLACE,
    PLACE,
    StoredClient,
    cell_of,
    numbers_of,
    replica,
    values_of,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell

NUMBER, TIME, FIRST, LAST = (
    StoredStrategy.NUMBER,
    StoredStrategy.TIME,
    StoredStrategy.FIRST,
    StoredStrategy.LAST,
)
BOTH_FORMATS = pytest.mark.parametrize("place", [PLACE, KAFKA_PLACE], ids=["bundles", "record batches"])


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """One broker alone."""
    cell = cell_of(tmp_path, 1)
    yield cell
    cell.close()


@pytest.fixture(params=["at the leader", "through another broker"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredClient]:
    """A session of broker 1, which leads, or of broker 2."""
    cell = cell_of(tmp_path, 2)
    yield StoredClient(cell.nodes[1 if request.param == "at the leader" else 2])
    cell.close()


def fill(client: StoredClient, place: Place, batches: int = 10, rolls: int = 3) -> list[bytes]:
    """Batches of two messages each, ten milliseconds apart; a new segment after every few."""
    cell, values = client.node.cell, []
    for number in range(batches):
        pair = [b"%d" % (2 * number + 1), b"%d" % (2 * number + 2)]
        values += pair
        client.append(*pair, place=place)
        cell.run(250)
        if number % rolls == rolls - 1:
            replica(cell.nodes[1], place).log.roll()
    assert [result.outcome for result in client.appended] == [StoredOutcome.DONE] * batches
    client.appended.clear()
    return values


@BOTH_FORMATS
def test_each_strategy_begins_where_it_says(client: StoredClient, place: Place) -> None:
    values = fill(client, place)
    log = replica(client.node.cell.nodes[1], place).log
    assert len(log.segments) > 3
    for number in (0, 1, 2, 3, 7, 19, 20):
        found = client.now_fetched(NUMBER, number, place=place)
        assert values_of(found) == values[max(number - 1, 0) :]
        assert (found.start, found.mark, found.log_start) == (max(number, 1), 20, 1)
        assert found.is_bundles is (place == PLACE)
    assert values_of(client.now_fetched(FIRST, place=place)) == values
    for count in (1, 2, 3, 13, 20, 99):
        assert values_of(client.now_fetched(LAST, count=count, place=place)) == values[-count:]
    times = [record.append_ms for segment in log.segments for record in segment.index.records()]
    assert times == sorted(set(times)), "each batch has its own"
    for place_in_log, time in enumerate(times):
        for micros, skipped in ((time * 1000 - 999, 0), (time * 1000, 0), (time * 1000 + 1, 1)):
            found = client.now_fetched(TIME, micros, place=place)
            assert values_of(found) == values[2 * (place_in_log + skipped) :]


@BOTH_FORMATS
def test_the_wanted_count_ends_with_the_batch_that_has_it(client: StoredClient, place: Place) -> None:
    fill(client, place)
    expected = {1: 1, 2: 1, 3: 2, 12: 6, 20: 10, 21: 10, 2**32 - 1: 10}
    assert {
        count: len(client.now_fetched(FIRST, count=count, place=place).batches) for count in expected
    } == expected
    found = client.now_fetched(NUMBER, 2, count=2, place=place)
    assert [batch.first for batch in found.batches] == [1, 3], "one message of each is wanted"
    assert found.next == 5
    assert [(batch.messages, batch.append_ms > 0) for batch in found.batches] == [(2, True)] * 2
    assert not client.now_fetched(FIRST, count=0, place=place).batches


@BOTH_FORMATS
def test_the_bytes_are_bounded_but_for_one_batch(client: StoredClient, place: Place) -> None:
    fill(client, place)
    whole = client.now_fetched(FIRST, place=place)
    sizes = [len(batch.data) for batch in whole.batches]
    for count in range(1, 10):
        for spare in (0, 1):
            found = client.now_fetched(FIRST, max_bytes=sum(sizes[:count]) + spare, place=place)
            assert [len(batch.data) for batch in found.batches] == sizes[:count]
            assert found.next == 2 * count + 1
    assert len(client.now_fetched(FIRST, max_bytes=1, place=place).batches) == 1
    found = client.now_fetched(LAST, count=20, max_bytes=sum(sizes[-3:]), place=place)
    assert numbers_of(found) == [15, 16, 17, 18, 19, 20], "the newest ones, not the first of the newest"


def test_the_limit_bounds_what_a_client_asks_for(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, 2, Limits(iggy_poll_bytes=3000))
    for broker_id in (2, 1):
        client = StoredClient(cell.nodes[broker_id])
        client.append_bytes(batch_of(Random(broker_id).randbytes(1200)))
        client.append_bytes(batch_of(Random(broker_id).randbytes(1200)))
        cell.run(1_000)
        assert len(client.now_fetched(FIRST, max_bytes=100 * MIB).batches) == 2
        assert len(client.now_fetched(FIRST).batches) == 2
    cell.close()


def test_an_answer_has_so_many_batches_at_most(client: StoredClient, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(client, PLACE)
    monkeypatch.setattr(reading, "STORED_BATCHES", 4)
    assert numbers_of(client.now_fetched(FIRST)) == [1, 2, 3, 4, 5, 6, 7, 8]


@BOTH_FORMATS
def test_an_empty_log_has_nothing_for_any_strategy(client: StoredClient, place: Place) -> None:
    for strategy, value in ((NUMBER, 0), (NUMBER, 5), (TIME, 0), (TIME, 2**64 - 1), (FIRST, 0), (LAST, 0)):
        found = client.now_fetched(strategy, value, place=place)
        assert (found.outcome, list(found.batches)) == (StoredOutcome.DONE, [])
        assert (found.mark, found.log_start) == (0, 1)


@BOTH_FORMATS
def test_beyond_the_end_there_is_nothing(client: StoredClient, place: Place) -> None:
    fill(client, place)
    for strategy, value in ((NUMBER, 21), (NUMBER, 2**64 - 1), (TIME, 2**64 - 1)):
        found = client.now_fetched(strategy, value, place=place)
        assert (found.outcome, list(found.batches), found.mark) == (StoredOutcome.DONE, [], 20)


@BOTH_FORMATS
def test_what_retention_took_is_passed_over(client: StoredClient, place: Place) -> None:
    values = fill(client, place)
    partition = replica(client.node.cell.nodes[1], place)
    partition.start.raise_to(8, partition.leadership)  # within a batch
    for strategy, value in ((NUMBER, 0), (NUMBER, 3), (NUMBER, 8), (TIME, 0), (FIRST, 0)):
        found = client.now_fetched(strategy, value, place=place)
        assert values_of(found) == values[7:], strategy
        assert (found.start, found.log_start) == (8, 8)
    assert values_of(client.now_fetched(LAST, count=50, place=place)) == values[7:]
    partition.start.raise_to(21, partition.leadership)
    for strategy in (NUMBER, TIME, FIRST, LAST):
        found = client.now_fetched(strategy, place=place)
        assert (list(found.batches), found.log_start, found.mark) == ([], 21, 20)


def test_nothing_above_the_high_water_mark_is_read(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, 3)
    client = StoredClient(cell.nodes[1])
    client.append(b"a", b"b")
    cell.run(300)
    written_ms = cell.clock.now_ms()
    for other in (2, 3):
        cell.disconnect(1, other)
    cell.judge = lambda node: None
    client.append(b"c", b"d")
    cell.run(200)
    assert replica(cell.nodes[1]).log.written == 4
    for strategy, value in ((FIRST, 0), (LAST, 0), (NUMBER, 1), (TIME, 0)):
        found = client.now_fetched(strategy, value)
        assert (numbers_of(found), found.mark) == ([1, 2], 2)
    assert not client.now_fetched(TIME, written_ms * 1000).batches
    assert not client.now_fetched(NUMBER, 3).batches
    cell.close()


def test_where_compaction_has_left_holes_a_read_goes_on_behind_them(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 1)
    cell.create("a", flush="replicated", log_cleanup_policy="cleanup")
    client = StoredClient(cell.nodes[1])
    partition = replica(cell.nodes[1])
    from tank_protos import bundle

    for values, keys in (
        ([b"one", b"old", b"older"], [None, b"k", b"k"]),
        ([b"old"], [b"k"]),
        ([b"five", b"new"], [None, b"k"]),
    ):
        made = bundle.as_batch(bundle.encode(values, timestamps=1, keys=keys))
        client.append_bytes(made)
    cell.run(200)
    log = partition.log
    log.apply_settings(log.settings.__class__(compact=True, min_cleanable_ratio=0.0))
    log.roll()
    log.flush()
    maintain(log, cell.clock.now_ms() + 10**9, partition.high_water_mark)
    for number, expected in ((0, [1, 5, 6]), (1, [1, 5, 6]), (2, [5, 6]), (4, [5, 6]), (6, [6])):
        found = client.now_fetched(NUMBER, number)
        assert numbers_of(found) == expected, number
        assert found.next == 7
    assert [numbers_of(client.now_fetched(LAST, count=count)) for count in (1, 2, 3, 4)] == [
        [6], [5, 6], [1, 5, 6], [1, 5, 6],
    ]  # fmt: skip
    cell.close()


# --- waiting -------------------------------------------------------------------------------------


@BOTH_FORMATS
def test_an_empty_read_waits_for_messages(client: StoredClient, place: Place) -> None:
    client.fetch(NUMBER, 1, wait_ms=5_000, place=place)
    cell = client.node.cell
    cell.run(1_000)
    assert not client.fetched
    client.append(b"now", place=place)
    cell.run(300)
    assert [values_of(found) for found in client.fetched] == [[b"now"]]


def test_a_wait_ends_in_time_without_messages(client: StoredClient) -> None:
    client.fetch(NUMBER, 1, wait_ms=1_000)
    client.node.cell.run(900)
    assert not client.fetched
    client.node.cell.run(300)
    assert [(found.outcome, list(found.batches)) for found in client.fetched] == [(StoredOutcome.DONE, [])]
    client.append(b"late")
    client.node.cell.run(300)
    assert len(client.fetched) == 1
    for node in client.node.cell.nodes.values():
        assert node.broker.deadlines.entries == 0


def test_a_wait_for_a_far_number_goes_on_while_others_come(client: StoredClient) -> None:
    client.fetch(NUMBER, 3, wait_ms=5_000)
    for value in (b"1", b"2"):
        client.append(value)
        client.node.cell.run(200)
        assert not client.fetched
    client.append(b"3")
    client.node.cell.run(200)
    assert [values_of(found) for found in client.fetched] == [[b"3"]]


def test_too_many_waits_are_answered_at_once(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, 1, Limits(waits_per_partition=2))
    client = StoredClient(cell.nodes[1])
    for _ in range(3):
        client.fetch(NUMBER, 1, wait_ms=5_000)
    assert len(client.fetched) == 1
    assert cell.nodes[1].metrics.refused["too_many_waits"] == 1
    cell.close()


def test_nobody_is_told_who_has_gone(client: StoredClient) -> None:
    client.fetch(NUMBER, 1, wait_ms=5_000)
    client.node.cell.run(100)
    client.session.close()
    other = StoredClient(client.node)
    other.append(b"x")
    client.node.cell.run(300)
    assert not client.fetched
    for node in client.node.cell.nodes.values():
        assert node.broker.deadlines.entries == 0
