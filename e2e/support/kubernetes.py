"""One namespace of a Kubernetes, by kubectl and helm, and what its pods say over HTTP."""

import contextlib
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.chaos.members import tied_to_us

ANSWER_S = 10.0
COMMAND_S = 900.0


class CommandError(Exception):
    """A command failed; the message has what it said."""


def run(*command: str, given: str | None = None) -> str:
    """What it prints. CommandError."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"{' '.join(command)}: not done after {COMMAND_S:.0f} s") from None
    if done.returncode:
        raise CommandError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclass(slots=True, frozen=True)
class Pod:
    """What `kubectl get pod` knows of one."""

    name: str
    uid: str
    node: str
    image: str
    """Of its one container."""
    ready: bool
    """Ready, and not about to go."""
    restarts: int
    """Of its container."""

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Pod":
        """From the API server's object."""
        meta, conditions = found["metadata"], found["status"].get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        staying = "deletionTimestamp" not in meta
        restarts = sum(each["restartCount"] for each in found["status"].get("containerStatuses", []))
        spec = found["spec"]
        (image,) = [each["image"] for each in spec["containers"]]
        node = spec.get("nodeName", "")
        return cls(meta["name"], meta["uid"], node, image, ready and staying, restarts)


@dataclass(slots=True)
class Kubernetes:
    """`open` before the pods' HTTP is asked."""

    namespace: str
    _proxy: "subprocess.Popen[str] | None" = None
    _at: str = field(default="")

    def open(self) -> None:
        """Makes the namespace, which admits only what needs no rights, and a way to the API server."""
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": self.namespace,
                    "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
                },
            }
        )
        command = [*tied_to_us(), "kubectl", "proxy", "--port=0"]
        self._proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._proxy.stdout is not None
        said = self._proxy.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", said)
        if found is None:
            raise CommandError(f"kubectl proxy: {said}")
        self._at = found[0]

    def close(self) -> None:
        """The namespace goes, with all that is in it."""
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
        with _telling():
            for release in self.helm("list", "-q").split():
                self.helm("uninstall", release, "--wait", "--timeout", "300s")
        with _telling():
            # Helm waits for StatefulSets, and not for their pods. Where one is left, Kubernetes looks at the
            # namespace again after half of its grace, which is minutes.
            self.kubectl("delete", "pods", "--all", "--now", "--timeout=120s")
        with _telling():
            run("kubectl", "delete", "namespace", self.namespace, "--timeout=120s")

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What it prints. CommandError."""
        return run("kubectl", "-n", self.namespace, *arguments, given=given)

    def helm(self, *arguments: str) -> str:
        """What it prints. CommandError."""
        return run("helm", "-n", self.namespace, *arguments)

    def apply(self, thing: dict[str, Any]) -> None:
        """An object, or a list of them."""
        self.kubectl("apply", "-f", "-", given=json.dumps(thing))

    def get(self, kind: str, *arguments: str) -> Any:
        """An object, or the items of a list."""
        found = json.loads(self.kubectl("get", kind, *arguments, "-o", "json"))
        return found.get("items", found)

    def pods(self, component: str) -> list[Pod]:
        """Of brokers or controllers, by name."""
        # It is asked all the time while something is waited for: a process for each question would cost more
        # than what is measured.
        query = urlencode({"labelSelector": f"app.kubernetes.io/component={component}"})
        where = f"http://{self._at}/api/v1/namespaces/{self.namespace}/pods?{query}"
        with urllib.request.urlopen(where, timeout=ANSWER_S) as answer:
            found = json.load(answer)["items"]
        return sorted((Pod.of(each) for each in found), key=lambda pod: pod.name)

    def events(self, reason: str) -> list[dict[str, Any]]:
        """Of this reason."""
        return list(self.get("events", "--field-selector", f"reason={reason}"))

    def volumes(self) -> list[str]:
        """Names of the PVCs."""
        return sorted(each["metadata"]["name"] for each in self.get("pvc"))

    def http(self, pod: str, port: int) -> str:
        """Where a pod's HTTP is reached from here: host:port/path."""
        return f"{self._at}/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy"

    def told(self) -> str:
        """Pods, events and the last log lines, to print when a test fails."""
        said = []
        for command in (
            ["get", "pods", "-o", "wide"],
            ["get", "events", "--sort-by=.lastTimestamp"],
            ["logs", "-l", "app.kubernetes.io/name=tank", "--prefix", "--tail=15"],
        ):
            with contextlib.suppress(CommandError):
                lines = self.kubectl(*command).splitlines()
                said += ["", f"kubectl {' '.join(command)}", *lines[-80:]]
        return "\n".join(said)


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Prints an object that can't be deleted, without failing the test: it has to be deleted by hand."""
    try:
        yield
    except CommandError as error:
        print(f"\nLEFT BEHIND: {error}", file=sys.stderr)


def nodes() -> list[str]:
    """Names of the nodes that take pods and are ready."""
    found = json.loads(run("kubectl", "get", "nodes", "-o", "json"))["items"]
    return sorted(
        each["metadata"]["name"]
        for each in found
        if not each["spec"].get("unschedulable")
        and not any(taint["effect"] != "PreferNoSchedule" for taint in each["spec"].get("taints", []))
    )
