"""`make e2e`: runs the suite against a Kubernetes cluster that is started for it, and ended with it.

It uses KUBECONFIG's cluster only when an image for it is named as well, so that it never changes a cluster by
accident. Else it starts one by the scripts beside the repository, if they exist, or by kind, if a Docker
engine answers. Without any of these it prints that loudly, and doesn't fail. Further arguments are pytest's.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from e2e.support.environment import BESIDE, PROGRAMS, ROOT, Environment, MissingError, docker_answers

NODES = 3
ROOM_BYTES = 15_000_000_000
"""What three nodes take at most, with their images and volumes: 11 GB were seen."""
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What ends a run: by a person, by a machine, by a terminal that is closed."""
TAKE_BACK_S = 900.0
"""How long the suite may take to undo its changes to an existing cluster."""
SUITE = (sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(ROOT / "e2e"))


class NoClusterError(Exception):
    """None can be started here; the message says why."""


@contextlib.contextmanager
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which the suite reaches it. NoClusterError."""
    with contextlib.ExitStack() as stack:
        if _is_given():
            yield {}
        elif (BESIDE / "up").exists():
            yield stack.enter_context(_beside())
        elif all(map(shutil.which, ("kind", *PROGRAMS))) and docker_answers():
            yield stack.enter_context(_kind())
        else:
            raise NoClusterError(
                "KUBECONFIG with TANK_IMAGE_LOAD or TANK_IMAGE is not set, there is no ../shared/k8s beside "
                f"the repository, and no Docker engine with kind, {' and '.join(PROGRAMS)}"
            )


def _is_given() -> bool:
    if not os.environ.get("KUBECONFIG"):
        return False
    if os.environ.get("TANK_IMAGE_LOAD") or os.environ.get("TANK_IMAGE"):
        return True
    print(
        "KUBECONFIG's cluster is left alone: to run there, set TANK_IMAGE_LOAD or TANK_IMAGE (e2e/README.md)",
        file=sys.stderr,
    )
    return False


@contextlib.contextmanager
def _beside() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tank-e2e-") as folder:
        if (free := shutil.disk_usage(folder).free) < ROOM_BYTES:
            raise NoClusterError(
                f"{tempfile.gettempdir()} has {free // 10**9} GB free, and the nodes take up to "
                f"{ROOM_BYTES // 10**9}: make room, or name a folder that has it with TMPDIR"
            )
        state = {"TANK_K8S_STATE": f"{folder}/cluster"}
        environment = {**os.environ, **state}
        up = [str(BESIDE / "up"), "--nodes", str(NODES)]
        try:
            done = subprocess.run(up, stdout=subprocess.PIPE, text=True, env=environment, check=False)
            if done.returncode:
                raise NoClusterError("../shared/k8s/up could not start one: its reason stands above")
            words = done.stdout.partition("export ")[2].split()  # A=… B=…
            found = {name: value for name, _, value in (word.partition("=") for word in words)}
            load, stop, start, inside = (
                shlex.quote(str(BESIDE / name))
                for name in ("load-image", "node-stop", "node-start", "in-node")
            )
            # Its cable first: no connection is closed in order, as in a power cut. Not `--cut`: what the dead
            # node's connections have yet to send would keep its end of the cable for two minutes, and the
            # next start, which brings another one, would fail.
            lose = f"{inside} control ip link delete {{node}} && {stop} {{number}}"
            yield {
                **state,
                "KUBECONFIG": found["KUBECONFIG"],
                "PATH": found["PATH"].replace("$PATH", os.environ["PATH"]),
                "TANK_IMAGE_LOAD": load,
                "TANK_NODE_STOP": shlex.join(["sh", "-c", lose]),
                "TANK_NODE_START": f"{start} {{number}}",
                "TANK_IN_NODE": f"{inside} {{number}}",
            }
        finally:
            # Also of what `up` had begun when it failed or was interrupted.
            down = [str(BESIDE / "down")]
            subprocess.run(down, env=environment, check=False, start_new_session=True)


@contextlib.contextmanager
def _kind() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="tank-e2e-") as folder:
        config = str(Path(folder) / "kubeconfig")
        # A name of its own: the cluster is deleted in the end, also when it could not be created.
        cluster = f"tank-e2e-{secrets.token_hex(3)}"
        name = ["--name", cluster, "--kubeconfig", config]
        nodes = ["--config", str(ROOT / "e2e" / "kind.yaml")]
        try:
            made = subprocess.run(["kind", "create", "cluster", *name, *nodes, "--wait", "180s"], check=False)
            if made.returncode:
                raise NoClusterError("kind could not start one: its reason stands above")
            yield {
                "KUBECONFIG": config,
                "TANK_IMAGE_LOAD": f"kind load image-archive --name {cluster}",
                "TANK_NODE_STOP": "docker kill {node}",
                "TANK_NODE_START": "docker start {node}",
                "TANK_IN_NODE": "docker exec {node}",
            }
        finally:
            subprocess.run(["kind", "delete", "cluster", *name], check=False, start_new_session=True)


def _suite(environment: dict[str, str], *, is_ours: bool) -> int:
    """Runs the suite, and returns its exit code. A signal that ends this process ends the suite, too: at once
    if the cluster is ours, else when it has undone its changes to the cluster."""
    # A session of its own: what a terminal sends to all reaches it once, from here.
    command = [*SUITE, *sys.argv[1:]]
    # A signal waits until the process has its name here: else it would end this process without the suite.
    early: list[int] = []
    _on_ending(lambda number, _: early.append(number))
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as process:
        try:
            _on_ending(_end)
            if early:
                _end(early[0], None)
            return process.wait()
        except SystemExit:
            if not is_ours:
                print("\nEnding: what was done to the cluster is taken back first.", file=sys.stderr)
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(TAKE_BACK_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _on_ending(handler: Callable[[int, FrameType | None], None]) -> None:
    """It takes the signals that end a run, from now on."""
    for each in ENDING:
        signal.signal(each, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """The cluster is ended as well, and another signal doesn't disturb that."""
    _on_ending(_pass_over)
    sys.exit(128 + number)


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Not as ignored ones, which what is started from now on would ignore, too."""


def main() -> int:
    """See the module."""
    _on_ending(_end)
    try:
        with cluster() as found:
            environment = {**os.environ, **found}
            Environment.read(environment)
            return _suite(environment, is_ours=bool(found))
    except NoClusterError as error:
        print(f"\nTHE END-TO-END TESTS DID NOT RUN: {error}.", file=sys.stderr)
        return 0
    except MissingError as error:
        print(f"\nTHE END-TO-END TESTS CAN'T RUN: {error}.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
