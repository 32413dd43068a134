"""Appends of sessions, wherever the partition is led: once at most, in order, and answered when they are
committed."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tank_node.cluster.view import NO_LEADER, ChangeKind
from tank_node.limits import KIB, Limits
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Appended, Place
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.tank import AppendStoredResponse
from tank_protos.kafka import record_batch
from tank_protos.wire.framing import frame
from tests.node.stored.stored_cell import (
    KAFKA_PLACE,
    PLACE,
    StoredClient,
    cell_of,
    line_pipe,
    numbers_of,
    outcomes,
    records_of,
    replica,
    stored_values,
    values_of,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell

DONE, NOWHERE, MAYBE = StoredOutcome.DONE, StoredOutcome.NO_LEADER, StoredOutcome.MAYBE_STORED
BOTH_FORMATS = pytest.mark.parametrize("place", [PLACE, KAFKA_PLACE], ids=["bundles", "record batches"])


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; the first one leads."""
    cell = cell_of(tmp_path)
    yield cell
    cell.close()


@BOTH_FORMATS
def test_any_broker_appends_and_tells_the_numbers(cell: BrokerCell, place: Place) -> None:
    for number, broker_id in enumerate((1, 2, 3, 2)):
        client = StoredClient(cell.nodes[broker_id])
        client.append(b"%d" % number, b"again", place=place)
        cell.run(300)
        assert client.appended == [Appended(DONE, 2 * number + 1, 2 * number + 2)]
    expected = [each for number in range(4) for each in (b"%d" % number, b"again")]
    for node in cell.nodes.values():
        cell.run(300)
        assert stored_values(node, place) == expected


def test_a_stored_record_batch_is_one_as_kafkas_clients_leave_it(cell: BrokerCell) -> None:
    """Its offset and leader epoch are written at the leader, and its checksum holds."""
    cell.change(0, "k", leader_epoch=7)
    cell.run(300)
    for broker_id in (1, 2):
        StoredClient(cell.nodes[broker_id]).append(b"a", b"b", place=KAFKA_PLACE)
        cell.run(300)
    found = StoredClient(cell.nodes[3]).now_fetched(place=KAFKA_PLACE)
    headers = [record_batch.verify(memoryview(batch.data)) for batch in found.batches]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 7), (2, 7)]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_an_append_is_answered_when_the_high_water_mark_has_passed_it(
    cell: BrokerCell, broker_id: int
) -> None:
    cell.judge = lambda node: None
    for other in (2, 3):  # the leader's pushes go to both
        cell.disconnect(1, other)
    if broker_id == 2:
        cell.connect(1, 2)
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(2_000)
    assert not client.appended, "one follower lacks it"
    assert replica(cell.nodes[1]).log.written == 1
    for other in (2, 3):
        cell.connect(1, other)
    cell.run(2_000)
    assert client.appended == [Appended(DONE, 1, 1)]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_what_is_not_acknowledged_in_time_may_be_stored(tmp_path: Path, broker_id: int) -> None:
    cell = cell_of(tmp_path)
    cell.judge = lambda node: None
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"first")
    cell.run(300)
    cell.disconnect(1, 3)
    client.append(b"x", timeout_ms=1_000)
    for _ in range(40):
        cell.run(50)
        for node in cell.nodes.values():
            node.broker.begin_tick()
            node.broker.give_up_late()
    assert outcomes(client) == [DONE, MAYBE]
    cell.connect(1, 3)
    cell.run(3_000)
    assert stored_values(cell.nodes[2]) == [b"first", b"x"]
    assert outcomes(client) == [DONE, MAYBE]
    cell.close()


@pytest.mark.parametrize("broker_id", [1, 2])
def test_with_too_few_in_sync_nothing_is_stored(tmp_path: Path, broker_id: int) -> None:
    cell = cell_of(tmp_path, min_insync=2)
    cell.change(0, in_sync=(1,))
    cell.run(100)
    cell.judge = lambda node: None
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(300)
    assert client.appended == [Appended(StoredOutcome.TOO_FEW_IN_SYNC)]
    assert replica(cell.nodes[1]).log.last == 0
    cell.close()


