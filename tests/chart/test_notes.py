"""What `helm install` prints in the end, and what the pages say beside it, of who reaches whom."""

import shutil
from pathlib import Path

import pytest

from tests.chart.combinations import COMBINATIONS
from tests.chart.helm import ROOT
from tests.chart.rendering import CHART, Object, by_key, render

OPEN = "every client that reaches the brokers can read, write and delete everything"


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart with its notes in a ConfigMap: `helm template` doesn't render them."""
    copied = tmp_path / "tank"
    shutil.copytree(CHART, copied)
    notes = copied / "templates" / "NOTES.txt"
    (copied / "templates" / "_notes.tpl").write_text(
        f'{{{{ define "tank.notes" }}}}{notes.read_text()}{{{{ end }}}}'
    )
    (copied / "templates" / "notes.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: notes}, "
        'data: {text: {{ include "tank.notes" . | quote }}}}'
    )
    return copied


def notes(chart: Path, values: Object) -> str:
    text: str = by_key(render(values, chart=chart))["ConfigMap", "notes"]["data"]["text"]
    return text


@pytest.mark.parametrize(
    ("name", "is_open"),
    [("defaults", True), ("a closed network", True), ("a network closed but for some", False)],
)
def test_it_is_said_that_the_brokers_are_open_as_long_as_they_are(
    chart: Path, name: str, is_open: bool
) -> None:
    values = COMBINATIONS[name]
    assert (OPEN in notes(chart, values)) is is_open
    policy = by_key(render(values)).get(("NetworkPolicy", "tank-broker"))
    assert (policy is None or "from" not in policy["spec"]["ingress"][0]) is is_open


def test_nobody_calls_production_values_closed_which_name_no_clients() -> None:
    text = (CHART / "values-production.yaml").read_text()
    assert "a closed network" not in text
    assert "networkPolicy.clients" in text


def test_the_page_says_that_metrics_and_health_are_open_to_all() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert "`networkPolicy.monitoring`" in page


@pytest.mark.parametrize(
    ("root", "name", "key"),
    [({}, "tank-iggy-root", "root"), ({"secretName": "shared", "key": "a.line"}, "shared", "a.line")],
)
def test_it_is_said_how_to_read_the_root_user_of_iggys_clients(
    chart: Path, root: Object, name: str, key: str
) -> None:
    said = notes(chart, {"iggy": {"enabled": True, "root": root}, "service": {"iggyPort": 18090}})
    template = f'{{{{index .data "{key}" | base64decode}}}}{{{{"\\n"}}}}'
    assert f"  kubectl -n data get secret {name} -o go-template='{template}'" in said.splitlines()
    assert "tank.data.svc.cluster.local:18090" in said
    assert "iggy" not in notes(chart, {}).lower()
