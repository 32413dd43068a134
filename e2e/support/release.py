"""An installed release: scaled, rolled and looked at as its operator does it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from e2e.support.environment import ROOT
from e2e.support.kubernetes import CommandError, Kubernetes
from e2e.support.waiting import PATIENCE_S, STRANGE, until
from tests.support.processes.readiness import samples_of

CHART = ROOT / "charts" / "tank"
NAME = "tank"
PODS = 3
"""Of controllers, and of brokers: what the chart installs, and every test begins with."""
CONTROLLER_HTTP, BROKER_HTTP = 9091, 11012
RACKS = "rackFromNode.enabled=true"


def commands(notes: str) -> list[str]:
    """Those that helm's notes print, as they stand."""
    return [line.strip() for line in notes.splitlines() if line.startswith("  ") and "kubectl" in line]


@dataclass(slots=True)
class Release:
    """The chart with its defaults and racks from nodes; three controllers and three brokers."""

    kubernetes: Kubernetes
    image: str
    notes: str = ""
    """What helm printed when it was installed."""
    ready_s: float = 0.0
    """How long `helm install --wait` took."""
    _led: str = ""
    """The controller's pod that was last seen to lead."""

    @property
    def servers(self) -> str:
        """For clients in the cluster."""
        return f"{NAME}.{self.kubernetes.namespace}.svc:11011"

    @property
    def kafka_servers(self) -> str:
        """For Kafka clients in the cluster."""
        return f"{NAME}.{self.kubernetes.namespace}.svc:9092"

    @property
    def iggy_servers(self) -> str:
        """For Iggy's clients in the cluster, where the chart lets brokers serve them."""
        return f"{NAME}.{self.kubernetes.namespace}.svc:8090"

    @property
    def domain(self) -> str:
        """Of the brokers' pods."""
        return f"{NAME}-broker.{self.kubernetes.namespace}.svc.cluster.local"

    @property
    def mark(self) -> tuple[str, str]:
        """A label of the release's pods, which no other pod of the whole cluster has."""
        return "e2e", self.kubernetes.namespace

    # --- as helm does it ---

    def install(self, *values: str, waits: bool = True) -> None:
        """From nothing, or around the volumes that are there, to ready, or to where its objects are made.
        CommandError."""
        began = time.monotonic()
        marks = [f"{kind}.podLabels.{self.mark[0]}={self.mark[1]}" for kind in ("controller", "broker")]
        wanted = [*self._image(self.image), *_set([RACKS, *marks]), *_set(values)]
        self.kubernetes.helm("install", NAME, str(CHART), *wanted, *(_WAIT if waits else ()))
        self.ready_s = time.monotonic() - began
        self.notes = self.kubernetes.helm("get", "notes", NAME)

    def upgrade(self, *values: str, image: str = "") -> None:
        """Changes these values or the image; returns when all is ready again. CommandError."""
        changed = [*(self._image(image) if image else ()), *_set(values)]
        self.kubernetes.helm("upgrade", NAME, str(CHART), "--reset-then-reuse-values", *changed, *_WAIT)

    def revision(self) -> int:
        """The newest one's number."""
        return int(json.loads(self.kubernetes.helm("history", NAME, "-o", "json"))[-1]["revision"])

    def rollback(self, revision: int) -> None:
        """CommandError."""
        self.kubernetes.helm("rollback", NAME, str(revision), *_WAIT)

    def uninstall(self) -> None:
        """Returns when all pods are gone. CommandError."""
        self.kubernetes.helm("uninstall", NAME, "--wait", "--timeout", "300s")
        until(lambda: not self._pods(), "pods stay after helm uninstall")

    def _image(self, image: str) -> list[str]:
        repository, _, tag = image.rpartition(":")
        # A tag of digits alone is no number.
        return ["--set-string", f"image.repository={repository},image.tag={tag}"]

    def _pods(self) -> list[Any]:
        return list(self.kubernetes.get("pods", "-l", f"app.kubernetes.io/instance={NAME}"))

    # --- as kubectl does it ---

    def scale(self, number: int, component: str = "broker") -> None:
        """Returns at once."""
        self.kubernetes.kubectl("scale", f"statefulset/{NAME}-{component}", f"--replicas={number}")

    def scale_back(self) -> None:
        """To PODS of each kind, where a test that failed left others. Returns at once."""
        for component in ("controller", "broker"):
            found = self.kubernetes.get("statefulset", f"{NAME}-{component}")
            if found["spec"]["replicas"] != PODS:
                self.scale(PODS, component)

    def restart_brokers(self) -> None:
        """Rolls them; returns when the last is ready."""
        brokers = f"statefulset/{NAME}-broker"
        self.kubernetes.kubectl("rollout", "restart", brokers)
        self.kubernetes.kubectl("rollout", "status", brokers, "--timeout=600s")

    def tank(self, *arguments: str) -> str:
        """The command `tank`, in the pod of a controller that is ready; where it fails, in the next one's.
        CommandError, also when none is ready."""
        failed = []
        for pod in self.kubernetes.pods("controller"):
            if pod.ready:
                try:
                    return self.kubernetes.kubectl("exec", pod.name, "--", "tank", *arguments)
                except CommandError as error:
                    failed.append(str(error))
        raise CommandError("\n".join(failed) or "no controller is ready")

    def racks(self) -> dict[int, str]:
        """Of each broker, by its id, as it says."""
        found = json.loads(self.tank("cluster", "brokers", "-o", "json"))["brokers"]
        return {broker["broker_id"]: broker["rack"] for broker in found}

    def partitions(self) -> list[dict[str, Any]]:
        """Of all topics: who holds them."""
        found: list[dict[str, Any]] = json.loads(self.tank("cluster", "partitions", "-o", "json"))[
            "partitions"
        ]
        return found

    def status(self) -> dict[str, Any]:
        """`tank cluster status`."""
        found: dict[str, Any] = json.loads(self.tank("cluster", "status", "-o", "json"))
        return found

    # --- how it is ---

    def await_told(self, reason: str, about: str, words: str, patience_s: float = PATIENCE_S) -> None:
        """By an event on this object, with these words in it. StuckError."""

        def told() -> bool:
            return any(
                event["involvedObject"]["name"] == about and words in event["message"]
                for event in self.kubernetes.events(reason)
            )

        until(told, f"no event {reason} on {about} says {words!r}", patience_s)

    def ready_problems(self, pod: str) -> str:
        """What a controller's /readyz says is wrong; empty when nothing is."""
        port = CONTROLLER_HTTP if "-controller-" in pod else BROKER_HTTP
        try:
            with urllib.request.urlopen(
                f"http://{self.kubernetes.http(pod, port)}/readyz", timeout=10
            ) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        return " ".join(json.loads(body)["problems"])

    def leader(self) -> str:
        """The pod of the controller that leads. StuckError."""
        found: list[str] = []

        def look() -> bool:
            pods = [pod.name for pod in self.kubernetes.pods("controller")]
            found[:] = [pod for pod in pods if self._samples(pod).get("tank_controller_leads")]
            return len(found) == 1

        until(look, "no controller leads")
        return found[0]

    def state(self) -> dict[str, int]:
        """The leading controller's metrics about the cluster, without `tank_controller_`; empty while no
        controller leads."""
        pods = [pod.name for pod in self.kubernetes.pods("controller")]
        for pod in sorted(pods, key=lambda pod: pod != self._led):
            samples = self._samples(pod)
            if samples.get("tank_controller_leads"):
                self._led = pod
                return {name: int(samples[f"tank_controller_{name}"]) for name in _SAID}
        return {}

    def is_whole(self, brokers: int) -> bool:
        """So many brokers are members and there, and every replica is in sync."""
        state = self.state()
        return state.get("brokers") == brokers and not any(state[each] for each in _TROUBLE)

    def await_whole(self, brokers: int = PODS) -> None:
        """And all pods ready. StuckError."""

        def whole() -> bool:
            pods = self.kubernetes.pods("broker")
            return len(pods) == brokers and all(pod.ready for pod in pods) and self.is_whole(brokers)

        until(whole, f"{brokers} brokers are not ready with all replicas in sync")

    def await_balanced(self, brokers: int) -> None:
        """Whole, and replicas and leaders are spread evenly over all of them. StuckError."""

        def balanced() -> bool:
            if not self.is_whole(brokers):
                return False
            found = self.status()
            return found["balanced"] and all(broker["leads"] for broker in found["brokers"])

        until(balanced, f"{brokers} brokers are not balanced", every_s=1.0)

    def memory_mib(self, component: str) -> dict[str, float]:
        """Of each pod's process, by pod."""
        found = {pod.name: self._samples(pod.name) for pod in self.kubernetes.pods(component)}
        return {
            pod: samples["process_resident_memory_bytes"] / 2**20 for pod, samples in found.items() if samples
        }

    def _samples(self, pod: str) -> dict[str, float]:
        port = CONTROLLER_HTTP if "-controller-" in pod else BROKER_HTTP
        try:
            return samples_of(self.kubernetes.http(pod, port))
        except STRANGE:
            return {}


_TROUBLE = (
    "brokers_fenced",
    "partitions_under_replicated",
    "partitions_leaderless",
    "partitions_moving",
)
_SAID = ("brokers", "voters", *_TROUBLE)
_WAIT = ("--wait", "--timeout", "600s")


def _set(values: Iterable[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]