@pytest.mark.parametrize("broker_id", [1, 2])
def test_batches_that_the_topic_does_not_take_are_refused(tmp_path: Path, broker_id: int) -> None:
    cell = cell_of(tmp_path, 2, Limits(bundle_bytes=100 * KIB))
    client = StoredClient(cell.nodes[broker_id])
    good = records_of(b"x")
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    client.append_bytes(b"\5abc", PLACE)
    client.append_bytes(batch_of(b"x"), KAFKA_PLACE)
    client.append_bytes(flipped, KAFKA_PLACE)
    client.append_bytes(b"", KAFKA_PLACE)
    client.append_bytes(b"", PLACE)
    noise = Random(7).randbytes(101 * KIB)
    client.append_bytes(records_of(noise), KAFKA_PLACE)
    client.append_bytes(batch_of(noise), PLACE)
    cell.run(1_500)
    refused, large = StoredOutcome.REFUSED, StoredOutcome.TOO_LARGE
    assert sorted(outcomes(client)) == sorted([refused] * 5 + [large] * 2), "one by one in each partition"
    assert not any(replica(cell.nodes[1], place).log.last for place in (PLACE, KAFKA_PLACE))
    cell.close()


def test_a_topic_or_partition_that_is_not_there_is_told_at_once(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"x", place=(99, 0))
    client.append(b"x", place=(10, 1))
    assert outcomes(client) == [StoredOutcome.UNKNOWN_TOPIC, StoredOutcome.UNKNOWN_PARTITION]


def test_a_topic_made_anew_under_its_name_is_another_one(cell: BrokerCell) -> None:
    """As a purge makes it: what was meant for the old one never reaches the new one."""
    client = StoredClient(cell.nodes[2])
    client.append(b"old")
    cell.run(300)
    old = cell.topics.pop("a")
    cell.create("b", flush="replicated")  # takes a number
    for node in cell.nodes.values():
        node.controller.publish(ChangeKind.DELETED, old)
    cell.create("a", flush="replicated")
    cell.run(300)
    client.append(b"x")
    client.fetch()
    cell.run(300)
    assert outcomes(client) == [DONE, StoredOutcome.UNKNOWN_TOPIC]
    assert [found.outcome for found in client.fetched] == [StoredOutcome.UNKNOWN_TOPIC]
    assert not stored_values(cell.nodes[1], (cell.topics["a"].topic_id, 0))


# --- leaders that move ---------------------------------------------------------------------------


@pytest.mark.parametrize("broker_id", [1, 2])
def test_an_append_waits_for_a_leader(cell: BrokerCell, broker_id: int) -> None:
    cell.change(0, leader=NO_LEADER)
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(4_000)
    assert not client.appended
    cell.change(0, leader=3)
    cell.run(500)
    assert client.appended == [Appended(DONE, 1, 1)]


@pytest.mark.parametrize("broker_id", [1, 2])
def test_an_append_that_no_leader_took_in_time_is_not_stored(cell: BrokerCell, broker_id: int) -> None:
    cell.change(0, leader=NO_LEADER)
    client = StoredClient(cell.nodes[broker_id])
    client.append(b"x")
    cell.run(4_900)
    assert not client.appended
    cell.run(300)
    assert client.appended == [Appended(NOWHERE)]
    cell.change(0, leader=3)
    cell.run(1_000)
    assert replica(cell.nodes[3]).log.last == 0
    client.append(b"y")
    cell.run(300)
    assert outcomes(client) == [NOWHERE, DONE]


