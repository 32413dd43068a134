"""What the broker does from time to time, or when its view changes, for replicas that are not as they should
be."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.link import ReplicaEnd
from tank_node.limits import UNCOMMITTED_WRITES
from tank_node.log.log import LogState, PartitionLog
from tank_node.partition.leader import Pushers
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.replication.role import Role
from tank_node.segment.errors import TooManyOpenFiles
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord
from tests.support.clients.produce import batch_of, produce
from tests.support.controllers.shown_topics import show
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, CellNode, Told
from tests.support.nodes.leading import append
from tests.support.storage.compacted import put_records, records_of
from tests.support.waiting import until


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def state_of(node: CellNode) -> LogState:
    """Now: type checkers believe that an attribute stays what it was."""
    return node.log().state


def turn(node: CellNode) -> None:
    for _ in range(3):  # one of them has the partition's turn
        node.maintenance.run()
    node.sync()


# --- fsyncs ----------------------------------------------------------------------------------------


def test_when_flush_becomes_disk_followers_sync_what_they_have_too(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    assert {node.log().synced for node in cell.nodes.values()} == {0}
    topic = cell.topics["a"]
    pairs = topic.settings_text | {"flush": "disk"}
    cell.publish(replace(topic, settings=topic_settings.from_pairs(pairs), settings_text=pairs))
    for node in cell.nodes.values():
        node.sync()
    assert {node.log().synced for node in cell.nodes.values()} == {1}, "though nobody appends any more"


# --- producers when a leader stops -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "error"), [(False, ErrorCode.NO_LEADER), (True, ErrorCode.NOT_ACKNOWLEDGED_IN_TIME)]
)
def test_what_is_written_is_not_called_not_stored(node: BenchNode, written: bool, error: ErrorCode) -> None:
    node.controller.add("a", 1)
    partition = node.broker.topics["a"].partitions[0]
    told = Told()
    node.broker.begin_tick()
    partition.append(memoryview(batch_of(b"x")), told, 0)
    if written:
        assert partition.write()
    partition.become(Role.NONE, 2)
    assert told.told == {0: (error, 0, 0)}
    assert partition.log.written == int(written)


def test_writes_above_a_mark_that_stands_still_are_bounded(node: BenchNode) -> None:
    node.controller.add("a", 1, flush="disk")
    partition = node.broker.topics["a"].partitions[0]
    told, batch = Told(), batch_of(b"x")
    for token in range(UNCOMMITTED_WRITES + 10):
        node.broker.begin_tick()
        partition.append(memoryview(batch), told, token)
        node.broker.end_tick()
    assert len(partition.uncommitted) == UNCOMMITTED_WRITES
    assert sum(size for _, size in partition.uncommitted) == len(batch) * (UNCOMMITTED_WRITES + 10)
    node.sync()
    assert not partition.uncommitted
    assert {error for error, _, _ in told.told.values()} == {ErrorCode.NONE}


class Counting(Waiter[Partition]):
    def __init__(self, node: BenchNode) -> None:
        super().__init__()
        self.node = node
        self.others: list[Counting] = []
        self.told = 0

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        self._tell()

    def end_known(self, partition: Partition) -> None:
        self._tell()

    def lost(self, partition: Partition) -> None:
        self._tell()

    def _tell(self) -> None:
        assert not self.done, "it has ended"
        self.told += 1
        for waiter in (self, *self.others):
            self.node.broker.deadlines.forget(waiter)


@pytest.mark.plain_node
@pytest.mark.parametrize("what", ["advanced", "end_known", "lost"])
def test_a_wait_that_another_one_ends_is_not_told_again(node: BenchNode, what: str) -> None:
    node.controller.add("a", 1, flush="replicated")
    partition = node.broker.topics["a"].partitions[0]
    waiters = [Counting(node), Counting(node)]
    waiters[0].others = waiters[1:]
    node.broker.begin_tick()
    for waiter in waiters:
        node.broker.deadlines.wait(waiter, (partition,), 1000)
    if what == "lost":
        partition.become(Role.NONE, 2)
    else:
        if what == "end_known":
            partition.know_end_at(1)
            partition.waiters.clear()
            partition.waiters.update(dict.fromkeys(waiters))
        produce(node.client(), batch_of(b"x"), topic="a")
    assert [waiter.told for waiter in waiters] == [1, 0]


@pytest.mark.plain_node
def test_a_bug_of_the_pushers_does_not_hurt_the_tick(node: BenchNode) -> None:
    class Broken(Pushers):
        def push(self) -> None:
            raise RuntimeError("a bug")

    node.controller.add("a", 1, flush="replicated")
    node.broker.roles.pushers = Broken()
    assert produce(node.client(), batch_of(b"x"), topic="a") == b"\0"
    assert produce(node.client(), batch_of(b"y"), topic="a") == b"\0"


# --- replicas that can't be used -------------------------------------------------------------------


def test_damage_that_compaction_finds_is_reported(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    follower = cell.nodes[2]
    follower.log().spoiled("compaction met a bad batch")  # on the loop, but from nobody's turn
    cell.run(400)
    assert follower.controller.failed == []
    turn(follower)
    cell.run(300)
    assert follower.controller.failed[:1] == [(10, 0)]


def test_a_log_that_can_not_be_opened_after_the_registration_is_reported(cell: BrokerCell) -> None:
    node = cell.nodes[2]
    place = Path(node.data_folder.folder_of(10, 0))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"a file")
    cell.create()
    assert list(node.broker.topics["a"].broken) == [0]
    turn(node)
    assert (10, 0) in node.controller.failed
    node.controller.failed.clear()
    cell.change(in_sync=(1, 3))
    turn(node)
    assert node.controller.failed == [], "the view shows that it is known"


def test_a_log_that_could_not_be_opened_is_tried_again(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kept it from that may pass, and no change of the view may come for a long time."""

    def refuse(*_: object) -> PartitionLog:
        raise TooManyOpenFiles("no descriptor is left")

    monkeypatch.setattr(node.data_folder, "open_log", refuse)
    node.controller.add("a", 1)
    monkeypatch.undo()
    topic = node.broker.topics["a"]
    node.maintenance.run()
    assert list(topic.broken) == [0], "not at each turn"
    node.pass_ms(node.broker.limits.reopen_ms)
    node.maintenance.run()
    assert not topic.broken
    assert topic.partitions[0].role is Role.LEADER


