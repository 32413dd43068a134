"""What /readyz says of partitions: which, why, what to do, and never a list without end."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from tank_node.broker.problems import MAX_PROBLEMS, partition_problems, problem_count
from tank_node.log.log import PartitionLog
from tank_node.monitoring.health import Health
from tank_node.monitoring.health_collector import HealthCollector
from tank_node.segment.errors import StorageError
from tank_node.version import kernel_name
from tests.support.nodes.bench_node import BenchNode


def test_a_failed_and_a_damaged_partition_are_named_with_the_reason(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3)
        assert partition_problems(node.broker) == []
        partitions = node.broker.topics["a"].partitions
        partitions[0].log.fail("an fsync failed")
        partitions[2].log.damage("record 7 is bad")
        failed, damaged = partition_problems(node.broker)
    assert failed.startswith("partition a/0 is failed: an fsync failed; ")
    assert "restart" in failed
    assert damaged.startswith("partition a/2 is damaged: record 7 is bad; ")
    assert "docs/operations.md" in damaged
    assert (Path(__file__).parents[3] / "docs" / "operations.md").exists()


def test_a_partition_that_could_not_be_opened_is_named(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:

        def refuse(*_: object) -> PartitionLog:
            raise StorageError("no descriptor is left")

        node.data_folder.open_log = refuse  # type: ignore[method-assign,assignment]
        node.controller.add("a", 1)
        assert partition_problems(node.broker) == ["partition a/0 could not be opened: no descriptor is left"]


def test_too_many_are_counted(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", MAX_PROBLEMS + 5)
        for partition in node.broker.topics["a"].partitions.values():
            partition.log.fail("x")
        problems = partition_problems(node.broker)
        assert problem_count(node.broker) == MAX_PROBLEMS + 5
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].startswith("5 more partitions")


def test_metrics_say_whether_it_is_ready_and_which_version_runs() -> None:
    shown = {}
    for ready in (True, False):
        registry = CollectorRegistry()
        registry.register(HealthCollector(lambda ready=ready: Health(ready)))  # type: ignore[misc]
        shown[ready] = generate_latest(registry).decode()
    assert "tank_ready 1.0" in shown[True]
    assert "tank_ready 0.0" in shown[False]
    assert f'tank_build_info{{kernel="{kernel_name()}",version="' in shown[True]
