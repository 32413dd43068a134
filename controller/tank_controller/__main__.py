"""`tank-controller`: runs one controller of a cluster. The command builds the process from its options."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tank_protos import server_packages

server_packages.demand()  # before the modules that import them

from tank_controller import limits  # noqa: E402
from tank_protos.http_api.token import TOKEN_VARIABLE, Token  # noqa: E402
from tank_protos.log_lines import set_up_logs  # noqa: E402

if TYPE_CHECKING:
    from tank_controller.k8s.client import KubernetesConfig
    from tank_controller.node import ControllerConfig

# Slow imports wait until the signal handlers are set: see `main`.

EPILOG = """
Every option can also be an environment variable: --session-timeout-ms: TANK_SESSION_TIMEOUT_MS.

A cluster is founded once, when all configured controllers run and are empty. A controller whose folder was
emptied asks the others to be added, and doesn't vote before it has caught up.

\b
Exit codes:
    0  stopped in order, by SIGTERM or Ctrl-C
    1  it could not start or go on: the message says why
    2  an option can't be used
"""


class ClusterOption(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click alone
    """The controllers' addresses: `1=HOST:PORT,2=HOST:PORT,…`"""

    name = "ID=HOST:PORT,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[int, str]:
        """Addresses by ordinal."""
        found: dict[int, str] = {}
        for item in str(value).split(","):
            match = re.fullmatch(r"\s*(\d{1,9})=(\S+):(\d{1,5})\s*", item)
            if match is None or int(match[3]) > 65_535:
                self.fail("write ID=HOST:PORT for each controller, with commas between", param, ctx)
            if int(match[1]) in found:
                self.fail(
                    f"controller {match[1]} is named twice: give each controller one address", param, ctx
                )
            found[int(match[1])] = f"{match[2]}:{match[3]}"
        return found


