"""Nodes: their zones, and what can happen to one and to the processes on it, by the commands that the
environment names."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.support.environment import Environment, of_node
from e2e.support.kubernetes import Pod, run
from tests.chaos.members import tied_to_us

ZONE = "topology.kubernetes.io/zone"
"""The label of a node that says where it stands."""

_SIGNAL = """
for folder in /proc/[0-9]*; do
    if grep -qzx POD_NAME={pod} $folder/environ && grep -qzx POD_NAMESPACE={namespace} $folder/environ; then
        kill -{signal} ${{folder#/proc/}} && echo signalled
    fi
done 2>/dev/null
true
"""


@dataclass(slots=True, frozen=True)
class Nodes:
    """The nodes of the cluster."""

    environment: Environment

    def stop(self, node: str) -> None:
        """It is gone at once, with all that runs on it. CommandError."""
        run(*of_node(self.environment.node_stop, node))

    def start(self, node: str) -> None:
        """CommandError."""
        run(*of_node(self.environment.node_start, node))

    def signal(self, name: str, pod: Pod, namespace: str) -> None:
        """KILL, STOP or CONT to the pod's process, from outside: none in its container may kill its first
        one. CommandError."""
        script = _SIGNAL.format(pod=pod.name, namespace=namespace, signal=name)
        said = run(*of_node(self.environment.in_node, pod.node), "sh", "-c", script)
        assert "signalled" in said, f"{pod.name} has no process on {pod.node}"

    @contextlib.contextmanager
    def frozen(self, pod: Pod, namespace: str) -> Iterator[None]:
        """Its process does nothing meanwhile. CommandError."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.signal, "CONT", pod, namespace)
            self.signal("STOP", pod, namespace)
            yield


def zones() -> dict[str, str]:
    """Of the nodes that have one. CommandError."""
    found = json.loads(run("kubectl", "get", "nodes", "-l", ZONE, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in found}


def addresses() -> dict[str, str]:
    """Of the nodes that are there, inside of the cluster's network. CommandError."""
    found: dict[str, str] = {}
    for each in json.loads(run("kubectl", "get", "nodes", "-o", "json"))["items"]:
        for address in each["status"]["addresses"]:
            if address["type"] == "InternalIP":
                found.setdefault(each["metadata"]["name"], address["address"])
    return found


@contextlib.contextmanager
def all_in_zones() -> Iterator[None]:
    """A node without a zone gets one of its own, until the end. CommandError."""
    without = run("kubectl", "get", "nodes", "-l", f"!{ZONE}", "-o", "name").split()
    with contextlib.ExitStack() as stack:
        for node in without:
            stack.callback(run, "kubectl", "label", node, f"{ZONE}-")
            run("kubectl", "label", node, f"{ZONE}={node.rpartition('/')[2]}")
        yield


@contextlib.contextmanager
def draining(names: list[str], label: str) -> "Iterator[list[subprocess.Popen[str]]]":
    """`kubectl drain` of these nodes at the same time, of pods with this label alone: it takes those of every
    namespace. Then the nodes take pods again, and no drain goes on. CommandError."""
    what = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s"]
    what += ["--pod-selector", label]
    with contextlib.ExitStack() as stack:
        started = []
        for name in names:
            stack.callback(run, "kubectl", "uncordon", name)
            command = [*tied_to_us(), "kubectl", "drain", name, *what]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
        yield started
