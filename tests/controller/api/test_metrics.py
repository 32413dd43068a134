"""A controller's metrics say what its state says, and docs/operations.md says what each is."""

import asyncio
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tank_controller.api.http import ControllerHttp
from tank_controller.api.metrics_collector import ControllerCollector
from tank_controller.commands.machine import Metadata
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.brokers.liveness import Loss
from tank_controller.node import DiskSpace, space_of
from tank_controller.raft_node.readiness import Readiness
from tank_controller.security.trust import NO_TRUST
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import commit, create, delete, init_producer, register
from tests.support.controllers.driven import Driven
from tests.support.scraping import scraped_page

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("### Of a controller") :]


def scraped(driven: Driven, metadata: Metadata | None = None) -> dict[str, float]:
    """Samples, by name with labels."""
    registry = CollectorRegistry()
    registry.register(ControllerCollector(driven.driver, metadata or driven.machine))
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.removeprefix("tank_controller_"): float(value) for name, _, value in samples}


def scrape(folder: Path) -> str:
    """Of a controller's process."""
    driven = Driven(folder).lead()
    node = SimpleNamespace(
        problem="",
        readiness=Readiness(),
        member=SimpleNamespace(driver=driven.driver),
        metadata=driven.machine,
        brokers=SimpleNamespace(streams={}, leadership=SimpleNamespace(fences={Loss.SILENT: 2})),
        space=lambda: DiskSpace(3, 7),
        clocks=BrokerClocks(),
    )
    http = ControllerHttp(SimpleNamespace(node=node, trust=NO_TRUST))  # all that is asked of it

    async def page() -> str:
        try:
            return await scraped_page(await http.start("127.0.0.1:0"))
        finally:
            await http.stop()

    return asyncio.run(page())


def exported(folder: Path) -> dict[str, str]:
    """Names, with the text of their HELP lines."""
    found = dict(re.findall(r"^# HELP (\S+) (.*)$", scrape(folder), re.MULTILINE))
    return {name: about for name, about in found.items() if name.startswith("tank_")}


def test_the_page_has_every_metric_and_no_other(tmp_path: Path) -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)) == set(exported(tmp_path))


def test_how_often_a_broker_was_fenced_and_why(tmp_path: Path) -> None:
    shown = scrape(tmp_path)
    assert '\ntank_controller_fences_total{reason="silent"} 2.0\n' in shown
    assert '\ntank_controller_fences_total{reason="stream_broke"} 0.0\n' in shown
    assert '\ntank_controller_fences_total{reason="stayed_away"} 0.0\n' in shown


def test_how_full_the_disk_is(tmp_path: Path) -> None:
    shown = scrape(tmp_path)
    assert "\ntank_controller_disk_free_bytes 3.0\n" in shown
    assert "\ntank_controller_disk_size_bytes 7.0\n" in shown
    space = space_of(tmp_path)
    assert space is not None
    assert 0 < space.free <= space.size == shutil.disk_usage(tmp_path).total
    assert space_of(tmp_path / "gone") is None


def test_names_have_their_unit_last_and_say_what_they_are(tmp_path: Path) -> None:
    for name, about in exported(tmp_path).items():
        assert about[:1].isupper() or about[:1].isdigit(), name
        assert re.fullmatch(r"tank_controller(_[a-z]+)+", name)
        unit = re.search(r"_(bytes|seconds|ms)", name)
        assert unit is None or re.search(r"_(bytes|seconds)(_total)?$", name), name


def test_the_page_speaks_of_metrics_that_there_are(tmp_path: Path) -> None:
    used = set(re.findall(r"\btank_controller_\w+", PAGE[: PAGE.index("### Of a controller")]))
    assert len(used) > 5
    assert {name.removesuffix("_bucket") for name in used} <= set(exported(tmp_path))