def test_of_a_damaged_log_only_what_was_checked_counts_in_a_lossy_election(cell: BrokerCell) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    node = cell.nodes[2]
    ask = node.controller.ends
    assert ask is not None
    assert ask([(10, 0)]) == [ReplicaEnd(10, 0, 1, 1, damaged=False)]
    node.log().spoiled("bit rot")
    node.log().tail.written = 2**40  # a flipped bit in a record behind what was promised
    assert ask([(10, 0)]) == [ReplicaEnd(10, 0, 1, 1, damaged=True)]
    node.log().tail.written = 1


def test_a_lone_leader_serves_all_that_is_left_as_soon_as_it_is_mended(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 1)
    cell.create()
    told = Told()
    for token in range(3):
        append(cell.nodes[1], b"x", told, token)
        cell.run(100)
    [path] = (tmp_path / "broker-1/topics/10/0").glob("*.log")
    cell.stop(1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for name in ("checkpoint", "checkpoint.previous"):  # so that everything is read at the start
        (tmp_path / "broker-1" / name).unlink(missing_ok=True)
    node = cell.start(1)
    assert state_of(node) is LogState.DAMAGED, "nobody had said that it is the only one"
    assert node.partition().high_water_mark == 0
    assert node.data_folder.claims().damaged == ((10, 0),)
    node.maintenance.run()
    node.maintenance.run()
    assert state_of(node) is LogState.ACTIVE
    assert node.partition().high_water_mark == 3
    node.maintenance.run()
    assert node.data_folder.claims().damaged == (), "nobody has more of it"
    cell.close()


def test_what_a_lone_replica_is_being_moved_to_is_filled_anew_and_not_mended(tmp_path: Path) -> None:
    """Mended it would join with holes, and the whole copy would be deleted."""
    cell = BrokerCell(tmp_path, 2)
    cell.create()
    moving = replace(cell.topics["a"], replication_factor=1)
    cell.publish(moving)
    cell.change(replicas=(2, 1), in_sync=(1,), adding=(2,), removing=(1,))
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    target = cell.nodes[2]
    assert target.log().written == 1
    target.log().spoiled("bit rot")
    for _ in range(3):
        target.maintenance.run()
    assert state_of(target) is LogState.DAMAGED
    cell.run(2000)
    cell.change(in_sync=(1,))
    cell.run(5000)
    assert (state_of(target), target.log().written, target.log().is_impaired) == (LogState.ACTIVE, 1, False)
    cell.change(replicas=(2,), in_sync=(2,), leader=2, adding=(), removing=())
    target.log().spoiled("bit rot")
    for _ in range(3):
        target.maintenance.run()
    assert state_of(target) is LogState.ACTIVE, "alone again, nobody else could fill it"
    cell.close()


# --- tombstones ------------------------------------------------------------------------------------


def compacted_turns(node: BenchNode, partition: Partition) -> None:
    """Compaction has met the tombstones, and has had the time to remove them."""

    def is_over() -> bool:
        node.sync()
        return partition.log.compaction is None

    for _ in range(2):
        node.pass_ms(1000)
        node.maintenance.run()
        node.maintenance.run()
        until(is_over, "the end of a compaction")


@pytest.mark.parametrize("in_sync", [(1,), (1, 2)])
def test_tombstones_go_when_every_replica_has_them(node: BenchNode, in_sync: tuple[int, ...]) -> None:
    """A replica that copied the log without them would keep what they deleted."""
    topic = node.controller.add(
        "k",
        log_format="kafka",
        log_cleanup_policy="compact",
        log_cleaner_min_cleanable_ratio="0",
        delete_retention_ms="1",
        flush="replicated",
    )
    partition = node.broker.topics["k"].partitions[0]
    log = partition.log
    put_records(log, (b"a", b"old"), (b"a", None), (b"b", b"1"))
    log.roll()
    put_records(log, (b"c", b"1"))
    log.flush()
    partition.advance(log.last)
    (placed,) = topic.partitions
    placed = replace(placed, replicas=(1, 2), in_sync=in_sync)
    show(node.controller.view, replace(topic, partitions=[placed]))
    compacted_turns(node, partition)
    left = sorted(records_of(log))
    assert left == ([3, 4] if len(in_sync) == 2 else [2, 3, 4])


def test_a_follower_that_is_cut_off_from_the_controllers_removes_no_tombstones(tmp_path: Path) -> None:
    """Its view may be older than its mark: a replica may have left the in-sync set without them."""
    cell = BrokerCell(tmp_path, 2)
    cell.create(
        log_format="kafka",
        log_cleanup_policy="compact",
        log_cleaner_min_cleanable_ratio="0",
        delete_retention_ms="1",
        flush="replicated",
    )
    cell.run()
    leader, follower = cell.nodes[1], cell.nodes[2]
    for pairs in ([(b"a", b"old"), (b"a", None), (b"b", b"1")], [(b"c", b"1")]):
        made = [KafkaRecord(key, value, place, 0) for place, (key, value) in enumerate(pairs)]
        leader.broker.begin_tick()
        batch = memoryview(bytearray(record_batch.encode(made, base_timestamp_ms=1)))
        leader.partition().append(batch, Told(), 0)
        leader.broker.end_tick()
    cell.run()
    follower.log().roll()
    follower.log().flush()
    follower.controller.connected = False
    compacted_turns(follower, follower.partition())
    assert sorted(records_of(follower.log())) == [2, 3, 4]
    follower.controller.connected = True
    compacted_turns(follower, follower.partition())
    assert sorted(records_of(follower.log())) == [3, 4]
    cell.close()