def test_a_leader_that_has_just_lost_the_lead_stores_nothing_and_the_next_one_does(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    cell.change(0, brokers=(1, 3), leader=3)  # broker 2 has not heard of it
    client.append(b"x")
    cell.run(400)
    assert not client.appended
    view = cell.topics["a"]
    cell.publish(view, (2,))
    cell.run(300)
    assert client.appended == [Appended(DONE, 1, 1)]
    for node in cell.nodes.values():
        assert stored_values(node) == [b"x"]


def test_a_leader_that_has_not_heard_of_its_lead_is_asked_again(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    cell.change(0, brokers=(1, 2), leader=3)
    client.append(b"x")
    cell.run(1_000)
    assert not client.appended
    cell.publish(cell.topics["a"], (3,))
    cell.run(500)
    assert client.appended == [Appended(DONE, 1, 1)]


def test_a_lead_that_comes_to_the_own_broker_takes_what_waited(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    cell.change(0, leader=NO_LEADER)
    for value in (b"1", b"2", b"3"):
        client.append(value)
    cell.run(200)
    cell.change(0, leader=2)
    cell.run(500)
    assert client.appended == [Appended(DONE, n, n) for n in (1, 2, 3)]
    assert stored_values(cell.nodes[2]) == [b"1", b"2", b"3"]


def test_staged_appends_of_a_leader_that_is_none_any_more_go_to_the_next_one_in_order(
    cell: BrokerCell,
) -> None:
    """The view changes within a tick: what was staged is dropped, and was stored nowhere."""
    node = cell.nodes[1]
    client = StoredClient(node)
    from tank_node.stored.stored_partitions import stored_partitions

    def append(value: bytes) -> None:
        stored = stored_partitions(node.broker)
        buffer = memoryview(bytearray(batch_of(value)))
        stored.append(PLACE, buffer, client.session, lambda result: told.append((value, result)))

    told: list[tuple[bytes, Appended]] = []
    node.broker.begin_tick()
    append(b"1")
    append(b"2")
    cell.change(0, leader=3)
    append(b"3")
    node.broker.end_tick()
    assert not told
    cell.run(1_000)
    assert told == [(b"%d" % n, Appended(DONE, n, n)) for n in (1, 2, 3)]
    assert stored_values(cell.nodes[3]) == [b"1", b"2", b"3"]


def test_appends_of_a_connection_keep_their_order_over_a_change_of_leaders(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"0")
    cell.run(300)
    expected = [b"0"]
    for number in range(1, 60):
        value = b"%d" % number
        client.append(value)
        expected.append(value)
        if number % 7 == 0:
            leader = (1, 3, 2)[number % 3]
            brokers = (1, 3) if number % 2 else ()
            cell.change(0, brokers=brokers, leader=leader)
        if number % 5 == 0:
            cell.publish(cell.topics["a"])
            cell.step()
            cell.clock.pass_ms(20)
    cell.publish(cell.topics["a"])
    cell.run(4_000)
    assert client.told == [value.decode() for value in expected]
    stored = stored_values(cell.nodes[cell.topics["a"].partitions[0].leader])
    assert len(set(stored)) == len(stored), "none twice"
    assert [int(value) for value in stored] == sorted(int(value) for value in stored)
    sure = [value for value, result in zip(expected, client.appended, strict=True) if not result.outcome]
    assert sure, "most are acknowledged"
    assert set(sure) <= set(stored)
    lost = set(expected) - set(stored)
    known = {DONE, MAYBE, NOWHERE}
    assert set(outcomes(client)) <= known
    told = dict(zip(expected, outcomes(client), strict=True))
    assert all(told[value] is MAYBE or told[value] is NOWHERE for value in lost)


def test_a_thousand_appends_in_one_line_end_together(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[1])
    cell.change(0, leader=NO_LEADER)
    for number in range(3_000):
        client.append(b"%d" % number)
    cell.run(5_200)
    assert outcomes(client) == [NOWHERE] * 3_000
    cell.change(0, leader=1)
    for number in range(10):
        client.append(b"%d" % number)
    cell.run(500)
    assert outcomes(client)[3_000:] == [DONE] * 10


def test_waiting_appends_take_so_much_memory_at_most(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, 2, Limits(stored_held_bytes=2_000))
    cell.change(0, leader=NO_LEADER)
    client = StoredClient(cell.nodes[1])
    for _ in range(4):
        client.append(b"x" * 900)
    assert client.appended == [Appended(NOWHERE)]
    assert cell.nodes[1].metrics.refused["stored_full"] == 1
    cell.change(0, leader=1)
    cell.run(500)
    assert outcomes(client) == [NOWHERE, DONE, DONE, DONE]
    client.append(b"x" * 900)
    cell.run(300)
    assert outcomes(client)[4:] == [DONE]
    cell.close()


def test_what_a_client_left_behind_waiting_is_not_stored(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    cell.change(0, leader=NO_LEADER)
    client.append(b"1")
    client.append(b"2")
    client.session.close()
    cell.change(0, leader=1)
    cell.run(6_000)
    assert not client.appended
    assert not stored_values(cell.nodes[1])


# --- connections that break ----------------------------------------------------------------------


@pytest.mark.parametrize("reached", [True, False], ids=["the leader got it", "it was lost"])
def test_an_append_behind_which_the_connection_breaks_has_an_unknown_outcome(
    cell: BrokerCell, reached: bool
) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"first")
    cell.run(300)
    near, far = line_pipe(cell.nodes[2], 1)
    client.append(b"x")
    client.append(b"behind it")  # waits for the outcome of the first one
    if reached:
        near.send()
        far.receive()
    near.close()
    cell.run(1_000)
    assert outcomes(client) == [DONE, MAYBE, DONE]
    stored = stored_values(cell.nodes[1])
    assert stored == ([b"first", b"x", b"behind it"] if reached else [b"first", b"behind it"])


def test_an_append_that_waited_for_a_connection_was_not_sent_and_is_tried_again(cell: BrokerCell) -> None:
    cell.cut.add((2, 1))
    client = StoredClient(cell.nodes[2])
    client.append(b"x")
    cell.run(1_000)
    assert not client.appended
    cell.cut.discard((2, 1))
    cell.run(3_000)
    assert client.appended == [Appended(DONE, 1, 1)]


def test_an_append_that_waits_for_the_connection_goes_to_the_next_leader(cell: BrokerCell) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"x")  # the connection is being opened
    cell.change(0, leader=3)
    cell.run(500)
    assert client.appended == [Appended(DONE, 1, 1)]
    assert stored_values(cell.nodes[3]) == [b"x"]


@pytest.mark.parametrize(
    "answer",
    [
        AppendStoredResponse(1, 0, 0, 0),
        AppendStoredResponse(1, 0, 5, 4),
        AppendStoredResponse(1, 0x77, 0, 0),
    ],
    ids=["no numbers", "numbers that fall", "an unknown error"],
)
def test_an_answer_that_is_none_closes_the_connection(cell: BrokerCell, answer: AppendStoredResponse) -> None:
    client = StoredClient(cell.nodes[2])
    client.append(b"first")
    cell.run(300)
    near, _ = line_pipe(cell.nodes[2], 1)
    client.append(b"x")
    near.send()
    answer.request_id = 2
    near.received += b"".join(frame(answer.ID, answer.encode()))
    near.receive()
    assert near.closed
    assert [error.reason for error in cell.nodes[2].refused] == ["unexpected_answer"]
    assert outcomes(client) == [DONE, MAYBE]


def test_below_the_feature_level_nothing_is_sent_to_other_brokers(cell: BrokerCell) -> None:
    for node in cell.nodes.values():
        node.controller.view.feature_level = NATIVE_GROUPS
    client, near = StoredClient(cell.nodes[2]), StoredClient(cell.nodes[1])
    client.append(b"x")
    near.append(b"y")
    cell.run(5_200)
    assert (outcomes(client), outcomes(near)) == ([NOWHERE], [DONE])
    found = near.now_fetched()
    assert (values_of(found), numbers_of(found)) == ([b"y"], [1])
