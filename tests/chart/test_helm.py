"""Where Helm is looked for, and what is said where there is none."""

import shutil
from pathlib import Path

import pytest

from tests.chart import helm


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Helm, Go, and anything beside the repository; the folder is its PATH."""
    monkeypatch.delenv("HELM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(helm, "OURS", tmp_path / "ours")
    monkeypatch.setattr(helm, "BESIDE", tmp_path / "beside")
    return tmp_path


def program(place: Path, script: str) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!{shutil.which('sh', path='/usr/bin:/bin')}\n{script}\n")
    place.chmod(0o755)
    return place


def test_the_named_one_is_taken_before_the_one_on_the_path(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = program(bare / "helm", "exit 0")
    assert helm.find() == on_path
    named = program(bare / "elsewhere" / "my-helm", "exit 0")
    monkeypatch.setenv("HELM", str(named))
    assert helm.find() == named
    monkeypatch.setenv("HELM", "no-such-helm")
    with pytest.raises(helm.NoHelmError, match="HELM names no-such-helm"):
        helm.find()


def test_without_helm_and_go_it_says_what_to_install(bare: Path) -> None:
    with pytest.raises(helm.NoHelmError, match="install it, say where it is with HELM=…, or install Go"):
        helm.find()


def test_go_builds_the_pinned_one_and_a_build_that_fails_is_said(bare: Path) -> None:
    go = program(
        bare / "go", f'[ "$1 $2" = "install helm.sh/helm/v3/cmd/helm@{helm.VERSION}" ] && : > "$GOBIN/helm"'
    )
    helm.OURS.mkdir()
    assert helm.find() == helm.OURS / "helm"
    (helm.OURS / "helm").unlink()
    program(go, "exit 1")
    with pytest.raises(helm.NoHelmError, match="failed"):
        helm.find()


def test_what_lies_beside_is_unpacked_and_passed_over_when_that_fails(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = bare / "cache"
    monkeypatch.setenv("TANK_K8S_CACHE", str(cache))
    (cache / "bin").mkdir(parents=True)
    build = program(helm.BESIDE / "build", "exit 1")
    with pytest.raises(helm.NoHelmError):
        helm.find()
    program(build, ': > "$TANK_K8S_CACHE/bin/helm"')
    assert helm.find() == cache / "bin" / "helm"
