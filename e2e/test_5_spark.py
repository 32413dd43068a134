"""The flights through the Service, over the death of a broker: every one is counted, and once.

By the examples that lie beside the chart, as they stand but for the image's name: Spark in local mode in one
pod, and with its executors in pods of their own.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support import images
from e2e.support.environment import Environment
from e2e.support.kubernetes import Kubernetes, run
from e2e.support.release import CHART, NAME, Release
from e2e.support.waiting import PATIENCE_S, until
from examples.flights_data import FLIGHTS, NEVER_LEFT, WITHOUT_WEATHER

IMAGE, IN_EXAMPLES = "localhost/tank-spark", "tank-spark:0.1.0"
TOPIC, RESULT_TOPIC, PARTITIONS = "flights", "flights-by-hour", 4
LOAD = "flights-load"
PACE, SLOWER = '--seconds, "90"', '--seconds, "120"'
"""How long the flights take. A broker dies when a quarter of them is there, and most are to come after it."""
READING = f"reading {TOPIC!r}"
"""What the pipeline prints when its queries have begun."""
ONE_NODE = "rancher.io/local-path"
"""A provisioner (kind's) that refuses ReadWriteMany. Its volumes keep all their pods on one node anyway."""
LOOK_EVERY_S = 2.0
JOB_S = 900.0


@pytest.fixture(scope="session")
def spark_image(environment: Environment) -> str:
    """Its name; all nodes have it."""
    return brought(environment)


def brought(environment: Environment) -> str:
    """The image that is named, or one that is built and loaded. Skips where it can't be."""
    if environment.spark_image:
        return environment.spark_image
    if not environment.image_load:
        pytest.skip("NO SPARK HERE: set TANK_IMAGE_LOAD, or TANK_SPARK_IMAGE to an image that is there")
    name, archive = images.built(IMAGE, "Dockerfile.spark")
    images.load(archive, environment.image_load)
    return name


@pytest.fixture(scope="session")
def sparks_release(release: Release) -> Release:
    """With the account that drivers run as."""
    release.upgrade("spark.rbac.enabled=true")
    return release


@pytest.fixture
def topics(sparks_release: Release) -> Iterator[Release]:
    """Empty ones."""
    for topic, partitions in ((TOPIC, PARTITIONS), (RESULT_TOPIC, 1)):
        sparks_release.tank("topic", "create", topic, "--partitions", str(partitions))
    yield sparks_release
    sparks_release.tank("topic", "delete", TOPIC, RESULT_TOPIC, "--yes")


def example(name: str, image: str) -> list[dict[str, Any]]:
    """Its objects."""
    text = Path(CHART / "examples" / f"{name}.yaml").read_text()
    assert IN_EXAMPLES in text
    if name == LOAD:
        assert PACE in text
        text = text.replace(PACE, SLOWER)
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(text.replace(IN_EXAMPLES, image)))
    for one in objects:
        if one["kind"] == "PersistentVolumeClaim" and default_provisioner() == ONE_NODE:
            one["spec"]["accessModes"] = ["ReadWriteOnce"]
    return objects


def default_provisioner() -> str:
    """Of volumes whose claims name no class."""
    for each in json.loads(run("kubectl", "get", "storageclass", "-o", "json"))["items"]:
        annotations = each["metadata"].get("annotations", {})
        if annotations.get("storageclass.kubernetes.io/is-default-class") == "true":
            return str(each["provisioner"])
    return ""


@contextlib.contextmanager
def applied(kubernetes: Kubernetes, name: str, image: str) -> Iterator[str]:
    """An example, and the name of its Job. All of it goes in the end."""
    objects = example(name, image)
    (job,) = [one["metadata"]["name"] for one in objects if one["kind"] == "Job"]
    for one in objects:
        kubernetes.apply(one)
    try:
        yield job
    finally:
        for one in reversed(objects):
            kind = one["kind"].lower()
            kubernetes.kubectl(
                "delete", kind, one["metadata"]["name"], "--ignore-not-found", "--timeout=120s"
            )


