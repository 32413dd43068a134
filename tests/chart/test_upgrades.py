"""What an upgrade changes: pods roll only when they must, what Kubernetes never changes stays as it was."""

import itertools
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chart.combinations import COMBINATIONS
from tests.chart.helm import ROOT
from tests.chart.rendering import CHART, Object, RefusedError, by_key, read_values, render, stateful_set

RECORDED = Path(__file__).parent / "immutable.json"
"""What Kubernetes refuses to change, as the chart's first version rendered it. It is not to be edited: who
has that version installed could not upgrade."""
MUTABLE = {
    "replicas",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
}


def immutable(objects: list[Object]) -> dict[str, Any]:
    """By kind and name, what can't be changed in place. What values say of volumes is left out."""
    found: dict[str, Any] = {}
    for one in objects:
        name = f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] == "StatefulSet":
            fixed = {key: value for key, value in one["spec"].items() if key not in MUTABLE}
            for claim in fixed["volumeClaimTemplates"]:
                claim["metadata"] = {"name": claim["metadata"]["name"]}
                del claim["spec"]["resources"]
                claim["spec"].pop("storageClassName", None)
            found[name] = fixed
        elif one["kind"] == "Service":
            found[name] = {"clusterIP": one["spec"].get("clusterIP")}
        elif one["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            found[name] = one["roleRef"]
    return found


def rolled(given: Object, chart: Path = CHART) -> set[str]:
    """Whose pods these values replace in a cluster that was installed with the defaults."""
    before, after = render(), render(given, chart=chart)
    return {
        kind
        for kind in ("controller", "broker")
        if stateful_set(before, kind)["spec"]["template"] != stateful_set(after, kind)["spec"]["template"]
    }


@pytest.fixture
def next_chart(tmp_path: Path) -> Path:
    """The same chart in its next version, with the image named as before."""
    chart = tmp_path / "tank"
    shutil.copytree(CHART, chart)
    own = read_values("Chart.yaml")
    (chart / "Chart.yaml").write_text(json.dumps({**own, "version": "0.1.1", "appVersion": "0.1.1"}))
    return chart


@pytest.fixture
def upgraded(tmp_path: Path) -> Callable[..., list[Object]]:
    """Renders the chart as an upgrade does that finds StatefulSets with so many pods, volumes of this size
    and class, and this number of pods in the values that they were last rendered with."""
    copies = itertools.count()

    def render_upgrade(
        values: Object,
        replicas: int,
        size: str = "10Gi",
        value: str = "3",
        storage_class: str = "",
        noted_as: str = "tank-cluster.internal/replicas-value",
        claims: int = 1,
    ) -> list[Object]:
        claim: Object = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}}}
        if storage_class:
            claim["spec"]["storageClassName"] = storage_class
        live = {
            "metadata": {"annotations": {noted_as: value}},
            "spec": {"replicas": replicas, "volumeClaimTemplates": [claim] * claims},
        }
        chart = tmp_path / str(next(copies)) / "tank"
        shutil.copytree(CHART, chart)
        # `helm template` looks nothing up.
        found = "".join(
            f'{{{{ define "tank.{name}" }}}}{json.dumps(known)}{{{{ end }}}}'
            for name, known in (("live", live), ("found", {}))
        )
        (chart / "templates" / "_live.tpl").write_text(found)
        given: Object = {}
        for kind in ("controller", "broker"):
            its = values.get(kind, {})
            given[kind] = {**its, "storage": {"size": "10Gi", **its.get("storage", {})}}
        return render(given, chart=chart)

    return render_upgrade


@pytest.mark.parametrize("kind", ["controller", "broker"])
def test_an_upgrade_leaves_the_number_of_pods_alone_until_its_value_is_changed(
    kind: str, upgraded: Callable[..., list[Object]]
) -> None:
    def number(values: Object, **live: object) -> int:
        found: int = stateful_set(upgraded(values, **live), kind)["spec"]["replicas"]
        return found

    assert number({}, replicas=5) == 5, "kubectl scale"
    assert number({}, replicas=5, noted_as="tank/replicas-value") == 5, "by a chart of before"
    assert number({kind: {"replicas": 1}}, replicas=5) == 1, "the value was changed"
    assert number({}, replicas=1, value="5") == 3, "and back"
    kept = stateful_set(upgraded({}, replicas=5), kind)["metadata"]["annotations"][
        "tank-cluster.internal/replicas-value"
    ]
    assert kept == "3", "the value, and not the number: the next upgrade compares it"


