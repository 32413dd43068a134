"""What is done to a cluster, and looks at it that fail; kubectl and the API server are played."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.support.environment import Environment
from e2e.support.kubernetes import CommandError, Kubernetes, Pod
from e2e.support.nodes import Nodes, addresses, all_in_zones, draining, zones
from e2e.support.release import Release
from e2e.support.waiting import until
from tests.chaos.members import StuckError


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What kubectl was asked for. It does nothing, and fails where a node is called `sick`. The nodes `a.b`
    and `c` have no zone. What it is asked for as JSON lies in the file `answer`."""
    told = tmp_path / "told"
    told.touch()
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"""#!/bin/sh
echo "kubectl $*" >> {told}
case "$*" in
    *sick*) echo no >&2; exit 1;;
    *"-l !topology.kubernetes.io/zone -o name") printf 'node/a.b\\nnode/c\\n';;
    *"-o json") cat {tmp_path}/answer;;
esac
""")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return told


class Played(Kubernetes):
    """`pods` and `kubectl` as they are told to."""

    def __init__(self, pods: list[Pod], sick: set[str]) -> None:
        super().__init__("somewhere")
        self.there = pods
        self.sick = sick

    def pods(self, component: str) -> list[Pod]:
        return self.there

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        if arguments[1] in self.sick:
            raise CommandError(f"{arguments[1]} is gone")
        return arguments[1]


def controller(number: int, ready: bool = True) -> Pod:
    return Pod(f"tank-controller-{number}", f"u{number}", "node1", "tank:1", ready, 0)


def test_a_command_is_tried_in_every_pod_that_is_ready() -> None:
    pods = [controller(0, ready=False), controller(1), controller(2)]
    assert Release(Played(pods, set()), "tank:1").tank("cluster", "status") == "tank-controller-1"
    played = Played(pods, {"tank-controller-1"})
    assert Release(played, "tank:1").tank("cluster", "status") == "tank-controller-2"
    played.sick |= {"tank-controller-2"}
    with pytest.raises(CommandError, match="tank-controller-1 is gone\ntank-controller-2 is gone"):
        Release(played, "tank:1").tank("cluster", "status")


def test_where_no_controller_is_ready_that_is_said() -> None:
    with pytest.raises(CommandError, match="no controller is ready"):
        Release(Played([controller(0, ready=False)], set()), "tank:1").tank("cluster", "status")


def test_what_a_test_that_failed_left_is_scaled_back_before_the_next() -> None:
    asked: list[str] = []
    pods: dict[str, int] = {}

    class Scaled(Played):
        def get(self, kind: str, *arguments: str) -> Any:
            return {"spec": {"replicas": pods[arguments[0]]}}

        def kubectl(self, *arguments: str, given: str | None = None) -> str:
            asked.append(" ".join(arguments))
            return ""

    for controllers, brokers in ((3, 5), (3, 3), (5, 3)):
        pods.update({"tank-controller": controllers, "tank-broker": brokers})
        Release(Scaled([], set()), "tank:1").scale_back()
    assert asked == [f"scale statefulset/tank-{each} --replicas=3" for each in ("broker", "controller")]


@pytest.mark.parametrize(
    "failure", [CommandError("no pod"), TimeoutError("slow"), ConnectionResetError("away")]
)
def test_a_look_that_fails_is_followed_by_another(failure: Exception) -> None:
    seen = iter([failure, False, failure, True])

    def look() -> bool:
        found = next(seen)
        if isinstance(found, Exception):
            raise found
        return bool(found)

    until(look, "it never comes", every_s=0)
    assert not list(seen)


def test_why_the_last_look_failed_is_told_and_a_failed_assertion_ends_it() -> None:
    def fails() -> bool:
        raise CommandError("no such pod")

    with pytest.raises(StuckError, match="it never comes, for 0 s; the last look: no such pod"):
        until(fails, "it never comes", patience_s=0, every_s=0)

    def ends() -> bool:
        raise AssertionError("the job failed")

    with pytest.raises(AssertionError, match="the job failed"):
        until(ends, "it never comes")


