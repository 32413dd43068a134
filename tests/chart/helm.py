"""Finds Helm: `python -m tests.chart.helm` prints where it is, and fetches it where it isn't.

$HELM, else the PATH, else what comes with a Kubernetes beside the repository, else built with Go.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "v3.19.5"
BESIDE = ROOT.parent / "shared" / "k8s"
OURS = ROOT / ".venv" / "bin"


class NoHelmError(RuntimeError):
    """There is none and none can be made; the message says what to do."""


def find() -> Path:
    """Helm's program. NoHelmError."""
    if named := os.environ.get("HELM"):
        if found := shutil.which(named):
            return Path(found)
        raise NoHelmError(f"HELM names {named}, and there is no such program")
    for folder in (None, str(OURS)):
        if found := shutil.which("helm", path=folder):
            return Path(found)
    return _beside() or _built()


def _beside() -> Path | None:
    """What the scripts of ../shared/k8s unpack in a second or two. None: they are not there, or can't."""
    build = BESIDE / "build"
    if not build.exists():
        print("Beside the repository there is no ../shared/k8s: its Helm is not used.", file=sys.stderr)
        return None
    helm = Path(os.environ.get("TANK_K8S_CACHE", Path.home() / ".cache" / "tank-k8s")) / "bin" / "helm"
    if not helm.exists() and subprocess.run([build], check=False, stdout=sys.stderr).returncode:
        print(f"{build} failed: its Helm is not used.", file=sys.stderr)
        return None
    return helm


def _built() -> Path:
    go = shutil.which("go")
    if go is None:
        raise NoHelmError(
            "the chart's tests need Helm: install it, say where it is with HELM=…, or install Go to build it"
        )
    print(f"building Helm {VERSION} with Go: a minute or two", file=sys.stderr)
    environment = {**os.environ, "GOBIN": str(OURS), "GOFLAGS": "-trimpath"}
    install = [go, "install", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
    if subprocess.run(install, check=False, env=environment, stdout=sys.stderr).returncode:
        raise NoHelmError(
            f"`{' '.join(install)}` failed (see above): install Helm, or say where it is with HELM=…"
        )
    return OURS / "helm"


if __name__ == "__main__":
    try:
        print(find())
    except NoHelmError as error:
        sys.exit(f"error: {error}")