def test_an_upgrade_of_a_cluster_that_is_scaled_to_nothing_still_says_where_controllers_will_be(
    upgraded: Callable[..., list[Object]],
) -> None:
    objects = upgraded({}, replicas=0)
    assert stateful_set(objects, "controller")["spec"]["replicas"] == 0
    said = by_key(objects)["ConfigMap", "tank-members"]["data"]
    assert [each.partition("=")[0] for each in said["cluster"].split(",")] == ["0", "1", "2"]
    assert said["controllers"].count("tank-controller-") == 3


@pytest.mark.parametrize("kind", ["controller", "broker"])
def test_another_size_is_refused_with_what_to_do_and_how_many_pods_there_are(
    kind: str, upgraded: Callable[..., list[Object]]
) -> None:
    with pytest.raises(RefusedError) as refused:
        upgraded({kind: {"storage": {"size": "20Gi"}}}, replicas=5)
    said = str(refused.value)
    assert f"{kind}.storage.size is 20Gi, the StatefulSet tank-{kind} has 10Gi" in said
    assert f"kubectl -n data delete statefulset tank-{kind} --cascade=orphan" in said
    assert f"--set {kind}.replicas=5" in said


@pytest.mark.parametrize("size", ["10240Mi", "10.0Gi", "10737418240", "10737418.24k"])
def test_the_same_size_written_otherwise_is_no_other_size(
    size: str, upgraded: Callable[..., list[Object]]
) -> None:
    assert upgraded({}, replicas=3, size=size)


@pytest.mark.parametrize("kind", ["controller", "broker"])
@pytest.mark.parametrize(("before", "wanted"), [("", "fast"), ("fast", ""), ("fast", "faster")])
def test_another_storage_class_is_refused_with_what_to_do_and_how_many_pods_there_are(
    kind: str, before: str, wanted: str, upgraded: Callable[..., list[Object]]
) -> None:
    other = "broker" if kind == "controller" else "controller"
    values = {kind: {"storage": {"className": wanted}}, other: {"storage": {"className": before}}}
    with pytest.raises(RefusedError) as refused:
        upgraded(values, replicas=5, storage_class=before)
    said = str(refused.value)
    assert f'{kind}.storage.className is "{wanted}", the StatefulSet tank-{kind} has "{before}"' in said
    assert f"kubectl -n data delete statefulset tank-{kind} --cascade=orphan" in said
    assert f"--set {kind}.replicas=5" in said
    assert f"kubectl -n data delete pvc data-tank-{kind}-0" in said


@pytest.mark.parametrize("kind", ["controller", "broker"])
def test_other_labels_of_volumes_are_refused_with_what_to_do(
    kind: str, upgraded: Callable[..., list[Object]]
) -> None:
    for field in ("labels", "annotations"):
        with pytest.raises(RefusedError) as refused:
            upgraded({kind: {"storage": {field: {"backup": "daily"}}}}, replicas=5)
        said = str(refused.value)
        assert f'{kind}.storage.{field} is {{"backup":"daily"}}' in said
        assert f"delete statefulset tank-{kind} --cascade=orphan" in said


@pytest.mark.parametrize(("wanted", "claims"), [(True, 1), (False, 0)])
def test_volumes_neither_come_nor_go_by_an_upgrade(
    wanted: bool, claims: int, upgraded: Callable[..., list[Object]]
) -> None:
    values = {kind: {"storage": {"emptyDir": wanted}} for kind in ("controller", "broker")}
    with pytest.raises(RefusedError, match="install another cluster under another name"):
        upgraded(values, replicas=3, claims=claims)


@pytest.mark.parametrize("storage_class", ["", "fast"])
def test_the_same_storage_class_is_no_other(
    storage_class: str, upgraded: Callable[..., list[Object]]
) -> None:
    named = {"storage": {"className": storage_class}}
    assert upgraded({"controller": named, "broker": named}, replicas=3, storage_class=storage_class)


@pytest.mark.parametrize("name", [name for name in COMBINATIONS if name != "for tries"])
def test_what_kubernetes_never_changes_is_as_the_first_version_had_it(name: str) -> None:
    recorded = json.loads(RECORDED.read_text())
    now = immutable(render(COMBINATIONS[name]))
    assert {key: now[key] for key in now.keys() & recorded.keys()} == {
        key: recorded[key] for key in now.keys() & recorded.keys()
    }
    assert now.keys() >= {"StatefulSet tank-broker", "StatefulSet tank-controller"} <= recorded.keys()


