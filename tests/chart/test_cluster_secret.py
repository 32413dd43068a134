"""The cluster's secret in the chart: who has it, who makes it, and that an upgrade keeps it."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tank_protos.cluster_secret import parse
from tests.chart.rendering import CHART, Object, by_key, container, pod, render

KINDS = ("controller", "broker")


def mounted(objects: list[Object], kind: str) -> tuple[Any, Any, Any]:
    """(the variable, the mount, the volume) of a pod; None: it has none."""
    its = container(objects, kind)
    variable = {each["name"]: each.get("value") for each in its["env"]}.get("TANK_SECRET_FILE")
    mount = {each["name"]: each["mountPath"] for each in its["volumeMounts"]}.get("cluster-secret")
    volumes = pod(objects, kind).get("volumes", [])
    return variable, mount, {each["name"]: each.get("secret") for each in volumes}.get("cluster-secret")


@pytest.mark.parametrize("kind", KINDS)
def test_all_pods_have_the_secret_that_the_chart_makes(kind: str) -> None:
    objects = render({})
    volume = {"secretName": "tank-secret", "items": [{"key": "secret", "path": "secret"}]}
    assert mounted(objects, kind) == ("/etc/tank-secret/secret", "/etc/tank-secret", volume)
    made = by_key(objects)["Secret", "tank-secret"]["data"]["secret"]
    [line] = parse(base64.b64decode(made), "the chart's Secret").lines
    assert len(line) == 64


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_that_is_named_is_used_and_none_made(kind: str) -> None:
    named: Object = {"clusterSecret": {"secretName": "shared", "key": "line"}}
    objects = render(named)
    assert not [each for each in objects if each["kind"] == "Secret"]
    assert mounted(objects, kind)[2] == {"secretName": "shared", "items": [{"key": "line", "path": "secret"}]}


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_secret_there_is_no_trace_of_one(kind: str) -> None:
    objects = render({"clusterSecret": {"enabled": False}})
    assert mounted(objects, kind) == (None, None, None)
    assert not [each for each in objects if each["kind"] == "Secret"]


def test_an_upgrade_keeps_the_secret_that_it_finds(tmp_path: Path) -> None:
    chart = tmp_path / "tank"
    shutil.copytree(CHART, chart)
    live = {"data": {"secret": base64.b64encode(b"k" * 64).decode()}}
    # `helm template` looks nothing up.
    found = {"live": {}, "found": live}
    defined = (
        f'{{{{ define "tank.{name}" }}}}{json.dumps(known)}{{{{ end }}}}' for name, known in found.items()
    )
    (chart / "templates" / "_live.tpl").write_text("".join(defined))
    assert by_key(render({}, chart=chart))["Secret", "tank-secret"]["data"] == live["data"]
