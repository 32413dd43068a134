"""Values: each is described and has a schema, defaults are the programs' own, nonsense is refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tank_controller import limits
from tank_node.app.config import OPTIONS
from tests.chart.helm import ROOT
from tests.chart.rendering import CHART, Object, RefusedError, by_key, read_values, render
from tests.chart.values_reference import PAGE, page, values

TEXT = (CHART / "values.yaml").read_text()
SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())
SAID = {
    "data",
    "listen",
    "http",
    "advertise",
    "outside_listen",
    "outside_advertise",
    "kafka",
    "kafka_advertise",
    "kafka_outside_listen",
    "kafka_outside_advertise",
    "broker_id",
    "cluster_id",
    "rack",
    "ready_wait_ms",
    "secret_file",
    "api_token_file",
    "iggy",
    "iggy_format",  # a topic's option says it, where one topic is to be stored otherwise
    "iggy_heartbeat",  # off, as by Iggy: TCP's keepalive finds the clients that are gone
}
"""Options of brokers that the chart itself sets, or that make no sense in a pod."""


def leaves(tree: Object, described: set[str], path: str = "") -> Iterator[str]:
    """Paths of values; what is described as a whole has no parts."""
    for key, value in tree.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, dict) and value and here not in described:
            yield from leaves(value, described, here)
        else:
            yield here


def in_schema(path: str) -> bool:
    node: Any = SCHEMA
    for key in path.split("."):
        node = node.get("properties", {}).get(key)
        if node is None:
            return False
    return True


def schema_leaves(schema: Object, described: set[str], path: str = "") -> Iterator[str]:
    for key, value in schema.get("properties", {}).items():
        here = f"{path}.{key}".lstrip(".")
        if "properties" in value and here not in described:
            yield from schema_leaves(value, described, here)
        else:
            yield here


def test_every_value_is_described_and_every_description_is_of_a_value() -> None:
    described = {each.path for each in values(TEXT)}
    assert described == set(leaves(read_values("values.yaml"), described))
    assert TEXT.count("# -- ") == len(described)


def test_every_value_has_a_schema_and_the_schema_no_others() -> None:
    described = {each.path for each in values(TEXT)}
    assert described == set(schema_leaves(SCHEMA, described)) - {"global"}
    assert all(map(in_schema, described))


def test_the_table_is_made_from_the_values() -> None:
    assert (ROOT / PAGE).read_text() == page(), f"run: python -m tests.chart.values_reference > {PAGE}"


@pytest.mark.parametrize("name", ["values-production.yaml", "values-monitoring.yaml"])
def test_the_other_files_change_only_values_that_there_are(name: str) -> None:
    described = {each.path for each in values(TEXT)}
    changed = list(leaves(read_values(name), described))
    assert changed
    assert set(changed) <= described | {"broker.config.log_format"}


def test_production_values_want_only_what_every_kubernetes_has() -> None:
    """No operator's kinds: those are refused where they are unknown."""
    apis = {one["apiVersion"] for one in render(read_values("values-production.yaml"))}
    assert apis == {"v1", "apps/v1", "policy/v1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"}
    watched = {one["kind"] for one in render(read_values("values-monitoring.yaml"))}
    assert watched >= {"ServiceMonitor", "PrometheusRule"}


def test_the_brokers_options_are_those_of_the_program() -> None:
    options: Object = SCHEMA["properties"]["broker"]["properties"]["config"]["properties"]
    assert set(options) == {option.name for option in OPTIONS} - SAID
    described = next(each.about for each in values(TEXT) if each.path == "broker.config")
    assert all(name in described for name in options)


def test_defaults_are_those_of_the_programs() -> None:
    assert read_values("values.yaml")["controller"]["sessionTimeoutMs"] == limits.SESSION_TIMEOUT_MS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"broker": {"replicas": 0}}, "/broker/replicas"),
        ({"broker": {"replica": 3}}, "replica"),
        ({"controller": {"replicas": 4}}, "/controller/replicas"),
        ({"broker": {"config": {"data": "/elsewhere"}}}, "data"),
        ({"broker": {"config": {"flush": "never"}}}, "/broker/config/flush"),
        ({"broker": {"storage": {"size": "ten"}}}, "/broker/storage/size"),
        ({"externalAccess": {"enabled": True}}, "/externalAccess/host"),
        ({"externalAccess": {"enabled": True, "type": "NodePort"}}, "/externalAccess/host"),
        ({"image": {"tag": 7}}, "/image/tag"),
        ({"persistence": {"whenDeleted": "Keep"}}, "/persistence/whenDeleted"),
        ({"security": {"runAsUser": 0}}, "/security/runAsUser"),
        ({"broker": {"config": {"iggy_era": "B4"}}}, "/broker/config/iggy_era"),
        ({"iggy": {"root": {"password": "iggy"}}}, "password"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: Object, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        render(given)


def test_the_image_is_the_digests_the_tags_or_the_charts_own_version() -> None:
    def image(**given: str) -> str:
        spec = by_key(render({"image": given}))["StatefulSet", "tank-broker"]["spec"]["template"]["spec"]
        name: str = spec["containers"][0]["image"]
        return name

    version = read_values("Chart.yaml")["appVersion"]
    assert image() == f"tank-cluster:{version}"
    assert image(repository="r.example/tank", tag="7") == "r.example/tank:7"
    digest = "sha256:" + "a1" * 32
    assert image(tag="7", digest=digest) == f"tank-cluster@{digest}"
