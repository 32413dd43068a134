"""Files for diagnosis: what is in them, what is not, and how long they may be."""

import io
import logging
import threading
import zipfile
from collections.abc import Callable

import pytest

from tank_node.app import config as node_config
from tank_node.app.config import OPTIONS
from tank_node.app.recent_log import RecentLog
from tank_node.app.snapshot_maker import SnapshotMaker
from tank_node.iggy.services import Packing, SnapshotPart
from tank_node.limits import SNAPSHOT_BYTES

ALL = frozenset(SnapshotPart)


class MakerForTests:
    """A maker whose thread's last word is waited for."""

    def __init__(self, metrics: bytes = b"tank_up 1\n", lines: int = 1000) -> None:
        self.log = RecentLog(lines, 2_000)
        config = node_config.load(
            {"secret_file": "/run/s3cr3t", "iggy_expose": "orders=main/orders", "iggy_heartbeat": "on"},
            {"HOME": "/home/u", "TANK_API_TOKEN_FILE": "/run/t0k3n"},
        )
        self._posted: list[Callable[[], None]] = []
        self._is_posted = threading.Event()
        self.metrics: Callable[[], object] = lambda: metrics
        self._maker = SnapshotMaker(config, self.log, lambda: {"broker": 7}, self._text, self._post)

    def _text(self) -> bytes:
        text = self.metrics()
        assert isinstance(text, bytes)
        return text

    def _post(self, call: Callable[[], None]) -> None:
        self._posted.append(call)
        self._is_posted.set()

    def make(self, parts: frozenset[SnapshotPart] = ALL, packing: Packing = Packing.DEFLATE) -> bytes:
        made: list[bytes] = []
        assert self._maker.make(parts, packing, made.append)
        assert not self._maker.make(parts, packing, made.append), "one at a time"
        assert self._is_posted.wait(30)
        assert made == []
        self._posted.pop()()
        self._is_posted.clear()
        (zipped,) = made
        return zipped

    def write(self, message: str) -> None:
        self.log.handle(logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "tank"}))


def contents(zipped: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(zipped)) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode() for name in file.namelist()}


@pytest.mark.parametrize("packing", Packing)
def test_a_file_has_versions_configuration_log_and_metrics(packing: Packing) -> None:
    maker = MakerForTests()
    maker.write("a line")
    found = contents(maker.make(packing=packing))
    assert found.keys() == {"versions.txt", "configuration.txt", "log.txt", "metrics.txt"}
    assert "broker = 7\n" in found["versions.txt"]
    assert "python = " in found["versions.txt"]
    assert found["log.txt"].endswith("INFO tank: a line\n")
    assert found["metrics.txt"] == "tank_up 1\n"
    said = dict(line.split(" = ", 1) for line in found["configuration.txt"].splitlines())
    assert said.keys() == {option.name for option in OPTIONS}
    assert (said["iggy_heartbeat"], said["iggy_expose"]) == ("on", "orders=main/orders")
    assert (said["iggy"], said["listen"]) == ("not set", "127.0.0.1:11011")


def test_it_has_no_secret_and_not_where_one_is() -> None:
    found = contents(MakerForTests().make())
    assert "secret_file = set\n" in found["configuration.txt"]
    assert "api_token_file = set\n" in found["configuration.txt"]
    assert not any(hidden in text for text in found.values() for hidden in ("s3cr3t", "t0k3n"))


def test_it_has_what_was_asked_for() -> None:
    maker = MakerForTests()
    assert contents(maker.make(frozenset())).keys() == {"versions.txt"}
    assert contents(maker.make(frozenset({SnapshotPart.METRICS}))).keys() == {"versions.txt", "metrics.txt"}


def test_the_newest_lines_are_kept() -> None:
    maker = MakerForTests(lines=3)
    for number in range(5):
        maker.write(f"line {number}")
    maker.write("x" * 5_000)
    kept = contents(maker.make())["log.txt"].splitlines()
    assert [line.rsplit(" ", 1)[1] for line in kept[:2]] == ["3", "4"]
    assert len(kept[2]) == 2_000


def test_names_that_are_not_utf_8_are_escaped() -> None:
    maker = MakerForTests()
    maker.write("client \udcff")
    assert contents(maker.make())["log.txt"].endswith("INFO tank: client \\udcff\n")


def test_a_file_that_can_not_be_begun_is_not_in_the_way_of_the_next_one() -> None:
    maker = MakerForTests()
    good = maker.metrics
    maker.metrics = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        maker.make()
    maker.metrics = good
    assert contents(maker.make())["metrics.txt"] == "tank_up 1\n"


@pytest.mark.parametrize("packing", [Packing.STORED, Packing.DEFLATE])
def test_a_file_has_sixteen_mib_at_most(packing: Packing) -> None:
    zipped = MakerForTests(metrics=bytes(17 * 1024 * 1024)).make(packing=packing)
    assert 0 < len(zipped) <= SNAPSHOT_BYTES
    found = contents(zipped)["metrics.txt"]
    assert 15 * 1024 * 1024 < len(found) < SNAPSHOT_BYTES
    assert found.endswith("(what follows is left out: the file would be too long)\n")
