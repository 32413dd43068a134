"""What the chart does for Spark, and the examples that lie beside it: they fit the chart, and each other."""

import re
from pathlib import Path

import pytest
import yaml

from tests.chart.combinations import COMBINATIONS, PEERS
from tests.chart.helm import ROOT
from tests.chart.rendering import CHART, Object, by_key, key_of, render
from tests.chart.schemas_of_kubernetes import faults, supported

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
OPEN = {"spark": {"networkPolicy": {"enabled": True}}}
RESTRICTED_POD = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def read(path: Path) -> list[Object]:
    return [document for document in yaml.load_all(path.read_text(), yaml.CSafeLoader) if document]


EVERY = [one for path in EXAMPLES for one in read(path)]
JOBS = [one for one in EVERY if one["kind"] == "Job"]
(APPLICATION,) = [one for one in EVERY if one["kind"] == "SparkApplication"]


def pod_of(job: Object) -> Object:
    spec: Object = job["spec"]["template"]["spec"]
    return spec


def words_of(job: Object) -> list[str]:
    (container,) = pod_of(job)["containers"]
    words: list[str] = container["args"]
    return words


def option(words: list[str], name: str) -> str:
    """The value of `--name=VALUE`, or of `--name VALUE`."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == f"--{name}":
            return after
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    raise AssertionError(f"no --{name} in {words}")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_kubernetes_takes_the_examples(path: Path) -> None:
    objects = read(path)
    assert objects
    found = [fault for one in objects for version in supported() if (fault := faults(one, version))]
    assert not found, "\n".join(found)


def test_the_schema_of_applications_sees_a_fault() -> None:
    wrong = {**APPLICATION, "spec": {**APPLICATION["spec"], "sparkVersions": "4"}}
    assert "sparkVersions" in faults(wrong, "1.30.0")


def test_the_template_of_executors_is_a_pod_that_may_run_anywhere() -> None:
    (template,) = read(ROOT / "spark" / "image" / "executor.yaml")
    assert not [fault for version in supported() if (fault := faults(template, version))]
    assert RESTRICTED_POD.items() <= template["spec"]["securityContext"].items()
    assert [each["securityContext"] for each in template["spec"]["containers"]] == [RESTRICTED_CONTAINER]


def test_the_examples_meet_the_restricted_security_level() -> None:
    for job in JOBS:
        (container,) = pod_of(job)["containers"]
        assert RESTRICTED_POD.items() <= pod_of(job)["securityContext"].items(), key_of(job)
        assert container["securityContext"] == RESTRICTED_CONTAINER, key_of(job)
    for role in ("driver", "executor"):
        assert RESTRICTED_POD.items() <= APPLICATION["spec"][role]["podSecurityContext"].items()
        assert APPLICATION["spec"][role]["securityContext"] == RESTRICTED_CONTAINER


def test_the_examples_run_one_image_and_the_spark_that_is_in_it() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    image = f"tank-spark:{version}"
    assert {pod_of(job)["containers"][0]["image"] for job in JOBS} == {image}
    assert APPLICATION["spec"]["image"] == image
    (named,) = [word for job in JOBS for word in words_of(job) if "container.image=" in word]
    assert named.endswith(f"={image}")
    dockerfile = (ROOT / "Dockerfile.spark").read_text()
    assert f"-t {image} ." in dockerfile
    assert f"\nARG SPARK={APPLICATION['spec']['sparkVersion']}\n" in dockerfile


def test_the_wheel_is_built_by_the_same_lines_for_both_images() -> None:
    """So that a builder takes what it made for the one from its cache for the other."""

    def stage(name: str) -> str:
        found = re.search(
            r"^FROM \S+ AS build\n.*?--outdir /wheel\n", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE
        )
        assert found is not None
        return found[0]

    assert stage("Dockerfile") == stage("Dockerfile.spark")


def test_the_examples_find_the_release_tank_beside_them() -> None:
    rendered = by_key(render(COMBINATIONS["Spark"]))
    port = rendered["Service", "tank"]["spec"]["ports"][0]
    assert port["name"] == "tank"
    for words in [*map(words_of, JOBS), APPLICATION["spec"]["arguments"]]:
        assert option(words, "servers") == f"tank:{port['port']}"
    accounts = {pod_of(job).get("serviceAccountName") for job in JOBS} - {None}
    assert accounts == {APPLICATION["spec"]["driver"]["serviceAccount"]} == {"tank-spark"}
    assert ("ServiceAccount", "tank-spark") in rendered


def test_a_pod_without_rights_has_no_token() -> None:
    for job in JOBS:
        rights = "serviceAccountName" in pod_of(job)
        assert pod_of(job).get("automountServiceAccountToken", True) is rights, key_of(job)


def test_the_examples_claim_the_volumes_that_they_use() -> None:
    claims = {one["metadata"]["name"]: one["spec"] for one in EVERY if one["kind"] == "PersistentVolumeClaim"}
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for spec in [*map(pod_of, JOBS), APPLICATION["spec"]]
        for volume in spec.get("volumes", [])
    }
    assert used == set(claims)
    (driven,) = [words_of(job) for job in JOBS if "serviceAccountName" in pod_of(job)]
    (shared,) = [word.rpartition("=")[2] for word in driven if "claimName=" in word]
    assert claims[shared]["accessModes"] == ["ReadWriteMany"]
    (mounted,) = [word.rpartition("=")[2] for word in driven if ".mount.path=" in word]
    assert mounted == option(driven, "out")


def test_what_the_examples_run_is_in_the_image() -> None:
    dockerfile = (ROOT / "Dockerfile.spark").read_text()
    for words in map(words_of, JOBS):
        named = [word for word in words if word.startswith("/app/") and word.endswith(".py")]
        named += [
            f"/app/{module.replace('.', '/')}.py"
            for module in words
            if re.fullmatch(r"examples\.\w+", module)
        ]
        assert named
        for path in named:
            source = path.removeprefix("/app/")
            assert re.search(rf"^COPY .*\b{re.escape(source)} .*/app/examples/$", dockerfile, re.MULTILINE), (
                path
            )
            assert f"!{source}\n" in (ROOT / ".dockerignore").read_text(), path
            assert (ROOT / source).exists()


def test_drivers_and_executors_reach_each_other_where_the_network_is_closed() -> None:
    spec = by_key(render(OPEN))["NetworkPolicy", "tank-spark"]["spec"]
    (rule,) = spec["ingress"]
    (peer,) = rule["from"]
    assert peer["podSelector"] == spec["podSelector"]
    assert "ports" not in rule, "Spark chooses its ports"
    (roles,) = spec["podSelector"]["matchExpressions"]
    assert roles == {"key": "spark-role", "operator": "In", "values": ["driver", "executor"]}


def test_they_reach_brokers_that_are_closed_to_others() -> None:
    closed = {"networkPolicy": {"enabled": True, "clients": PEERS}, **OPEN}
    by = by_key(render(closed))
    opened = by["NetworkPolicy", "tank-spark-to-brokers"]["spec"]
    assert opened["podSelector"] == by["NetworkPolicy", "tank-broker"]["spec"]["podSelector"]
    (rule,) = opened["ingress"]
    assert rule["ports"] == [{"port": port, "protocol": "TCP"} for port in ("tank", "kafka")]


@pytest.mark.parametrize(
    "closed", [{}, {"networkPolicy": {"enabled": True}}], ids=["open", "open to clients"]
)
def test_brokers_that_are_open_to_all_are_not_closed_to_all_but_spark(closed: Object) -> None:
    """A policy that chooses a pod forbids what none allows: brokers could not reach each other."""
    assert ("NetworkPolicy", "tank-spark-to-brokers") not in by_key(render({**closed, **OPEN}))