@pytest.mark.parametrize("release", ["tank", "orders"])
def test_another_version_of_the_chart_changes_nothing_immutable(release: str, next_chart: Path) -> None:
    old, new = render(release=release), render(release=release, chart=next_chart)
    assert immutable(old) == immutable(new)
    assert by_key(old).keys() == by_key(new).keys()


def test_another_version_of_the_chart_with_the_same_image_rolls_nobody(next_chart: Path) -> None:
    tag = {"image": {"tag": read_values("Chart.yaml")["appVersion"]}}
    assert rolled(tag, next_chart) == set()
    assert rolled({}, next_chart) == {"controller", "broker"}


@pytest.mark.parametrize(
    ("given", "whose"),
    [
        ({"broker": {"config": {"log_level": "debug"}}}, {"broker"}),
        ({"broker": {"resources": {"requests": {"cpu": "2"}}}}, {"broker"}),
        ({"controller": {"sessionTimeoutMs": 9000}}, {"controller"}),
        ({"image": {"tag": "0.1.1"}}, {"controller", "broker"}),
        ({"imagePullSecrets": ["registry"]}, {"controller", "broker"}),
        ({"security": {"fsGroup": 7}}, {"controller", "broker"}),
        ({"topologySpread": {"zones": ""}}, {"controller", "broker"}),
        ({"clusterDomain": "x.org"}, {"controller", "broker"}),
        ({"service": {"port": 7000}}, {"controller", "broker"}),
        ({"externalAccess": {"enabled": True, "host": "b-{n}.example.org"}}, {"broker"}),
        ({"rackFromNode": {"enabled": True}}, {"broker"}),
        ({"kafka": {"enabled": False}}, {"broker"}),
        ({"iggy": {"enabled": True}}, {"broker"}),
        ({"controller": {"probes": {"readiness": {"failureThreshold": 3}}}}, {"controller"}),
        ({"broker": {"extraVolumes": [{"name": "more", "emptyDir": {}}]}}, {"broker"}),
        ({"broker": {"readyWaitSeconds": 60}}, {"broker"}),
        # These are nothing to a pod.
        ({"broker": {"replicas": 5}}, set()),
        ({"controller": {"replicas": 5}}, set()),
        ({"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}}, set()),
        ({"commonLabels": {"team": "streams"}, "commonAnnotations": {"team": "streams"}}, set()),
        ({"broker": {"labels": {"a": "b"}, "updateStrategy": {"partition": 2}}}, set()),
        ({"service": {"sourceRanges": ["192.0.2.0/24"], "labels": {"a": "b"}}}, set()),
        ({"networkPolicy": {"enabled": True}}, set()),
        ({"service": {"kafkaPort": 19092}}, set()),
        ({"service": {"iggyPort": 18090}}, set()),
        ({"monitoring": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}}}, set()),
        ({"persistence": {"whenDeleted": "Delete"}}, set()),
        ({"broker": {"podDisruptionBudget": {"maxUnavailable": 2}}}, set()),
        ({"spark": {"rbac": {"enabled": True}}}, set()),
    ],
    ids=lambda given: str(sorted(given)),
)
def test_a_setting_rolls_only_what_must_roll(given: Object, whose: set[str]) -> None:
    assert rolled(given) == whose


def test_the_page_names_what_rolls_all_pods() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `image`") and line.endswith("| all |")]
    rolling = {"image", "imagePullSecrets", "security", "topologySpread", "clusterDomain", "service.port"}
    assert set(re.findall(r"`([\w.]+)`", row)) == rolling


def test_one_more_outside_address_rolls_nobody_and_another_host_does() -> None:
    def annotations(**given: object) -> Object:
        objects = render({"externalAccess": {"enabled": True, "host": "b-{n}.example.org", **given}})
        template: Object = stateful_set(objects, "broker")["spec"]["template"]
        return template

    assert annotations() == annotations(brokers=9)
    assert annotations() == annotations(annotations={"a": "b"}, sourceRanges=["192.0.2.0/24"])
    assert annotations() != annotations(host="c-{n}.example.org")


def test_the_chart_installs_the_software_beside_it() -> None:
    software = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = read_values("Chart.yaml")
    assert chart["appVersion"] == software
    assert f"ARG VERSION={software}" in (ROOT / "Dockerfile").read_text()
    assert f"| {chart['version']} | {software} |" in (ROOT / "docs" / "kubernetes.md").read_text()
