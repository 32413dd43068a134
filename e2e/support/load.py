"""Constant load from inside the cluster: the clients of the chaos tests in a pod, and their verdict."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from e2e.support import iggy_package
from e2e.support.environment import ROOT
from e2e.support.figures import Step, figures
from e2e.support.kubernetes import Kubernetes
from e2e.support.release import NAME, Release
from e2e.support.waiting import until
from tests.chaos.iggy.clients import IggyProgramAccess
from tests.chaos.iggy.stream import ROOT_VARIABLE, STREAM
from tests.chaos.load import IGGY, TOPICS
from tests.chaos.load_process import LoadProcess
from tests.chaos.members import tied_to_us

POD = "clients"
REPLICAS = 3
RATE = 50.0
"""Messages a second of each of the four idempotent producers."""
SEED = 1
GET_ON_S = 120.0
CLOSE_S = 60.0
SOURCES = ("e2e", "tests/chaos", "tests/support")
RECORD = PurePosixPath("/record/run")
PACKAGES = PurePosixPath("/record/packages")
"""Where Iggy's client is, where it has a part."""
IGGY_ROOT = f"{NAME}-iggy-root"
"""The Secret with its user."""


def packed(root: Path = ROOT) -> bytes:
    """The clients' sources as a zip, which Python imports from as it is."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("tests/__init__.py", "")
        for folder in SOURCES:
            for path in sorted((root / folder).rglob("*.py")):
                archive.write(path, path.relative_to(root))
    return packed.getvalue()


def pod(image: str, node: str, *, with_iggy: bool) -> dict[str, Any]:
    """It does nothing of itself: the load is started in it."""
    of_root = {"valueFrom": {"secretKeyRef": {"name": IGGY_ROOT, "key": "root"}}}
    container = {
        "name": "clients",
        "image": image,
        "command": ["python", "-c", "import signal; signal.pause()"],
        "env": [
            {"name": "PYTHONPATH", "value": f"/clients/clients.zip:{PACKAGES}"},
            *([{"name": ROOT_VARIABLE, **of_root}] if with_iggy else []),
        ],
        "volumeMounts": [
            {"name": "clients", "mountPath": "/clients"},
            {"name": "record", "mountPath": str(RECORD.parent)},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": "clients", "configMap": {"name": POD}},
                {"name": "record", "emptyDir": {}},
            ],
        },
    }


@dataclass(slots=True)
class Load:
    """Idempotent producers, consumers, and clients of the old document that know the Service alone."""

    kubernetes: Kubernetes
    release: Release
    node: str
    """Where the clients are: nothing is done to it."""
    with_iggy: bool = False
    """Iggy's client has a part, too: the brokers serve it."""
    steps: list[Step] = field(default_factory=list)
    _process: LoadProcess | None = None
    _ended: bool = False

    def start(self) -> None:
        """Returns when every client gets on. StuckError."""
        for topic, partitions in TOPICS.items():
            flush = "disk" if topic == "disk" else "replicated"
            self.release.tank(
                *("topic", "create", topic, "--if-not-exists", "--partitions", str(partitions)),
                *("--replication-factor", str(REPLICAS), "--set", f"flush={flush}"),
            )
        self.kubernetes.apply(pod(self.release.image, self.node, with_iggy=self.with_iggy))
        self.kubernetes.kubectl("wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=120s")
        iggy = None
        if self.with_iggy:
            iggy_package.bring(self.kubernetes, POD, str(PACKAGES))
            iggy = IggyProgramAccess(self.release.iggy_servers, "python")
        python = [*tied_to_us(), "kubectl", "-n", self.kubernetes.namespace]
        python += ["exec", "-i", POD, "--", "python"]
        self._process = LoadProcess(
            python, Path(RECORD), self.release.servers, RATE, SEED, old_clients=True, iggy=iggy
        )
        self.all_get_on()

    def all_get_on(self) -> None:
        """Returns when every client was acknowledged or given something from now on, in every partition.
        StuckError."""
        assert self._process is not None
        self._process.await_all_get_on(GET_ON_S)
        assert not self._process.progress.broken, self._process.progress.broken

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What is done to the cluster meanwhile; at its end every client must get on."""
        began = time.time()
        yield
        ended = time.time()
        self.steps.append(Step(name, int(began * 1000), int(ended * 1000)))
        print(f"  {name}: {ended - began:.1f} s", flush=True)
        self.all_get_on()

    def end(self) -> None:
        """The producers wait for their answers, the consumers read to the end. StuckError."""
        assert self._process is not None
        self._process.end()
        self._ended = True

    def violations(self) -> list[str]:
        """Ends the clients, and reads everything back. Prints what each step cost. Empty when all guarantees
        held. StuckError."""
        assert self._process is not None
        if not self._ended:
            self.end()
        topics = [*TOPICS, *(IGGY if self.with_iggy else ())]
        verdict = ("python", "-m", "e2e.support.verdict", self.release.servers, str(RECORD), *topics)
        said = self.kubernetes.kubectl("exec", POD, "--", *verdict)
        found = json.loads(said)
        print(f"  values: {found['fates']}; in the log {found['messages']:,}, seen {found['seen']:,}")
        if healed := self._process.progress.healed:
            print(f"  Iggy's client did the same again after: {healed}")
        for step in self.steps:
            print(f"  writes while: {step.name}: {figures(found['waits'], step)}", flush=True)
        return [*self._process.progress.broken, *found["violations"]]

    def close(self) -> None:
        """The clients and their topics go."""
        if self._process is not None:
            self._process.close()
        self.kubernetes.kubectl("delete", "pod", POD, "--now", "--ignore-not-found")

        def gone() -> bool:
            if self.with_iggy and STREAM in self.release.tank("iggy", "stream", "list"):
                self.release.tank("iggy", "stream", "delete", STREAM, "--yes")
            self.release.tank("topic", "delete", *TOPICS, "--yes", "--if-exists")
            return True

        until(gone, "the clients' topics can't be deleted", CLOSE_S)
