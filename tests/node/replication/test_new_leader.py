"""Leaders change: who may lead, what a new one serves at once, what waits, and how the logs become one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.partition.leader import PartitionLeader
from tank_node.partition.numbering import END
from tank_node.partition.waiters import ProducerStamp
from tank_node.replication.role import Role
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    AwaitEndsResponse,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    FindByTimeRequest,
    FindByTimeResponse,
    KnownEnd,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    TimeToFind,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append, errors, members
from tests.support.nodes.replicas import assert_copies


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


def fetch(client: BenchClient, number: int, wait_ms: int = 0, version: int = 2) -> None:
    topics = [ConsumeTopic("a", [ConsumePartition(0, number, 1 << 20)])]
    client.send(ConsumeRequest(version, 1, "", wait_ms, 0, 0, topics))


def fetched(client: BenchClient) -> list[tuple[int, int, int]]:
    """(flag, high-water mark, length of the chunk) of each answer."""
    found = []
    for _, payload in client.answers():
        partition = ConsumeResponse.decode(payload).topics[0].partitions[0]
        found.append((partition.flag, partition.high_water_mark, partition.chunk_length))
    return found


def unsettled(cell: BrokerCell) -> None:
    """Broker 2 leads, has three messages and a mark of 1; broker 3, which is in sync, can't be reached."""
    cell.create(flush="replicated")
    cell.run(200)
    append(cell.nodes[1], b"1", Told(), 0)
    cell.run(300)
    append(cell.nodes[1], b"2", Told(), 1)
    append(cell.nodes[1], b"3", Told(), 2)
    cell.step()
    assert cell.nodes[2].log().last == 3
    assert cell.nodes[2].partition().high_water_mark == 1
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    cell.disconnect(2, 3)
    cell.judge = lambda node: None
    cell.change(leader=2, in_sync=(2, 3))


