"""What can happen to a node and to the processes on it, by the commands that the environment names."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.environment import Environment, of_node
from e2e.kubernetes import Pod, run
from tests.chaos.members import tied_to_us

_KILL = """
for folder in /proc/[0-9]*; do
    if grep -qzx POD_NAME={pod} $folder/environ && grep -qzx POD_NAMESPACE={namespace} $folder/environ; then
        kill -9 ${{folder#/proc/}} && echo killed
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

    def kill(self, pod: Pod, namespace: str) -> None:
        """kill -9 to the pod's process, from outside: none in its container may kill its first one.
        CommandError."""
        script = _KILL.format(pod=pod.name, namespace=namespace)
        said = run(*of_node(self.environment.in_node, pod.node), "sh", "-c", script)
        assert "killed" in said, f"{pod.name} has no process on {pod.node}"


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