def log_of(kubernetes: Kubernetes, job: str) -> str:
    """What its program printed; empty before it runs. The pod's of now, where it was replaced."""
    pods = kubernetes.get("pods", "-l", f"job-name={job}", "--sort-by=.metadata.creationTimestamp")
    if not pods or pods[-1]["status"]["phase"] == "Pending":
        return ""
    return kubernetes.kubectl("logs", pods[-1]["metadata"]["name"])


def await_end(kubernetes: Kubernetes, job: str) -> None:
    """Of a Job, well. Fails with its last words when it failed. StuckError."""

    def ended() -> bool:
        status = kubernetes.get("job", job)["status"]
        failed = any(each["type"] == "Failed" for each in status.get("conditions", []))
        assert not failed, log_of(kubernetes, job)[-4000:]
        return bool(status.get("succeeded"))

    until(ended, f"job {job} doesn't end", JOB_S, LOOK_EVERY_S)


def messages(release: Release) -> int:
    """In the topic, so far."""
    described = json.loads(release.tank("topic", "describe", TOPIC, "-o", "json"))
    return sum(each["high_water_mark"] or 0 for each in described["partitions"])


def await_messages(release: Release, number: int) -> int:
    """Returns how many there are as soon as it is more than this. StuckError."""
    found: list[int] = []

    def more() -> bool:
        found.append(messages(release))
        return found[-1] > number

    until(more, "no flights come", PATIENCE_S, LOOK_EVERY_S)
    return found[-1]


def pod_that_leads_most(release: Release) -> str:
    """Of the topic's partitions."""
    described = json.loads(release.tank("topic", "describe", TOPIC, "-o", "json"))
    leaders = [each["leader"] for each in described["partitions"]]
    return f"{NAME}-broker-{max(leaders, key=leaders.count) - 1}"


def executors(kubernetes: Kubernetes) -> int:
    """Pods that run."""
    pods = kubernetes.get("pods", "-l", "spark-role=executor")
    return sum(each["status"]["phase"] == "Running" for each in pods)


@pytest.mark.parametrize(
    ("name", "in_pods"), [("flights-local", 0), ("flights-executors", 2)], ids=["local", "executors in pods"]
)
def test_every_flight_is_counted_once(topics: Release, spark_image: str, name: str, in_pods: int) -> None:
    release, kubernetes = topics, topics.kubernetes
    began = time.monotonic()
    with applied(kubernetes, name, spark_image) as job:
        until(lambda: READING in log_of(kubernetes, job), "Spark doesn't start", JOB_S, LOOK_EVERY_S)
        until(lambda: executors(kubernetes) == in_pods, "executors are missing", PATIENCE_S, LOOK_EVERY_S)
        print(f"  {name}: both queries read after {time.monotonic() - began:.0f} s")
        victim = pod_that_leads_most(release)
        with applied(kubernetes, LOAD, spark_image):
            sent = await_messages(release, FLIGHTS // 4)
            assert sent < FLIGHTS, "the broker has to die while flights come"
            kubernetes.kubectl("delete", "pod", victim, "--force", "--grace-period=0")
            killed = time.monotonic()
            await_end(kubernetes, LOAD)
            loaded = time.monotonic()
        await_end(kubernetes, job)
        after = f"{loaded - killed:.0f} s later, all counted {time.monotonic() - loaded:.0f} s after that"
        print(f"  {victim} deleted by force at {sent:,} flights; all loaded {after}", flush=True)
        said = log_of(kubernetes, job)

    release.await_whole()
    assert messages(release) == FLIGHTS + PARTITIONS, "each partition's marker comes last"
    assert [
        int(each.replace(",", "")) for each in re.findall(r"^([\d,]+) flights in", said, re.MULTILINE)
    ] == [
        FLIGHTS,  # in the hours, read back by Spark
        FLIGHTS,  # on the routes
    ]
    rows = [json.loads(line) for line in release.tank("consume", RESULT_TOPIC).splitlines()]
    assert len({(row["origin"], row["hour"]) for row in rows}) == len(rows)
    assert sum(row["flights"] for row in rows) == FLIGHTS
    assert sum(row["departures"] for row in rows) == FLIGHTS - NEVER_LEFT
    assert sum(row["without_weather"] for row in rows) == WITHOUT_WEATHER
    until(lambda: executors(kubernetes) == 0, "executors outlive their driver", PATIENCE_S, LOOK_EVERY_S)