def test_they_say_who_leads_and_how_far_the_log_is(tmp_path: Path) -> None:
    driven = Driven(tmp_path, snapshot_after_bytes=600).lead()
    driven.propose(register(), *(create(f"t{number}") for number in range(20)))
    driven.driver.propose(b"x" * 10_000_000, driven.outcomes.append)
    driven.run_until(lambda: driven.driver.snapshot_index)
    seen = scraped(driven)
    assert (seen["leads"], seen['role{role="leader"}'], seen['role{role="follower"}']) == (1, 1, 0)
    assert (seen["term"], seen["voters"], seen["leader_changes_total"]) == (driven.driver.raft.term, 1, 1)
    assert seen["applied_index"] == seen["commit_index"] == driven.driver.applied
    assert 0 < seen["snapshot_index"] <= driven.driver.applied
    assert seen['refused_proposals_total{reason="too_large"}'] == 1
    assert seen["fsync_latency_seconds_count"] >= 2
    assert seen["fsync_latency_seconds_sum"] > 0
    driven.stop()


def state_of(cluster: Cluster, driven: Driven) -> dict[str, float]:
    metadata = Metadata()
    metadata.state = cluster.state
    return scraped(driven, metadata)


@pytest.fixture
def driven(tmp_path: Path) -> Driven:
    return Driven(tmp_path).lead()


def test_they_say_what_is_wrong_with_brokers_and_partitions(driven: Driven) -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic(partitions=2)
    cluster.topic("alone", factor=1)
    seen = state_of(cluster, driven)
    assert (seen["brokers"], seen["topics"], seen["partitions"]) == (4, 2, 3)
    troubles = [name for name in seen if name.startswith(("partitions_", "brokers_"))]
    assert len(troubles) >= 8
    assert not any(seen[name] for name in troubles)
    held = cluster.partition(t).replicas
    (new,) = {1, 2, 3, 4} - set(held)
    cluster.do(cluster.reassign(t, *held[:2], new))
    assert state_of(cluster, driven)["partitions_moving"] == 1
    cluster.do(cluster.cancel(t))
    cluster.set_broker(4, draining=True)
    cluster.set_broker(3, shutting_down=True)
    cluster.fence(1)
    seen = state_of(cluster, driven)
    assert (seen["brokers_fenced"], seen["brokers_draining"], seen["brokers_shutting_down"]) == (1, 1, 1)
    assert seen["partitions_under_replicated"] >= 1


def test_they_say_how_full_the_tables_of_groups_and_producers_are(driven: Driven) -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(partitions=3)
    names = ("groups", "positions", "position_metadata_bytes", "named_producers")
    seen = state_of(cluster, driven)
    assert [seen[name] for name in names] == [0, 0, 0, 0]
    cluster.do(commit("a", (t, 0, 5), (t, 1, 6), metadata=b"12"))
    for command in (commit("b", (t, 2, 7), metadata=b"3"), init_producer("p"), init_producer()):
        cluster.do(command)
    seen = state_of(cluster, driven)
    assert [seen[name] for name in names] == [2, 3, 5, 1]


def test_lossy_elections_are_counted_for_ever(driven: Driven) -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    seen = state_of(cluster, driven)
    assert (seen["partitions_leaderless"], seen["partitions_doubtful"]) == (1, 0)
    assert (seen["partitions_below_min_insync"], seen["partitions_under_replicated"]) == (1, 1)
    cluster.up(2, new_disk=True)
    cluster.up(3, new_disk=True)
    seen = state_of(cluster, driven)
    assert (seen["partitions_leaderless"], seen["partitions_doubtful"]) == (1, 1)
    cluster.do(cluster.lossy(t, {2: (1, 5), 3: (1, 6)}))
    assert state_of(cluster, driven)["lossy_elections_total"] == 1
    cluster.do(delete(t))
    seen = state_of(cluster, driven)
    assert seen["lossy_elections_total"] == 1
    assert not seen["partitions_leaderless"]