def test_a_new_leader_truncates_what_others_have_beyond_it(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    told = Told()
    append(cell.nodes[1], b"both", told, 0)
    cell.run(300)
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    for token in (1, 2, 3):
        append(cell.nodes[1], b"lost", told, token)
    cell.change(leader=2, in_sync=(2, 3), brokers=(2, 3))
    cell.run(300)
    append(cell.nodes[2], b"kept", told, 9)
    cell.run(500)
    assert told.told[9][0] is ErrorCode.NONE
    assert set(told.told) == {0, 9}, "the old leader has not heard of it"
    cell.publish(cell.topics["a"])
    assert errors(told)[:4] == [ErrorCode.NONE] + [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME] * 3
    cell.connect(1, 2)
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    for broker_id in (1, 3):
        assert_copies(cell.nodes[2].log(), cell.nodes[broker_id].log())
    assert cell.nodes[1].log().last == 2


def test_a_leader_whose_follower_knows_of_a_higher_epoch_commits_nothing(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.change(leader=2, brokers=(2, 3))
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(1000)
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    assert cell.nodes[1].partition().high_water_mark == 0
    assert cell.nodes[1].partition().role is Role.FOLLOWER, "it was pushed to by the new leader"


def test_who_steps_down_stores_nothing_of_what_was_staged(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    told = Told()
    node = cell.nodes[1]
    node.broker.begin_tick()
    node.partition().append(memoryview(batch_of(b"x")), told, 0)
    cell.change(leader=2)
    node.broker.end_tick()
    assert errors(told) == [ErrorCode.NO_LEADER]
    assert node.log().last == 0
    append(node, b"x", told, 1)
    assert told.told[1][0] is ErrorCode.OTHER_LEADER


def test_an_old_clients_produce_elsewhere_is_answered_as_an_error_it_knows(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    client = cell.nodes[2].client()
    topics = [ProduceTopic("a", [ProducePartition(0, memoryview(batch_of(b"x")))])]
    answers = [client.ask(ProduceRequest(version, 1, "", 0, 0, topics))[4] for version in (0, 2)]
    assert answers == [ErrorCode.STORAGE, ErrorCode.OTHER_LEADER]


def test_a_follower_is_not_read(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    client = cell.nodes[2].client()
    fetch(client, 0)
    assert fetched(client)[0][0] == ConsumeFlag.OTHER_LEADER
    fetch(client, 0, version=0)
    assert fetched(client) == [(ConsumeFlag.DATA, 0, 0)]


def test_a_new_leader_serves_up_to_its_mark_and_takes_writes_at_once(cell: BrokerCell) -> None:
    unsettled(cell)
    node = cell.nodes[2]
    client = node.client()
    fetch(client, 1)
    ((flag, mark, length),) = fetched(client)
    only_first = node.log().segments[0].index.record(0).length
    assert (flag, mark, length) == (ConsumeFlag.DATA, 1, only_first)
    told = Told()
    append(node, b"4", told, 0)
    assert node.log().last == 4
    assert not told.told


@pytest.mark.parametrize("number", [2, 4, 5, 99, END])
def test_above_the_mark_of_a_new_leader_a_number_waits_and_is_no_error(cell: BrokerCell, number: int) -> None:
    unsettled(cell)
    node = cell.nodes[2]
    client = node.client()
    fetch(client, number, wait_ms=60_000)
    cell.run(500)
    assert not fetched(client)
    cell.connect(2, 3)
    cell.run(2500)
    assert node.partition().end_known
    if number == 2:
        ((flag, _, length),) = fetched(client)
        assert (flag, bool(length)) == (ConsumeFlag.DATA, True)
        return
    if number > 4 and number != END:
        assert fetched(client) == [(ConsumeFlag.OUT_OF_BOUNDS, 3, 0)]
        return
    assert not fetched(client), "the end is a number now, and that one has not come"
    cell.judge = cell.accept
    append(node, b"4", Told(), 0)
    cell.run(300)
    ((flag, _, length),) = fetched(client)
    assert (flag, bool(length)) == (ConsumeFlag.DATA, True)


def test_an_empty_answer_of_a_new_leader_does_not_show_an_end(cell: BrokerCell) -> None:
    unsettled(cell)
    client = cell.nodes[2].client()
    fetch(client, 2)
    fetch(client, 2, wait_ms=400)
    assert [flag for flag, _, _ in fetched(client)] == [ConsumeFlag.NO_LEADER]
    cell.nodes[2].pass_ms(500)
    assert [flag for flag, _, _ in fetched(client)] == [ConsumeFlag.NO_LEADER]


def test_questions_about_the_end_wait_until_a_new_leader_knows_it(cell: BrokerCell) -> None:
    unsettled(cell)
    node = cell.nodes[2]
    clients = [node.client() for _ in range(3)]
    clients[0].send(DiscoverPartitionsRequest(1, "a", []))
    clients[1].send(FindByTimeRequest(0, 1, "a", [TimeToFind(0, 2**62)]))
    clients[2].send(AwaitEndsRequest(0, 1, 60_000, [KnownEnd("a", 0, 1)]))
    cell.run(500)
    assert not any(client.taken() for client in clients)
    cell.connect(2, 3)
    cell.run(2500)
    answers = [client.answers()[0][1] for client in clients]
    assert DiscoverPartitionsResponse.decode(answers[0]).partitions[0].high_water_mark == 3
    assert FindByTimeResponse.decode(answers[1]).partitions[0].sequence_number == 4
    assert AwaitEndsResponse.decode(answers[2]).partitions[0].high_water_mark == 3


def test_questions_about_an_end_that_stays_unknown_are_answered_so(cell: BrokerCell) -> None:
    unsettled(cell)
    clients = [cell.nodes[2].client() for _ in range(3)]
    clients[0].send(DiscoverPartitionsRequest(1, "a", []))
    clients[1].send(FindByTimeRequest(0, 1, "a", [TimeToFind(0, 0)]))
    clients[2].send(AwaitEndsRequest(0, 1, 9_000, [KnownEnd("a", 0, 0)]))
    cell.nodes[2].pass_ms(10_000)
    answers = [client.answers()[0][1] for client in clients]
    assert DiscoverPartitionsResponse.decode(answers[0]).partitions[0].reason == ErrorCode.NO_LEADER
    assert FindByTimeResponse.decode(answers[1]).partitions[0].error == ErrorCode.NO_LEADER
    assert AwaitEndsResponse.decode(answers[2]).partitions[0].error == ErrorCode.NO_LEADER


def test_nothing_is_led_before_the_registration_is_committed(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2)
    cell.create()
    cell.run(100)
    cell.nodes[1].broker.roles.registered = False
    cell.change(leader=1, leader_epoch=5)
    assert cell.nodes[1].partition().role is Role.NONE
    for listener in cell.nodes[1].controller.tell_registered:
        listener()
    assert cell.nodes[1].partition().role is Role.LEADER
    cell.close()


def test_an_epoch_that_was_led_in_an_earlier_process_is_not_continued(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(300)
    assert errors(told) == [ErrorCode.NONE]
    cell.stop(1)
    node = cell.start(1)
    assert node.partition().role is Role.NONE
    cell.run(300)
    assert node.controller.failed == [(10, 0)]
    cell.change(leader=1, leader_epoch=2)
    assert node.partition().role is Role.LEADER


def test_a_mark_is_what_was_committed_not_what_is_on_the_disk(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    cell.judge = lambda node: None
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    cell.stop(1)
    node = cell.start(1)
    assert node.log().synced == 1
    assert node.partition().high_water_mark == 0


def test_a_leader_whose_disk_fails_after_the_append_steps_down_and_reports(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run(200)
    node = cell.nodes[1]
    told = Told()
    node.broker.begin_tick()
    append(node, b"x", told, 0)
    node.log().fail("fsync failed: no more")
    node.broker.on_synced(node.log())
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    assert node.partition().role is Role.NONE
    cell.run(300)
    assert node.controller.failed == [(10, 0)]


def test_a_replica_that_was_moved_away_tells_who_waits_and_goes_with_its_data(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(300)
    client = cell.nodes[1].client()
    fetch(client, 2, wait_ms=60_000)
    append(cell.nodes[1], b"y", told, 1)
    folder = cell.nodes[1].log().folder
    cell.change(leader=2, replicas=(2, 3), in_sync=(2, 3))
    assert errors(told) == [ErrorCode.NONE, ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    assert [flag for flag, _, _ in fetched(client)] == [ConsumeFlag.OTHER_LEADER]
    assert not Path(folder).exists()
    fetch(client, 1)
    assert [flag for flag, _, _ in fetched(client)] == [ConsumeFlag.OTHER_LEADER]
    # And comes back empty, to be filled by the leader of then.
    cell.change(replicas=(2, 3, 1), adding=(1,))
    cell.run(2000)
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[2].log(), cell.nodes[1].log())


def test_who_may_have_been_moved_away_and_back_unseen_is_asked_anew(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    cell.judge = lambda node: None
    placed = cell.change(in_sync=(1, 3))
    cell.run(20)
    leadership = cell.nodes[1].broker.topics["a"].partitions[0].leadership
    assert isinstance(leadership, PartitionLeader)
    before = leadership.places[2][1]
    assert leadership.in_sync.replicas[2].matched == 1
    cell.change(in_sync=(1, 3), partition_epoch=placed.partition_epoch + 3)
    assert leadership.in_sync.replicas[2].matched == 0, "what it matched may be gone"
    assert leadership.places[2][1] is not before
    cell.judge = cell.accept
    cell.run(2000)
    assert members(cell) == (1, 2, 3)


def test_what_was_moved_away_while_its_broker_was_away_goes_when_it_comes_back(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    folder = Path(cell.nodes[3].log().folder)
    cell.stop(3)
    cell.change(replicas=(1, 2), in_sync=(1, 2))
    node = cell.start(3)
    assert not folder.exists()
    assert not node.broker.topics["a"].partitions


def test_a_former_leader_remembers_no_producer_of_what_was_never_committed_below_the_new_ones_start(
    cell: BrokerCell,
) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    former, told, stamp = cell.nodes[1], Told(), ProducerStamp(7, 0, 0)
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    append(former, b"lost", told, 0, stamp)
    cell.change(leader=2, in_sync=(2, 3))
    cell.run(100)
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    leader = cell.nodes[2]
    leader.broker.begin_tick()
    leader.partition().append(memoryview(batch_of(b"far")), told, 1, first=2)  # its log begins behind a gap
    leader.broker.end_tick()
    cell.connect(1, 2)
    cell.connect(1, 3)
    cell.run(3000)
    assert (members(cell), former.log().first_available, former.log().last) == ((1, 2, 3), 2, 2)
    cell.change(leader=1, in_sync=(1, 2, 3))
    cell.run(200)
    append(former, b"lost", told, 2, stamp)
    cell.run(300)
    assert told.told[2] == (ErrorCode.NONE, 3, 3), (
        "sent again, it is stored: a repeat would be acknowledged and lost"
    )
    for follower in (2, 3):
        assert_copies(former.log(), cell.nodes[follower].log())
