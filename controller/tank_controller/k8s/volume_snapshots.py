"""`python -m tank_controller.k8s.volume_snapshots`: a VolumeSnapshot of each volume of a release, as one set.

The chart's CronJob runs it. The controllers' volumes come first, and the brokers' volumes once those
snapshots are cut: the in-sync sets in the controllers' snapshots are then no newer than the brokers'
snapshots, so the set holds all messages acknowledged before it began. An incomplete set is deleted; after a
complete one, the oldest sets beyond the wanted number are deleted.
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
"""The label of each snapshot: its set, named by the time at which the set was begun (UTC)."""
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
LOOK_EVERY_S = 2.0
STAMP = "%Y%m%d-%H%M%S"

Snapshot = dict[str, Any]


class BackupError(RuntimeError):
    """A set of snapshots could not be completed; the message says why."""


class SnapshotApi(Protocol):
    """The requests to the API server. They raise OSError."""

    def request(self, method: str, path: str, body: dict[str, object] | None = None) -> bytes: ...


@dataclass(slots=True, frozen=True)
class Backup:
    """The settings of a backup."""

    namespace: str
    release: str
    snapshot_class: str
    """The class of the snapshots; empty: the Kubernetes cluster's default."""
    keep: int
    """How many sets are kept; at least 1."""
    within_s: float
    """How long a set may take."""


class Taking:
    """One set of snapshots that is being taken."""

    def __init__(
        self,
        server: SnapshotApi,
        backup: Backup,
        stamp: str,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """`stamp`: the set's name. `now`: a clock in seconds that never goes back."""
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
        """Takes the set. Returns the number of its volumes, and the names of the sets that were deleted.
        Raises BackupError, OSError.
        """
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
        """Waits until all snapshots so far have this field in their status. Raises BackupError."""
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
        """Deletes the oldest sets beyond the number to keep; returns their names."""
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
    """Takes a set with the settings in the environment, which the chart sets; returns the exit code."""
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
