"""Whose processor time is held against the bars and the other systems: brokers' and controllers' together."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import replicated
from benchmarks.harness.load_generator import Load
from benchmarks.harness.servers import Kernel
from benchmarks.harness.table import Reached
from benchmarks.replicated import THROUGHPUT, Bench

HUNDRED_MESSAGES = Load(
    server_us=29.0, requests_s=1_000.0, messages_s=100_000.0, mb_s=10.0, server_cpu=1.0, client_cpu=0.5,
    other_cpu=0.0, stolen_cpu=0.0, p50_us=1.0, p99_us=1.0, checked=0,
)  # fmt: skip


class Server:
    """A process that takes so much processor time from one look at it to the next."""

    port = 1

    def __init__(self, pid: int, takes_s: float) -> None:
        self.pid, self._takes_s, self._taken_s = pid, takes_s, 0.0

    def cpu_s(self) -> float:
        self._taken_s += self._takes_s
        return self._taken_s

    def counted(self, sample: str) -> float:
        return 0.0


class Everything:
    """Cluster, client, topics, and a display, as far as a run asks for them."""

    kernel = Kernel.PURE

    def __init__(self) -> None:
        self.admin = self
        self.controllers = [Server(pid, 0.25) for pid in (1, 2)]
        self.brokers = [Server(pid, 1.0) for pid in (3, 4)]

    def processes(self, role: str) -> list[Server]:
        return self.controllers if role == "controller" else self.brokers

    def leader(self, *_: object) -> Server:
        return self.brokers[0]

    def describe_topics(self, names: object) -> list[Any]:
        return [SimpleNamespace(partitions=[SimpleNamespace(in_sync=(3, 4, 5))])]

    def __enter__(self) -> "Everything":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, *_: object) -> "Everything":
        return self

    producer = send = result = create_topic = delete_topic = begin = ran = say = __call__


def test_controllers_count_for_the_bar_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def run_load(arguments: str, port: int, pids: object, *more: str) -> Load:
        asked.append(pids)
        return HUNDRED_MESSAGES

    monkeypatch.setattr(replicated, "run_load", run_load)
    world = cast(Any, Everything())
    bench = Bench(world, world, cast(Any, SimpleNamespace(port=2, pid=9)), 1, 1.0, world)
    whole, controllers, *_ = bench.of_throughput(THROUGHPUT[0])
    assert asked == ["3,4,1,2", 9]
    assert (whole.name, whole.bar, whole.reached) == (
        "produce 100 B in bundles of 100: CPU of all servers a message", "≤ 0.3 µs", Reached.YES,
    )  # fmt: skip
    assert whole.values == (0.29,)
    # Each controller takes a fourth of what a broker does: all together a fifth of the whole.
    assert (controllers.name, controllers.bar, controllers.reached) == (
        "produce 100 B in bundles of 100: of these the controllers", "", None,
    )  # fmt: skip
    assert list(controllers.values) == pytest.approx([0.29 / 5])
