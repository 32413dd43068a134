"""What objects are called, by the release's name and the values that change it; addresses follow."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.chart.combinations import COMBINATIONS
from tests.chart.rendering import CHART, Object, RefusedError, by_key, key_of, render

LONG = "a" * 53
"""As long as a release's name may be."""


def names(values: Object | None = None, release: str = "tank", chart: Path = CHART) -> list[str]:
    return sorted(one["metadata"]["name"] for one in render(values, release=release, chart=chart))


def set_names(values: Object | None = None, release: str = "tank", chart: Path = CHART) -> list[str]:
    found = render(values, release=release, chart=chart)
    return sorted(one["metadata"]["name"] for one in found if one["kind"] == "StatefulSet")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"nameOverride": "b" * 60},
        {"fullnameOverride": "c" * 200},
        {"fullnameOverride": f"{'d' * 30}.{'e' * 30}"},
    ],
    ids=str,
)
def test_names_fit_however_long_they_are(given: Object) -> None:
    for one in render({**COMBINATIONS["all at once"], **given}, release=LONG):
        name = one["metadata"]["name"]
        assert len(name) <= (253 if one["kind"].startswith("ClusterRole") else 63), key_of(one)
        if one["kind"] == "StatefulSet":  # a label of its pods is this name and ten characters of a hash
            assert len(name) <= 52
            assert len(f"data-{name}-100") <= 63


def test_two_long_names_that_begin_alike_are_not_the_same() -> None:
    assert not set(set_names(release=LONG)) & set(set_names(release=LONG[:-1] + "b"))
    assert re.fullmatch("a{31}-[0-9a-f]{8}-broker", set_names(release=LONG)[0])
    assert set_names(release="a" * 40)[0] == "a" * 40 + "-broker", "as long as that it stays whole"


def test_a_long_name_that_an_older_chart_has_cut_stays_as_it_is(tmp_path: Path) -> None:
    def installed_by(release: str) -> Path:
        chart = tmp_path / release / "tank"
        shutil.copytree(CHART, chart)
        noted = {"meta.helm.sh/release-name": release, "tank/replicas-value": "3"}
        claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "10Gi"}}}}
        live = {
            "metadata": {"annotations": noted}, "spec": {"replicas": 3, "volumeClaimTemplates": [claim]}
        }  # fmt: skip
        live_template = chart / "templates" / "_live.tpl"
        found = re.sub(r"\{\{ lookup .*\}\}", json.dumps(live), live_template.read_text())
        assert json.dumps(live) in found
        live_template.write_text(found)
        return chart

    sizes = {"controller": {"storage": {"size": "10Gi"}}}
    assert set_names(sizes, LONG, installed_by(LONG))[0] == "a" * 40 + "-broker"
    others = installed_by(LONG[:-1] + "b")
    assert set_names(sizes, LONG, others)[0] != "a" * 40 + "-broker", "that is another release's"


@pytest.mark.parametrize(
    ("given", "release", "name"),
    [
        ({"nameOverride": "log"}, "orders", "orders-log"),
        ({"nameOverride": "log"}, "orders-log", "orders-log"),
        ({"fullnameOverride": "log"}, "orders", "log"),
        ({"fullnameOverride": "log", "nameOverride": "x"}, "orders", "log"),
        ({"fullnameOverride": "log"}, "7orders", "log"),
        ({}, "my.tank", "my-tank"),
    ],
)
def test_overrides_name_all_objects(given: Object, release: str, name: str) -> None:
    for each in names({**COMBINATIONS["all at once"], **given}, release):
        beginnings = (name, f"data-{name}", f"{release}-more")
        assert each.startswith(beginnings), each
    labels = by_key(render(given, release=release))["Service", name]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == given.get("nameOverride", "tank")
    assert labels["app.kubernetes.io/instance"] == release


def test_what_processes_and_rights_and_alerts_say_follows_the_names() -> None:
    values = {**COMBINATIONS["all at once"], "fullnameOverride": "log"}
    text = json.dumps(render(values, release="orders"))
    assert not re.search(r"orders-(broker|controller|members|spark|dashboard)", text)
    by = by_key(render(values, release="orders"))
    members = by["ConfigMap", "log-members"]["data"]
    assert members["cluster"].startswith("0=log-controller-0.log-controller.data.svc")
    given = by["StatefulSet", "log-controller"]["spec"]["template"]["spec"]["containers"][0]["env"]
    told = {each["name"]: each.get("value") for each in given}
    assert told["TANK_KUBERNETES_BROKERS"] == "log-broker"
    assert told["TANK_KUBERNETES_CONTROLLERS"] == "log-controller"
    assert told["TANK_SERVERS"].startswith("log.data.svc.")


def test_a_release_that_no_service_can_be_named_after_is_refused() -> None:
    with pytest.raises(RefusedError, match="begins with a letter: set fullnameOverride"):
        render(release="7tank")
    for name in ("Log", "7log", "-log"):
        with pytest.raises(RefusedError, match="/fullnameOverride"):
            render({"fullnameOverride": name})


def test_own_labels_and_annotations_have_a_domain_before_them() -> None:
    """So that no other software's are the same."""

    def keys(found: object) -> set[str]:
        if isinstance(found, dict):
            own = {key for field in ("labels", "annotations") for key in found.get(field) or {}}
            return own.union(*map(keys, found.values()))
        return set[str]().union(*map(keys, found)) if isinstance(found, list) else set()

    prefixed = {key for key in keys(render(COMBINATIONS["watched"])) if "/" in key}
    domains = {key.split("/")[0] for key in prefixed}
    assert "tank-cluster.internal" in domains
    assert all("." in domain for domain in domains), domains
