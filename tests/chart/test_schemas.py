"""Helm finds no fault in the chart, and each Kubernetes since 1.25 takes it, whatever the values."""

import functools
import json
from pathlib import Path

import pytest
from kubernetes_validate import utils as kubernetes_schemas

from tests.chart.combinations import COMBINATIONS
from tests.chart.rendering import CHART, key_of, render, run_helm
from tests.chart.schemas_of_kubernetes import OLDEST, faults, supported


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> None:
    """The package parses several megabytes anew for each object."""
    kubernetes_schemas.schema_contents = functools.cache(kubernetes_schemas.schema_contents)


def test_there_are_schemas_of_every_version_since_the_oldest() -> None:
    versions = supported()
    assert versions[0].startswith("1.25")
    assert len(versions) >= 10
    assert f">={'.'.join(map(str, OLDEST))}" in (CHART / "Chart.yaml").read_text()


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_kubernetes_takes_it(name: str) -> None:
    found = [
        f"Kubernetes {kubernetes}: {fault}"
        for one in render(COMBINATIONS[name])
        for kubernetes in supported()
        if (fault := faults(one, kubernetes))
    ]
    assert not found, "\n".join(found)


def test_a_field_of_a_later_kubernetes_is_rendered_for_those_who_name_it() -> None:
    values = {"broker": {"podDisruptionBudget": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}}
    (budget,) = [one for one in render(values) if key_of(one) == ("PodDisruptionBudget", "tank-broker")]
    knowing = [version for version in supported() if tuple(map(int, version.split(".")[:2])) >= (1, 26)]
    assert not [fault for version in knowing if (fault := faults(budget, version))]


def test_it_renders_the_same_for_every_kubernetes() -> None:
    """So the schemas judge what any version is given."""
    values = COMBINATIONS["all at once"]
    assert render(values, kubernetes="1.25.0") == render(values, kubernetes="1.99.0")


@pytest.mark.parametrize("name", COMBINATIONS)
def test_helm_finds_no_fault(name: str, tmp_path: Path) -> None:
    (tmp_path / "values.json").write_text(json.dumps(COMBINATIONS[name]))
    run_helm("lint", "--strict", "--values", tmp_path / "values.json", CHART)


def test_a_fault_is_seen() -> None:
    objects = {key_of(one): one for one in render(COMBINATIONS["watched"])}
    broker = objects["StatefulSet", "tank-broker"]
    broker["spec"]["template"]["spec"]["containers"][0]["imagePullPolicies"] = "Never"
    assert "imagePullPolicies" in faults(broker, "1.30.0")
    monitor = objects["ServiceMonitor", "tank-broker"]
    monitor["spec"]["endpoints"][0]["intervals"] = "1s"
    assert "intervals" in faults(monitor, "1.30.0")
