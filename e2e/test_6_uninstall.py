"""What is left when a release goes, and what the next one finds."""

import time

from e2e.kubernetes import Kubernetes
from e2e.load import Load
from e2e.release import NAME, Release
from e2e.waiting import until


def test_volumes_stay_and_the_next_install_finds_the_data(release: Release, load: Load) -> None:
    load.all_get_on()
    load.end()
    before = release.kubernetes.volumes()
    began = time.monotonic()
    release.uninstall()
    print(f"\n  helm uninstall, until all pods are gone: {time.monotonic() - began:.1f} s")
    assert [name for name in release.kubernetes.volumes() if name in before] == before

    release.install()
    release.await_whole()
    print(f"  helm install around the volumes, to ready: {release.ready_s:.1f} s")
    assert load.violations() == []


def test_volumes_go_where_the_values_say_so(release: Release, kubernetes: Kubernetes) -> None:
    release.upgrade("persistence.whenDeleted=Delete")
    release.await_whole()
    its = {f"data-tank-{component}-{n}" for component in ("broker", "controller") for n in range(3)}
    assert its <= set(kubernetes.volumes())
    release.uninstall()
    until(lambda: not its & set(kubernetes.volumes()), "volumes stay")

    # What was scaled away before belongs to no set, and stays; the next cluster is another.
    kubernetes.kubectl("delete", "pvc", "-l", f"app.kubernetes.io/instance={NAME}")
    release.install()
    release.await_whole()
