"""Sets of VolumeSnapshots of a release: in order, whole or not at all, and no more than are kept."""

import json
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tank_controller.k8s.volume_snapshots import COMPONENT, INSTANCE, SET_LABEL, Backup, BackupError, Taking

CLAIMS = [
    *((f"data-tank-controller-{n}", "controller") for n in range(3)),
    *((f"data-tank-broker-{n}", "broker") for n in range(3)),
]


class Server:
    """Claims and snapshots of one namespace; a snapshot is cut at the second look, and ready at the third."""

    def __init__(self) -> None:
        self.claims = CLAIMS
        self.snapshots: dict[str, dict[str, Any]] = {}
        self.fails = ""
        """The snapshot that can't be made."""
        self.hangs = False
        self.cut_before: dict[str, int] = {}
        """When each was made: how many were cut."""

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        asked = urlparse(path)
        if method == "POST":
            name = body["metadata"]["name"]
            self.cut_before[name] = sum("creationTime" in one["status"] for one in self.snapshots.values())
            self.snapshots[name] = {**body, "status": {}, "looks": 0}
            return b"{}"
        if method == "DELETE":
            del self.snapshots[asked.path.rpartition("/")[2]]
            return b"{}"
        selector = parse_qs(asked.query)["labelSelector"][0].split(",")
        assert selector[0] == f"{INSTANCE}=tank"
        if asked.path == "/api/v1/namespaces/ns/persistentvolumeclaims":
            items = [{"metadata": {"name": name, "labels": {COMPONENT: kind}}} for name, kind in self.claims]
            return json.dumps({"items": items}).encode()
        assert asked.path == "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots"
        stamp = selector[1].partition("=")[2]
        found = [
            one
            for one in self.snapshots.values()
            if not stamp or one["metadata"]["labels"][SET_LABEL] == stamp
        ]
        if stamp:
            for one in found:
                self._go_on(one)
        return json.dumps({"items": found}).encode()

    def _go_on(self, one: dict[str, Any]) -> None:
        one["looks"] += 1
        if one["metadata"]["name"] == self.fails:
            one["status"]["error"] = {"message": "no room"}
        elif not self.hangs and one["looks"] >= 2:
            one["status"]["creationTime"] = "now"
            one["status"]["readyToUse"] = one["looks"] >= 3


def take(server: Server, stamp: str, keep: int = 2) -> tuple[int, list[str]]:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    backup = Backup("ns", "tank", "fast", keep, 60.0)
    return Taking(server, backup, stamp, lambda: clock[0], sleep).run()


def test_each_volume_has_a_snapshot_with_the_name_that_a_restore_asks_for() -> None:
    server = Server()
    assert take(server, "s1") == (6, [])
    assert sorted(server.snapshots) == sorted(f"{name}-s1" for name, _ in CLAIMS)
    one = server.snapshots["data-tank-broker-2-s1"]
    assert one["spec"] == {
        "source": {"persistentVolumeClaimName": "data-tank-broker-2"},
        "volumeSnapshotClassName": "fast",
    }


def test_brokers_are_cut_behind_the_controllers() -> None:
    """Else a broker could be taken for in sync that lacked something when it was cut."""
    server = Server()
    take(server, "s1")
    for name, cut in server.cut_before.items():
        assert cut == (3 if "broker" in name else 0)


def test_the_oldest_sets_go_when_a_new_one_is_complete() -> None:
    server = Server()
    assert [take(server, f"s{number}")[1] for number in range(1, 5)] == [[], [], ["s1"], ["s2"]]
    assert {one["metadata"]["labels"][SET_LABEL] for one in server.snapshots.values()} == {"s3", "s4"}


@pytest.mark.parametrize("fails", ["data-tank-controller-1-s9", "data-tank-broker-2-s9"])
def test_a_set_with_a_snapshot_that_fails_is_none_and_takes_no_other_away(fails: str) -> None:
    server = Server()
    take(server, "s1", keep=1)
    server.fails = fails
    with pytest.raises(BackupError, match=f"{fails}: no room"):
        take(server, "s9", keep=1)
    assert {one["metadata"]["labels"][SET_LABEL] for one in server.snapshots.values()} == {"s1"}


def test_a_set_that_takes_too_long_is_given_up_and_says_what_it_waits_for() -> None:
    server = Server()
    server.hangs = True
    with pytest.raises(BackupError, match="not done after 60 s: data-tank-controller-0-s1"):
        take(server, "s1")
    assert not server.snapshots


def test_volumes_of_one_kind_alone_are_no_cluster() -> None:
    server = Server()
    server.claims = CLAIMS[:3]
    with pytest.raises(BackupError, match="3 volumes of controllers and 0 of brokers"):
        take(server, "s1")