def test_nodes_take_pods_again_whatever_happens_while_they_are_drained(asked: Path) -> None:
    def hurt() -> None:
        with draining(["node1", "node2"], "e2e=tank-e2e-1") as drains:
            assert [process.wait() for process in drains] == [0, 0]
            raise TimeoutError("the API server is slow")

    with pytest.raises(TimeoutError):
        hurt()
    said = asked.read_text().splitlines()
    assert sorted(line.split()[1:3] for line in said) == sorted(
        [verb, node] for verb in ("drain", "uncordon") for node in ("node1", "node2")
    )
    assert all("--pod-selector e2e=tank-e2e-1" in line for line in said if "drain" in line)


def test_nodes_without_a_zone_have_one_of_their_own_and_give_it_back(asked: Path) -> None:
    def fail() -> None:
        with all_in_zones():
            raise TimeoutError("helm install takes its time")

    with pytest.raises(TimeoutError):
        fail()
    zone = "topology.kubernetes.io/zone"
    _, *labels = asked.read_text().splitlines()
    assert labels[:2] == [f"kubectl label node/{node} {zone}={node}" for node in ("a.b", "c")]
    assert sorted(labels[2:]) == [f"kubectl label node/{node} {zone}-" for node in ("a.b", "c")]


def test_zones_and_addresses_are_read_as_the_api_server_tells_of_nodes(asked: Path) -> None:
    node = {
        "metadata": {"name": "node1", "labels": {"topology.kubernetes.io/zone": "east"}},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "node1"},
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::1"},
            ]
        },
    }
    (asked.parent / "answer").write_text(json.dumps({"items": [node]}))
    assert zones() == {"node1": "east"}
    assert addresses() == {"node1": "10.0.0.1"}


def test_a_process_that_is_frozen_goes_on_whatever_happens(tmp_path: Path) -> None:
    told, inside = tmp_path / "told", tmp_path / "in-node"
    inside.write_text(f'#!/bin/sh\necho "$1 $4" | grep -Eo "node1|-(STOP|CONT) " >> {told}; echo signalled\n')
    inside.chmod(0o755)
    nodes = Nodes(Environment("", "load", "", "", f"{inside} {{node}}"))

    def fail() -> None:
        with nodes.frozen(controller(1), "somewhere"):
            raise TimeoutError("no event")

    with pytest.raises(TimeoutError):
        fail()
    assert told.read_text().split() == ["node1", "-STOP", "node1", "-CONT"]


def test_what_was_told_is_found_by_its_object_and_its_words() -> None:
    class Telling(Played):
        def events(self, reason: str) -> list[dict[str, Any]]:
            about = {"kind": "Pod", "name": "tank-broker-4"}
            return [{"involvedObject": about, "message": f"Broker 5 is {reason}."}]

    release = Release(Telling([], set()), "tank:1")
    release.await_told("Draining", "tank-broker-4", "Broker 5 ", patience_s=0)
    for about, words in (("tank-broker-3", "Broker 5 "), ("tank-broker-4", "Broker 4 ")):
        with pytest.raises(StuckError, match=f"no event Draining on {about}"):
            release.await_told("Draining", about, words, patience_s=0)


def test_a_node_that_takes_no_pods_again_keeps_no_other_from_it(asked: Path) -> None:
    with pytest.raises(CommandError, match="uncordon sick"), draining(["node1", "sick"], "a=b"):
        pass
    assert "kubectl uncordon node1" in asked.read_text().splitlines()


def test_a_namespace_that_stays_is_said(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (asked.parent / "helm").write_text("#!/bin/sh\nexit 1\n")
    (asked.parent / "helm").chmod(0o755)
    Kubernetes("sick").close()
    said = capsys.readouterr().err
    assert "LEFT BEHIND: helm" in said, "and the namespace is deleted all the same"
    assert "LEFT BEHIND: kubectl delete namespace sick" in said
    *_, pods, namespace = (line.split() for line in asked.read_text().splitlines())
    assert pods[3:5] == ["delete", "pods"], "which the namespace would wait for"
    assert namespace[1:3] == ["delete", "namespace"]


def test_a_pod_is_read_as_the_api_server_tells_of_it() -> None:
    told: dict[str, Any] = {
        "metadata": {"name": "tank-broker-0", "uid": "u"},
        "spec": {"nodeName": "node1", "containers": [{"image": "tank:2"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"restartCount": 2}],
        },
    }
    assert Pod.of(told) == Pod("tank-broker-0", "u", "node1", "tank:2", True, 2)
    going: dict[str, Any] = copy.deepcopy(told)
    going["metadata"]["deletionTimestamp"] = "now"
    assert not Pod.of(going).ready