class OrdinalOption(click.ParamType):  # type: ignore[type-arg] # as above
    """A controller's ordinal: `N`, or the name of a StatefulSet's pod."""

    name = "N|POD"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The ordinal; that of a pod `NAME-N` is N."""
        match = re.fullmatch(r"(?:[a-z0-9.-]{1,240}-)?(\d{1,9})", str(value))
        if match is None:
            self.fail("write a whole number, or a pod's name such as tank-controller-0", param, ctx)
        return int(match[1])


@click.command(
    epilog=EPILOG,
    context_settings={
        "auto_envvar_prefix": "TANK",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.option(
    "--id",
    "ordinal",
    type=OrdinalOption(),
    envvar="TANK_ID",
    required=True,
    help="This controller's ID in --cluster; a pod's name NAME-N stands for N.",
)
@click.option(
    "--cluster",
    type=ClusterOption(),
    required=True,
    help="The addresses of all controllers, this one included, at which controllers and brokers reach them. "
    "The same list for each controller.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder of this controller's log; no other process may use it.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=None,
    help="The address for gRPC.  [default: this controller's in --cluster]",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    default=None,
    help="The address for /metrics, /healthz, /readyz and the API below /api/v1; off: none.  "
    "[default: loopback, one port above --listen]",
)
@click.option(
    "--api-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the token that the API demands for changes, and for all requests from other "
    f"machines; it may change at any time. Or put the token into {TOKEN_VARIABLE}.  "
    "[default: no changes by the API]",
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the cluster's secret, the same line for all controllers, all brokers and `tank "
    "cluster`: processes without it are refused. Of several lines the first is used, and all are accepted; "
    "it may change at any time.  [default: every caller that reaches --listen is trusted]",
)
@click.option(
    "--session-timeout-ms",
    type=click.IntRange(100, 600_000),
    default=limits.SESSION_TIMEOUT_MS,
    show_default=True,
    help="A broker that is silent for so long is fenced.",
)
@click.option(
    "--clock-skew-max-ms",
    type=click.IntRange(100, 86_400_000),
    default=limits.CLOCK_SKEW_MAX_MS,
    show_default=True,
    help="A broker whose clock differs more from the majority's leads no partition that another broker can "
    "lead. The same for all controllers.",
)
@click.option(
    "--kubernetes-brokers",
    metavar="NAME",
    help="The StatefulSet of the brokers, when this runs in a pod: brokers above its number of pods are "
    "drained.  [default: none]",
)
@click.option(
    "--kubernetes-controllers",
    metavar="NAME",
    help="The StatefulSet of this pod: the controller joins the others even if --cluster doesn't name it, "
    "and leaves them when fewer pods are wanted.  [default: none]",
)
@click.option(
    "--kubernetes-namespace",
    metavar="NAME",
    help="The namespace of both sets, and of this pod.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least level of log lines that are written.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of log lines: text, or one JSON object per line.",
)
def main(
    ordinal: int,
    cluster: dict[int, str],
    data: Path,
    listen: str | None,
    http: str | None,
    api_token_file: Path | None,
    secret_file: Path | None,
    session_timeout_ms: int,
    clock_skew_max_ms: int,
    kubernetes_brokers: str | None,
    kubernetes_controllers: str | None,
    kubernetes_namespace: str | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run one controller of a cluster, until SIGTERM or Ctrl-C stops it in order.

    Without --secret-file every program that reaches the gRPC port is trusted: keep the port in the
    cluster's network.
    """
    if os.getpid() == 1:
        # A container's first process ignores signals for which it has no handler, and is the parent of
        # orphaned processes.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    from tank_controller.node import ControllerConfig
    from tank_controller.raft_node.pod_addresses import PodAddresses

    kubernetes = _kubernetes(kubernetes_brokers, kubernetes_controllers, kubernetes_namespace)
    addresses: Mapping[int, str] = cluster
    if kubernetes is not None and kubernetes.controllers:
        try:
            addresses = PodAddresses(cluster, ordinal)
        except ValueError as error:
            raise click.UsageError(f"--cluster: {error}") from None
    if ordinal not in addresses:
        raise click.UsageError(
            f"--cluster names {sorted(cluster)}, and not {ordinal}, which --id says this is"
        )
    set_up_logs(as_json=log_format == "json", level=log_level)
    token = Token(api_token_file, os.environ.get(TOKEN_VARIABLE, ""))
    if token.file is not None and token.text:
        raise click.UsageError(f"--api-token-file and {TOKEN_VARIABLE} may be two secrets: say one of both")
    serves = listen or addresses[ordinal]
    at = _http(http, serves)
    config = ControllerConfig(
        ordinal, addresses, data, serves, at, session_timeout_ms, clock_skew_max_ms, token, secret_file,
        kubernetes,
    )  # fmt: skip
    raise SystemExit(run(config))


def _kubernetes(
    brokers: str | None, controllers: str | None, namespace: str | None
) -> "KubernetesConfig | None":
    """The Kubernetes settings; None when no StatefulSet was named."""
    from tank_controller.k8s.client import KubernetesConfig

    if not brokers and not controllers:
        return None
    if not namespace:
        raise click.UsageError("--kubernetes-namespace: say where the StatefulSets are")
    pod, uid = os.environ.get("POD_NAME", ""), os.environ.get("POD_UID", "")
    return KubernetesConfig(namespace, brokers or "", pod, uid, controllers or "")


def _http(said: str | None, listen: str) -> str:
    """The host:port for HTTP; empty when HTTP is off."""
    if said:
        return "" if said.lower() == "off" else said
    port = int(listen.rpartition(":")[2])
    return f"127.0.0.1:{port + 1 if 0 < port < 65_535 else 0}"


def run(config: "ControllerConfig") -> int:
    """Runs the controller until it stops; returns the exit code."""
    from tank_controller.app.process import ControllerProcess
    from tank_controller.commands.machine import UnknownEntryError
    from tank_controller.raft_node.replay import RaftStorageError
    from tank_controller.rpc.server import ControllerListenError
    from tank_controller.state.state import SnapshotError
    from tank_protos.cluster_secret import SecretError

    async def live() -> None:
        await ControllerProcess(config).run(click.echo)

    try:
        asyncio.run(live())
    except (
        RaftStorageError,
        SnapshotError,
        UnknownEntryError,
        ControllerListenError,
        SecretError,
        OSError,
    ) as error:
        click.echo(f"error: {error}.", err=True)
        return 1
    return 0


if __name__ == "__main__":
    main(prog_name="tank-controller")
