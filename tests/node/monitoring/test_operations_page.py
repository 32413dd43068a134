"""docs/operations.md names the metrics that there are, and the messages that there are."""

import asyncio
import re
from pathlib import Path

import pytest

from tank_node.monitoring.health import Health
from tank_node.monitoring.http import HttpServer
from tank_node.monitoring.metrics_collector import MetricsCollector
from tests.support.nodes.bench_node import BenchNode
from tests.support.scraping import scraped_page

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def exported(folder: Path) -> dict[str, str]:
    """Names, with the text of their HELP lines, as a scrape shows them."""
    with BenchNode(folder / "data") as node:
        http = HttpServer(lambda: MetricsCollector(node.broker, node.metrics), lambda: Health(True))

        async def page() -> str:
            _, port = await http.start("127.0.0.1", 0)
            try:
                return await scraped_page(port)
            finally:
                await http.stop()

        return dict(re.findall(r"^# HELP (\S+) (.*)$", asyncio.run(page()), re.MULTILINE))


def test_the_tables_have_every_metric_and_no_other(tmp_path: Path) -> None:
    tables = PAGE[PAGE.index("### Of a broker") : PAGE.index("### Of a controller")]
    found = re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)
    assert set(found) == set(exported(tmp_path))
    assert len(found) == len(set(found))


def test_names_have_their_unit_last_and_say_what_they_are(tmp_path: Path) -> None:
    for name, about in exported(tmp_path).items():
        assert about[:1].isupper(), name
        assert re.fullmatch(r"(tank|process)(_[a-z]+)+", name)
        unit = re.search(r"_(bytes|seconds|ms)", name)
        assert unit is None or re.search(r"_(bytes|seconds)(_total)?$", name), name


def test_the_page_speaks_of_metrics_that_there_are(tmp_path: Path) -> None:
    used = {name for name in re.findall(r"\b(?:tank|process)_\w+", PAGE) if "tank_controller_" not in name}
    assert len(used) > 20
    assert {name.removesuffix("_bucket") for name in used} <= set(exported(tmp_path))


def test_each_alarm_says_where_to_read_on_and_that_place_says_what_to_do() -> None:
    woken = PAGE[PAGE.index("| Alarm |") : PAGE.index("Every controller knows")]
    rows = [line for line in woken.splitlines() if line.startswith(("| `", "| free"))]
    assert len(rows) >= 10
    titles = {
        re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    }
    for row in rows:
        _, alarm, said, what, _ = re.split(r"(?<!\\)\|", row)
        assert alarm.strip()
        assert said.strip()
        assert set(re.findall(r"\(#([a-z-]+)\)", what)) <= titles
        assert "](#" in what, alarm


@pytest.mark.parametrize(
    "said",
    [
        "another process uses the data folder",
        "cannot use the data folder",
        "can't listen on",
        "this broker serves no Kafka clients",
        "belongs to cluster",
        "belongs to broker",
        "written by a newer version",
        "was written by a newer version",
        "has been in use",
        "segments are missing",
        "make room",
        "check the disk, then start the controller again",
        "groups in use",
        "no controller has a connection to this broker",
        "the controllers have fenced this broker",
        "the broker is stopping",
        "replicas are not in sync yet",
        "can't read the log",
        "has not finished a write for too long",
        "but none leads",
    ],
)
def test_messages_on_the_page_are_the_codes(said: str) -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for room in ("node/tank_node", "controller/tank_controller", "client/tank_cli")
        for path in (ROOT / room).rglob("*.py")
    )
    assert said.lower() in PAGE.lower()
    assert said in code
