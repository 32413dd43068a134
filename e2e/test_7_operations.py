"""What docs/kubernetes.md tells an operator to do beside scaling and upgrades."""

import json
import re
from collections.abc import Iterator

import pytest

from e2e.support.environment import ROOT
from e2e.support.kubernetes import CommandError, run
from e2e.support.load import POD, Load
from e2e.support.nodes import addresses
from e2e.support.release import NAME, Release, commands

FIRST_PORT, FIRST_KAFKA_PORT = 31011, 31511
KAFKA_TALK = (ROOT / "e2e" / "support" / "kafka_talk.py").read_text()
RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` leaves, in the StatefulSet alone: one that is made anew lacks it."""
SIZE, LARGER = "10Gi", "11Gi"


@pytest.fixture
def growing(release: Release) -> Iterator[None]:
    """The volumes' storage class takes claims of more, whether or not it can do anything about them."""
    claim = release.kubernetes.get("pvc", f"data-{NAME}-broker-0")
    name = claim["spec"]["storageClassName"]

    def allow(does: bool) -> None:
        run("kubectl", "patch", "storageclass", name, "-p", json.dumps({"allowVolumeExpansion": does}))

    did = bool(
        json.loads(run("kubectl", "get", "storageclass", name, "-o", "json")).get("allowVolumeExpansion")
    )
    try:
        allow(True)
        yield
    finally:
        allow(did)


def kafka_inside(release: Release) -> dict[int, str]:
    """The brokers' addresses for Kafka clients in pods, by id."""
    return {n + 1: f"{NAME}-broker-{n}.{release.domain}:9092" for n in range(3)}


def kafka_brokers(release: Release, asked: str) -> dict[int, str]:
    """The brokers, as a Kafka client in a pod hears at this address. Each of them answers where it is said to
    be."""
    said = release.kubernetes.kubectl("exec", POD, "--", "python", "-c", KAFKA_TALK, asked)
    found = json.loads(said)
    assert all(answers for _, answers in found.values()), found
    return {int(number): address for number, (address, _) in found.items()}


def test_brokers_are_reached_at_a_nodes_address(release: Release, load: Load) -> None:
    at = addresses()
    host, others = at[load.node], [at[node] for node in at if node != load.node]
    advertised = {f"{host}:{FIRST_PORT + n}" for n in range(3)}
    assert kafka_brokers(release, release.kafka_servers) == kafka_inside(release)
    with load.step("helm upgrade to a port of the nodes for each broker"):
        release.upgrade(
            "externalAccess.enabled=true,externalAccess.type=NodePort",
            f"externalAccess.host={host},externalAccess.firstNodePort={FIRST_PORT}",
        )
        release.await_whole()
    inside = {broker["address"] for broker in release.status()["brokers"]}
    assert inside == {f"{NAME}-broker-{n}.{release.domain}:11011" for n in range(3)}, "brokers stay inside"

    def told(asked: str) -> tuple[int, set[str]]:
        said = release.kubernetes.kubectl(
            "exec", POD, "--", "tank", "status", "--servers", asked, "-o", "json"
        )
        found = json.loads(said)
        return found["broker_id"], {f"{each['host']}:{each['port']}" for each in found["brokers"]}

    for n in range(3):
        # Any node passes it on.
        node = [host, *others][n % len(at)]
        assert told(f"{node}:{FIRST_PORT + n}") == (n + 1, advertised)
        assert kafka_brokers(release, f"{node}:{FIRST_KAFKA_PORT + n}") == {
            m + 1: f"{host}:{FIRST_KAFKA_PORT + m}" for m in range(3)
        }
    assert told(release.servers)[1] == inside, "and so do pods"
    assert kafka_brokers(release, release.kafka_servers) == kafka_inside(release)

    with load.step("helm upgrade back to addresses of the inside"):
        release.upgrade("externalAccess.enabled=false")
        release.await_whole()
    assert load.violations() == []


def test_the_commands_that_helm_prints_for_larger_volumes_work_as_printed(
    release: Release, load: Load, growing: None
) -> None:
    before = [pod.uid for pod in release.kubernetes.pods("broker")]
    template = release.kubernetes.get("statefulset", f"{NAME}-broker")["spec"]["template"]
    with load.step("larger volumes: their claims, and the StatefulSet made anew around its pods"):
        with pytest.raises(CommandError, match=f"StatefulSet {NAME}-broker has {SIZE}") as refused:
            release.upgrade(f"broker.storage.size={LARGER}")
        said = str(refused.value)
        for command in commands(said):
            run("bash", "-c", command)
        (number,) = re.findall(r"--set (broker\.replicas=\d+)", said)
        release.upgrade(f"broker.storage.size={LARGER},{number}")
        release.await_whole()
    if RESTARTED not in template["metadata"].get("annotations", {}):  # as docs/kubernetes.md says
        assert [pod.uid for pod in release.kubernetes.pods("broker")] == before, "they ran on"
    claims = release.kubernetes.get("pvc", "-l", "app.kubernetes.io/component=broker")
    assert {each["spec"]["resources"]["requests"]["storage"] for each in claims} == {LARGER}
    assert load.violations() == []
