"""The command `tank-node`: runs a broker of a cluster."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from tank_node.app import config as node_config
from tank_node.app.config import ConfigError, LineFormat, NodeConfig
from tank_node.app.options import ControllersOption, node_options
from tank_protos import server_packages

EPILOG = """
Every option can also be an environment variable (--log-format: TANK_LOG_FORMAT) or, but for --controllers and
--config, a key of the TOML file. The command line wins over the environment, the environment over the file.
In a pod without --rack, TANK_RACK_FROM_NODE names the Kubernetes node whose zone is the rack.

\b
Exit codes:
    0  stopped in order, by SIGTERM or Ctrl-C: other brokers lead its partitions
    1  the broker could not start, or go on: the message says why
    2  an option, a variable or a key of the file can't be used
  128+ stopped at once, by a second signal
"""

LEAVE_EPILOG = """
Options that `leave` shares with the broker stand before `leave`, or are in the environment.

\b
Exit codes:
    0  the process may be stopped, or the cluster was deleted: the controllers' names don't exist any more
    1  the time is up, or no controller answers: the message says what the command waited for
    2  an option or a variable can't be used
"""


@click.group(
    invoke_without_command=True,
    epilog=EPILOG,
    subcommand_metavar="[leave]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--controllers",
    type=ControllersOption(),
    envvar="TANK_CONTROLLERS",
    required=True,
    help="The cluster's controllers; one that answers is enough to find the others.",
)
@node_options
@click.pass_context
def main(context: click.Context, /, controllers: list[str], **flags: str | None) -> None:
    """Run a broker of a cluster, until SIGTERM or Ctrl-C stops it in order."""
    if os.getpid() == 1:
        # A container's first process ignores signals without a handler, and is the parent of orphans.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        config = node_config.load(flags, os.environ)
    except ConfigError as error:
        raise click.UsageError(f"{error}.") from None
    if context.invoked_subcommand is not None:
        context.obj = config, controllers
        return
    if config.broker_id is None and not (config.data / "meta.json").exists():
        raise click.UsageError("--broker-id: a new data folder needs the number of its broker.")
    raise SystemExit(run(config, controllers))


@main.command(epilog=LEAVE_EPILOG)
@click.option(
    "--within-ms",
    type=click.IntRange(0, 86_400_000),
    envvar="TANK_LEAVE_MS",
    default=600_000,
    show_default=True,
    help="How long to wait.",
)
@click.pass_obj
def leave(known: tuple[NodeConfig, list[str]], within_ms: int) -> None:
    """Wait until this broker's process may be stopped without harm.

    A broker that is to be removed may be stopped when it holds no replica any more. Any other may be stopped
    when no partition falls below min.insync.replicas by that. A pod's preStop hook runs this command; its
    messages go to the pod's log.
    """
    config, controllers = known
    if config.broker_id is None:
        raise click.UsageError("--broker-id: say which broker is to be stopped.")
    raise SystemExit(run_leave(config.broker_id, controllers, within_ms, config.secret_file))


def run(config: NodeConfig, controllers: list[str]) -> int:
    """Runs a broker until it stops; returns the exit code."""
    server_packages.demand()
    from tank_node.app.cluster_process import ClusterNodeProcess, RefusedError
    from tank_node.app.process import Started
    from tank_node.app.zone import NodeZoneError, zone_of_node
    from tank_node.segment.errors import DataFolderError, StorageError
    from tank_node.server.loop import TickLoop
    from tank_protos.cluster_secret import SecretError
    from tank_protos.log_lines import set_up_logs

    set_up_logs(as_json=config.log_format is LineFormat.JSON, level=config.log_level)

    def announce(started: Started) -> None:
        kafka = "" if started.kafka is None else f", Kafka clients on {started.kafka}"
        iggy = "" if started.iggy is None else f", Iggy clients on {started.iggy}"
        http = "" if started.http is None else f", http on {started.http}"
        click.echo(
            f"tank broker {started.broker_id} of cluster {started.cluster_id} listening on "
            f"{started.listen}{http}{kafka}{iggy}; data in {started.data}; ready in {started.seconds:.2f} s"
        )

    async def live() -> None:
        nonlocal config
        node_name = os.environ.get("TANK_RACK_FROM_NODE", "")
        if node_name and not config.rack:
            config = replace(config, rack=zone_of_node(node_name))
        await ClusterNodeProcess(config, controllers).run(announce)

    try:
        with asyncio.Runner(loop_factory=TickLoop) as runner:
            runner.run(live())
    except (DataFolderError, StorageError, RefusedError, NodeZoneError, SecretError, OSError) as error:
        click.echo(f"error: {error}.", err=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run_leave(broker_id: int, controllers: list[str], within_ms: int, secret: Path | None = None) -> int:
    """Runs `leave`; returns the exit code."""
    server_packages.demand()
    from tank_node.app.leave import Ending, Waited, wait_to_leave
    from tank_node.app.leave_calls import LeaveCalls
    from tank_node.cluster.secret import prover_of
    from tank_protos.generated import control_pb2 as pb
    from tank_protos.resolver import Resolver, look_up

    prover = prover_of(secret, broker_id)
    pod = os.environ.get("POD_NAME", "")
    request = pb.LeaveRequest(
        broker_id=broker_id, pod_name=pod, pod_uid=os.environ.get("POD_UID", "") if pod else ""
    )

    with _pod_log(pod) as log:

        def tell(text: str) -> None:
            click.echo(f"leave: {text}", file=log)

        words = logging.Logger("leave")
        words.addHandler(handler := logging.StreamHandler(log))
        handler.setFormatter(logging.Formatter("leave: %(message)s"))

        async def wait() -> Waited:
            resolver = Resolver(look_up, time.monotonic, words)
            calls = LeaveCalls(request, prover, resolver)
            async with calls.looking_up(controllers):
                return await wait_to_leave(
                    controllers, within_ms / 1000, calls.ask, calls.is_named,
                    time.monotonic, asyncio.sleep, tell,
                )  # fmt: skip

        waited = asyncio.run(wait())
        match waited.ending:
            case Ending.MAY_STOP:
                tell(f"{waited.reason} It may be stopped.")
                return 0
            case Ending.TAKEN_DOWN:
                tell("the controllers' names don't exist any more: the cluster was deleted.")
                return 0
            case Ending.TIME_IS_UP:
                tell(f"the time is up after {within_ms // 1000} s. {waited.reason}")
            case Ending.NOBODY_ANSWERS:
                tell("no controller answers: check that they run and can be reached.")
    return 1


@contextlib.contextmanager
def _pod_log(pod: str) -> Iterator[TextIO]:
    """The stream for the messages of `leave`: in a pod the log of its first process, because Kubernetes
    doesn't show the output of a preStop hook."""
    try:
        log = Path("/proc/1/fd/2").open("w", buffering=1) if pod else None  # noqa: SIM115 - with, below
    except OSError:
        log = None
    with log or contextlib.nullcontext(sys.stderr) as words:
        yield words


if __name__ == "__main__":
    main(prog_name="tank-node")
