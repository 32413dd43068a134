"""`make e2e`: the suite against a Kubernetes that is started for it, and ended with it.

Against KUBECONFIG's, when that is set. Else by the scripts beside the repository, where they are, else by
kind, where a Docker engine answers. Where none of these is, that is said loudly, and is no failure; a test
that fails is one. Further arguments are pytest's.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from e2e.environment import BESIDE, ROOT

NODES = 3
KIND = "tank-e2e"


class NoClusterError(Exception):
    """None can be started here; the message says why."""


@contextlib.contextmanager
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which the suite reaches it. NoClusterError."""
    with contextlib.ExitStack() as stack:
        if os.environ.get("KUBECONFIG"):
            yield {}
        elif (BESIDE / "up").exists():
            yield stack.enter_context(_beside())
        elif _answers("docker", "info") and shutil.which("kind"):
            yield stack.enter_context(_kind())
        else:
            raise NoClusterError(
                "KUBECONFIG is not set, there is no ../shared/k8s beside the repository, "
                "and no Docker engine with kind"
            )


@contextlib.contextmanager
def _beside() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tank-e2e-") as folder:
        state = {"TANK_K8S_STATE": f"{folder}/cluster"}
        environment = {**os.environ, **state}
        up = [str(BESIDE / "up"), "--nodes", str(NODES)]
        done = subprocess.run(up, stdout=subprocess.PIPE, text=True, env=environment, check=False)
        try:
            if done.returncode:
                raise NoClusterError("../shared/k8s/up could not start one: its reason stands above")
            # Its network first: no connection is closed in order, as in a power cut.
            stop = f"{BESIDE}/node-stop {{number}}"
            words = done.stdout.split()[1:]  # export A=… B=…
            found = {name: value for name, _, value in (word.partition("=") for word in words)}
            yield {
                **state,
                "KUBECONFIG": found["KUBECONFIG"],
                "PATH": found["PATH"].replace("$PATH", os.environ["PATH"]),
                "TANK_IMAGE_LOAD": f"{BESIDE}/load-image",
                "TANK_NODE_STOP": f"sh -c '{stop} --cut && {stop}'",
                "TANK_NODE_START": f"{BESIDE}/node-start {{number}}",
                "TANK_IN_NODE": f"{BESIDE}/in-node {{number}}",
            }
        finally:
            subprocess.run([str(BESIDE / "down")], env=environment, check=False)


@contextlib.contextmanager
def _kind() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tank-e2e-") as folder:
        config = str(Path(folder) / "kubeconfig")
        name = ["--name", KIND, "--kubeconfig", config]
        nodes = ["--config", str(ROOT / "e2e" / "kind.yaml")]
        made = subprocess.run(["kind", "create", "cluster", *name, *nodes, "--wait", "180s"], check=False)
        try:
            if made.returncode:
                raise NoClusterError("kind could not start one: its reason stands above")
            yield {
                "KUBECONFIG": config,
                "TANK_IMAGE_LOAD": f"kind load image-archive --name {KIND}",
                "TANK_NODE_STOP": "docker kill {node}",
                "TANK_NODE_START": "docker start {node}",
                "TANK_IN_NODE": "docker exec {node}",
            }
        finally:
            subprocess.run(["kind", "delete", "cluster", *name], check=False)


def _answers(*command: str) -> bool:
    """A client without an engine fails."""
    if shutil.which(command[0]) is None:
        return False
    return not subprocess.run(command, capture_output=True, check=False).returncode


def main() -> int:
    """See the module."""
    suite = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(ROOT / "e2e")]
    try:
        with cluster() as found:
            environment = {**os.environ, **found}
            return subprocess.run([*suite, *sys.argv[1:]], cwd=ROOT, env=environment, check=False).returncode
    except NoClusterError as error:
        print(f"\nTHE END-TO-END TESTS DID NOT RUN: {error}.", file=sys.stderr)
        return 0


if __name__ == "__main__":
    sys.exit(main())
