"""`python -m tank_controller.k8s.volume_snapshots`: a VolumeSnapshot of each volume of a release, as one set.

What the chart's CronJob runs. The controllers' volumes come first, and the brokers' when those are cut: what
the controllers' snapshots say of who is in sync is then no newer than what the brokers' hold, so all that was
acknowledged before the set began is in it. A set that doesn't come to its end is deleted, one that does lets
the oldest go.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from tank_controller.k8s.api_server import KubernetesError, PackageApiServer, RequestError

SET_LABEL = "tank-cluster.internal/backup"
"""On each snapshot: the set that it is of, by the time of its beginning (UTC)."""
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
LOOK_EVERY_S = 2.0
STAMP = "%Y%m%d-%H%M%S"

Snapshot = dict[str, Any]


class BackupError(RuntimeError):
    """The set is not complete; the message says why."""


class Server(Protocol):
    """The API server's part that is needed. OSError."""

    def request(self, method: str, path: str, body: dict[str, object] | None = None) -> bytes: ...


@dataclass(slots=True, frozen=True)
class Backup:
    """What is wanted."""

    namespace: str
    release: str
    snapshot_class: str
    """Empty: the cluster's default."""
    keep: int
    """So many sets stay; at least 1."""
    within_s: float
    """How long a set may take."""


class Taking:
    """One set in the making."""

    def __init__(
        self,
        server: Server,
        backup: Backup,
        stamp: str,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """stamp: the set's name. now: seconds that never go back."""
        self._server = server
        self._backup = backup
        self._stamp = stamp
        self._now = now
        self._sleep = sleep
        self._deadline = now() + backup.within_s
        space = f"namespaces/{quote(backup.namespace)}"
        self._claims = f"/api/v1/{space}/persistentvolumeclaims"
        self._snapshots = f"/apis/snapshot.storage.k8s.io/v1/{space}/volumesnapshots"

    def run(self) -> tuple[int, list[str]]:
        """How many volumes are in the set, and the sets that went for it. BackupError, OSError."""
        claims = self._list(self._claims)
        controllers, brokers = ([_name(one) for one in claims if _component(one) == kind] for kind in _KINDS)
        if not controllers or not brokers:
            raise BackupError(
                f"release {self._backup.release} has {len(controllers)} volumes of controllers and "
                f"{len(brokers)} of brokers: there is nothing to restore a cluster from"
            )
        try:
            for claim in controllers:
                self._create(claim, "controller")
            self._await("creationTime", len(controllers))
            for claim in brokers:
                self._create(claim, "broker")
            self._await("readyToUse", len(controllers) + len(brokers))
        except (BackupError, OSError):
            self._delete(self._stamp)
            raise
        return len(claims), self._forget()

    def _create(self, claim: str, component: str) -> None:
        labels = {INSTANCE: self._backup.release, COMPONENT: component, SET_LABEL: self._stamp}
        spec: dict[str, object] = {"source": {"persistentVolumeClaimName": claim}}
        if self._backup.snapshot_class:
            spec["volumeSnapshotClassName"] = self._backup.snapshot_class
        body: dict[str, object] = {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {"name": f"{claim}-{self._stamp}", "labels": labels},
            "spec": spec,
        }
        self._server.request("POST", self._snapshots, body)

    def _await(self, field: str, count: int) -> None:
        """Until all so far have this in their status. BackupError."""
        while True:
            found = self._of(self._stamp)
            for one in found:
                if error := one.get("status", {}).get("error"):
                    raise BackupError(f"{_name(one)}: {error.get('message', 'the snapshot failed')}")
            lacking = sorted(_name(one) for one in found if not one.get("status", {}).get(field))
            if len(found) >= count and not lacking:
                return
            if self._now() >= self._deadline:
                raise BackupError(f"not done after {self._backup.within_s:.0f} s: {', '.join(lacking)}")
            self._sleep(LOOK_EVERY_S)

    def _forget(self) -> list[str]:
        """Deletes the sets that are too many, the oldest of all; their names."""
        stamps = {one["metadata"]["labels"][SET_LABEL] for one in self._list(self._snapshots, SET_LABEL)}
        old = sorted(stamps)[: -self._backup.keep]
        for stamp in old:
            self._delete(stamp)
        return old

    def _delete(self, stamp: str) -> None:
        for one in self._of(stamp):
            self._server.request("DELETE", f"{self._snapshots}/{quote(_name(one))}")

    def _of(self, stamp: str) -> list[Snapshot]:
        return self._list(self._snapshots, f"{SET_LABEL}={stamp}")

    def _list(self, path: str, more: str = "") -> list[Snapshot]:
        selector = f"{INSTANCE}={self._backup.release}" + (f",{more}" if more else "")
        answer = json.loads(self._server.request("GET", f"{path}?{urlencode({'labelSelector': selector})}"))
        found: list[Snapshot] = answer["items"]
        return found


_KINDS = ("controller", "broker")


def _name(one: Snapshot) -> str:
    name: str = one["metadata"]["name"]
    return name


def _component(one: Snapshot) -> str:
    component: str = one["metadata"].get("labels", {}).get(COMPONENT, "")
    return component


def main() -> int:
    """The exit code. What is wanted stands in the environment, as the chart gives it."""
    given = os.environ
    backup = Backup(
        given["POD_NAMESPACE"],
        given["BACKUP_RELEASE"],
        given.get("BACKUP_CLASS", ""),
        int(given["BACKUP_KEEP"]),
        float(given["BACKUP_WITHIN_S"]),
    )
    stamp = time.strftime(STAMP, time.gmtime())
    try:
        server = PackageApiServer(backup.namespace)
        volumes, old = Taking(server, backup, stamp, time.monotonic, time.sleep).run()
    except (KubernetesError, RequestError, BackupError) as error:
        print(f"error: no backup {stamp}: {error}", file=sys.stderr)
        return 1
    gone = f" Deleted, as {backup.keep} are kept: {', '.join(old)}." if old else ""
    print(f"Backup {stamp}: a snapshot of each of {volumes} volumes.{gone}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
