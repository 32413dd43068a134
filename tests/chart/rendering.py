"""The chart as Helm renders it, for the tests: as objects."""

import copy
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tank_node.app.config import OPTIONS, NodeConfig, load
from tests.chart.helm import ROOT, find

CHART = ROOT / "charts" / "tank"
KUBERNETES = "1.34"
Object = dict[str, Any]
"""One object of Kubernetes, as its YAML has it."""


class RefusedError(RuntimeError):
    """Helm doesn't render it; the message is Helm's."""


@functools.cache
def helm() -> str:
    """The program; looked for once."""
    return str(find())


def run_helm(*arguments: str | Path, given: str | None = None) -> str:
    """What a Helm command writes. RefusedError."""
    command = [helm(), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    if done.returncode:
        raise RefusedError(done.stderr + done.stdout)
    return done.stdout


@functools.cache
def _rendered(values: str, release: str, namespace: str, kubernetes: str, chart: Path) -> list[Object]:
    text = run_helm(
        "template", release, chart, "--namespace", namespace, "--kube-version", kubernetes, "--values", "-",
        given=values,
    )  # fmt: skip
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def render(
    values: Object | None = None,
    release: str = "tank",
    namespace: str = "data",
    kubernetes: str = KUBERNETES,
    chart: Path = CHART,
) -> list[Object]:
    """All objects. RefusedError."""
    return copy.deepcopy(_rendered(json.dumps(values or {}), release, namespace, kubernetes, chart))


def key_of(one: Object) -> tuple[str, str]:
    """Kind and name."""
    return one["kind"], one["metadata"]["name"]


def by_key(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name; each is there once."""
    found = {key_of(one): one for one in objects}
    assert len(found) == len(objects), "an object is rendered twice"
    return found


def stateful_set(objects: list[Object], kind: str, release: str = "tank") -> Object:
    """That of the `controller` or the `broker`."""
    return by_key(objects)["StatefulSet", f"{release}-{kind}"]


def pod(objects: list[Object], kind: str) -> Object:
    """The spec of its pods."""
    spec: Object = stateful_set(objects, kind)["spec"]["template"]["spec"]
    return spec


def container(objects: list[Object], kind: str) -> Object:
    """Our container of its pods."""
    containers: list[Object] = pod(objects, kind)["containers"]
    (ours,) = [each for each in containers if each["name"] == kind]
    return ours


def environment(objects: list[Object], kind: str) -> dict[str, str]:
    """Its variables that have a text for a value."""
    return {each["name"]: each["value"] for each in container(objects, kind)["env"] if "value" in each}


def read_values(name: str) -> Object:
    """A values file of the chart."""
    values: Object = yaml.load((CHART / name).read_text(), yaml.CSafeLoader)
    return values


def config_of_broker(objects: list[Object], ordinal: int) -> NodeConfig:
    """As the process of that pod reads its options."""
    data = by_key(objects)["ConfigMap", "tank-broker"]["data"]
    pod_name = f"tank-broker-{ordinal}"
    known = {option.variable for option in OPTIONS} | {"TANK_CONFIG"}
    given = {
        name: value.replace("$(POD_NAME)", pod_name)
        for name, value in environment(objects, "broker").items()
        if name in known - {"TANK_BROKER_ID"}
    }
    return load({}, given, lambda path: data[path.removeprefix("/etc/tank/")].encode())
