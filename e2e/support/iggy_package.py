"""Iggy's client in the clients' pod: fetched here, where there is a network, and sent there."""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from e2e.support.kubernetes import Kubernetes
from tests.iggy_clients.package import PACKAGE

UNPACK: Final = (
    "import base64, io, sys, zipfile; "
    "zipfile.ZipFile(io.BytesIO(base64.b64decode(sys.stdin.read()))).extractall(sys.argv[1])"
)


def bring(kubernetes: Kubernetes, pod: str, folder: str) -> None:
    """Unpacks it into this folder of the pod, for its Python. Skips the test where it can't be fetched."""
    version = kubernetes.kubectl(
        "exec", pod, "--", "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    ).strip()
    wheel = base64.b64encode(_fetched(version)).decode()
    kubernetes.kubectl("exec", "-i", pod, "--", "python", "-c", UNPACK, folder, given=wheel)


def _fetched(version: str) -> bytes:
    """The package's file for this version of Python."""
    with tempfile.TemporaryDirectory(prefix="tank-e2e-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary", ":all:", "--python-version", version, "--dest", folder]
        if subprocess.run([*command, PACKAGE.replace(" ", "==")], check=False).returncode:
            pytest.skip(f"NO CLIENT OF IGGY'S HERE: {PACKAGE} can't be fetched for Python {version}")
        (file,) = Path(folder).iterdir()
        return file.read_bytes()
