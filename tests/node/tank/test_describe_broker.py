"""What a broker says of itself: its disk, its files, partitions in trouble and folders set aside."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tank_node.broker.problems import partition_problems
from tank_node.cluster.view import ChangeKind
from tank_node.segment.errors import DiskFailed
from tank_node.version import version_and_kernel
from tank_protos.error_codes import TroubleKind
from tank_protos.generated.tank import DescribeBrokerRequest, DescribeBrokerResponse
from tests.support.clients.produce import batch_of, idempotent, produce
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.nodes.exposed import exposed
from tests.support.storage.fault_disk import FaultDisk

NOT_KNOWN = 2**64 - 1


def described(client: BenchClient) -> DescribeBrokerResponse:
    return DescribeBrokerResponse.decode(client.ask(DescribeBrokerRequest(0, 9)))


def test_a_broker_tells_its_version_age_disk_and_files() -> None:
    disk = FaultDisk()
    disk.capacity_bytes = 1 << 30
    node = BenchNode(Path("/data"), disk=disk)
    node.controller.add("a", 1, flush="replicated")
    client = node.client()
    node.metrics.connections = 3
    empty = described(client)
    assert (empty.request_id, empty.broker_id, empty.data_folder, empty.data_bytes) == (9, 1, "/data", 0)
    assert (empty.software_version, empty.connections) == (version_and_kernel(), 3)
    assert (empty.troubles, empty.stray_folders) == ([], [])
    batch = batch_of(b"x" * 100)
    assert produce(client, batch) == b"\0"
    node.pass_ms(1500)
    later = described(client)
    assert later.data_bytes == len(batch) + 64
    assert (later.uptime_ms - empty.uptime_ms, later.started_ms) == (1500, empty.started_ms)
    assert later.open_files == len(node.data_folder.files) > 0
    assert (later.free_bytes, later.disk_bytes) == ((1 << 30) - disk.used_bytes, 1 << 30)
    node.close()


def test_a_disk_that_does_not_tell_its_room_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FaultDisk, path: str) -> None:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(FaultDisk, "space", refuse)
    node = BenchNode(Path("/data"), disk=FaultDisk())
    answer = described(node.client())
    assert (answer.free_bytes, answer.disk_bytes) == (NOT_KNOWN, NOT_KNOWN)
    node.close()


def test_partitions_that_failed_or_are_damaged_are_named_with_the_reason() -> None:
    disk = FaultDisk()
    node = BenchNode(Path("/data"), disk=disk)
    node.controller.add("kept", 2, flush="replicated")
    node.controller.add("unsafe", 1, flush="disk")
    client = node.client()
    disk.fail_sync = lambda path: True
    idempotent(client, 0, b"x", topic="unsafe")
    node.sync()
    client.taken()
    disk.fail_sync = lambda path: False
    damaged = node.broker.topics["kept"].partitions[1]
    damaged.log.damage("batch 9 to 12: its checksum does not match")
    found = [(t.topic, t.partition, t.kind) for t in described(client).troubles]
    assert found == [("kept", 1, TroubleKind.DAMAGED), ("unsafe", 0, TroubleKind.FAILED)]
    reasons = [trouble.reason for trouble in described(client).troubles]
    assert reasons == [damaged.log.reason, node.broker.topics["unsafe"].partitions[0].log.reason]
    assert "its checksum does not match" in reasons[0]
    assert reasons[1]
    node.close()


def test_partitions_whose_disk_hangs_are_named_until_it_goes_on() -> None:
    with hanging_node() as (node, client, go_on):
        node.pass_ms(node.broker.limits.fsync_hangs_ms - 1)
        assert described(client).troubles == []
        node.pass_ms(1)
        (trouble,) = described(client).troubles
        assert (trouble.topic, trouble.partition, trouble.kind) == ("a", 0, TroubleKind.HANGS)
        assert "its disk has not finished an fsync for 10 s" in trouble.reason
        assert "kill -9" in trouble.reason
        assert partition_problems(node.broker) == [f"partition a/0 acknowledges nothing: {trouble.reason}"]
        assert exposed(node)["tank_fsync_running_seconds"] == 10
        go_on()
        assert (described(client).troubles, partition_problems(node.broker)) == ([], [])
        assert exposed(node)["tank_fsync_running_seconds"] == 0


@contextmanager
def hanging_node() -> Iterator[tuple[BenchNode, BenchClient, Callable[[], None]]]:
    """A broker that has begun an fsync of a/0, and what lets it end."""
    disk, may_go_on = FaultDisk(), threading.Event()
    node = BenchNode(Path("/data"), disk=disk)
    node.controller.add("a", 2, flush="disk")
    client = node.client()
    disk.fail_sync = lambda path: not may_go_on.wait(60)

    def go_on() -> None:
        may_go_on.set()
        node.sync()
        client.taken()

    idempotent(client, 0, b"x", topic="a")
    try:
        yield node, client, go_on
    finally:
        go_on()
        node.close()


def test_a_partition_that_cannot_be_opened_is_told_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    node = BenchNode(Path("/data"), disk=FaultDisk())

    def refuse(*_: object) -> None:
        raise DiskFailed("cannot open it: " + "x" * 70_000)

    with monkeypatch.context() as while_it_fails:
        while_it_fails.setattr(node.data_folder, "open_log", refuse)
        node.controller.add("a", 1)
    client = node.client()
    (trouble,) = described(client).troubles
    assert (trouble.topic, trouble.kind) == ("a", TroubleKind.NOT_OPENED)
    assert trouble.reason.startswith("cannot open it: xxx")
    (view,) = node.controller.view.topics()
    node.controller.publish(ChangeKind.ALTERED, view)
    assert described(client).troubles == []
    node.close()


def test_stray_folders_are_told_with_their_size_while_they_are_there(tmp_path: Path) -> None:
    BenchNode(tmp_path).close()
    stray = tmp_path / "topics" / "99" / "0"
    stray.mkdir(parents=True)
    (stray / "a.log").write_bytes(b"x" * 1000)
    (stray.parent / "note").write_bytes(b"y" * 24)
    with BenchNode(tmp_path) as node:
        client = node.client()
        (told,) = described(client).stray_folders
        assert (told.name, told.size_bytes) == (".stray-99-1", 1024)
        node.data_folder.disk.remove_tree(str(tmp_path / "topics" / told.name))
        assert described(client).stray_folders == []
