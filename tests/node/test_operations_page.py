"""docs/operations.md names the metrics that there are, and the messages that there are."""

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from tank_node.monitoring.health import Health
from tank_node.monitoring.http import HttpServer
from tank_node.monitoring.metrics_collector import MetricsCollector
from tests.support.bench_node import BenchNode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def exported(folder: Path) -> dict[str, str]:
    """Names, with the text of their HELP lines, as a scrape shows them."""
    with BenchNode(folder / "data") as node:
        http = HttpServer(lambda: MetricsCollector(node.broker, node.metrics), lambda: Health(True))
        answer = asyncio.run(http._metrics(make_mocked_request("GET", "/metrics")))
    assert isinstance(answer.body, bytes)
    return dict(re.findall(r"^# HELP (\S+) (.*)$", answer.body.decode(), re.MULTILINE))


def test_the_table_has_every_metric_and_no_other(tmp_path: Path) -> None:
    table = PAGE[PAGE.index("| Metric |") : PAGE.index("Wake somebody for")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(exported(tmp_path))


def test_names_have_their_unit_last_and_say_what_they_are(tmp_path: Path) -> None:
    for name, about in exported(tmp_path).items():
        assert about[:1].isupper(), name
        assert re.fullmatch(r"(tank|process)(_[a-z]+)+", name)
        unit = re.search(r"_(bytes|seconds|ms)", name)
        assert unit is None or re.search(r"_(bytes|seconds)(_total)?$", name), name


def test_alerts_are_about_metrics_that_there_are(tmp_path: Path) -> None:
    known = set(exported(tmp_path))
    expressions = PAGE[PAGE.index("Wake somebody for") : PAGE.index("## When it refuses")]
    used = set(re.findall(r"\b(?:tank|process)_\w+", expressions))
    assert used
    assert {name.removesuffix("_bucket") for name in used} <= known


@pytest.mark.parametrize(
    "said",
    [
        "another process uses the data folder",
        "cannot use the data folder",
        "can't listen on",
        "belongs to cluster",
        "belongs to broker",
        "written by a newer version",
        "was written by a newer version",
        "has been in use",
        "files are missing or damaged",
        "make room",
        "check the disk, then start the controller again",
        "groups in use",
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
