"""What the suite is told by environment variables: which Kubernetes, and what can be done to its nodes."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ROOT.parent / "shared" / "k8s"
"""Scripts that start a Kubernetes and build images for it, where they are."""
PROGRAMS = ("helm", "kubectl")
"""What all is done with."""


DOCKER_S = 30.0


class MissingError(Exception):
    """Something that the suite can't do without; the message says what to set."""


@dataclass(slots=True, frozen=True)
class Environment:
    """`e2e/README.md` has the table. Commands of nodes are templates: {node} is a node's name, {number} the
    digits at the end of it. Empty: it can't be done here, and the tests that need it are skipped."""

    image: str
    """An image that the nodes have or can fetch; empty: one is built and loaded."""
    image_load: str
    """The command that brings an image's archive to all nodes."""
    node_stop: str
    node_start: str
    in_node: str
    """What a command in a node begins with."""
    spark_image: str = ""
    """As `image`, for Spark's jobs."""

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> "Environment":
        """MissingError."""
        found = cls(
            *(
                variables.get(f"TANK_{name}", "")
                for name in ("IMAGE", "IMAGE_LOAD", "NODE_STOP", "NODE_START", "IN_NODE", "SPARK_IMAGE")
            )
        )
        if not variables.get("KUBECONFIG"):
            raise MissingError("KUBECONFIG names no cluster; `make e2e` starts one")
        absent = [each for each in PROGRAMS if not shutil.which(each, path=variables.get("PATH", ""))]
        if absent:
            raise MissingError(f"{' and '.join(absent)} can't be found on the PATH: install what is missing")
        if not found.image and not found.image_load:
            raise MissingError(
                "set TANK_IMAGE_LOAD to the command that brings an image's archive to the nodes "
                "(kind load image-archive), or TANK_IMAGE to an image that they can fetch"
            )
        return found


def of_node(template: str, node: str) -> list[str]:
    """The command for this node."""
    number = node[len(node.rstrip("0123456789")) :]
    return [word.format(node=node, number=number) for word in shlex.split(template)]


def docker_answers() -> bool:
    """A client without an engine is no Docker, nor is an engine that hangs."""
    if shutil.which("docker") is None:
        return False
    info = ["docker", "info"]
    try:
        return not subprocess.run(info, capture_output=True, check=False, timeout=DOCKER_S).returncode
    except subprocess.TimeoutExpired:
        return False
