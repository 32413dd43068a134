"""The options by which a command names a cluster."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.session import CONTROLLERS_VARIABLE, DEFAULT_SERVERS, SERVERS_VARIABLE, current
from tank_node.app.options import ControllersOption

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers
    from tank_protos.call_proof import Prover

SECRET_VARIABLE = "TANK_SECRET_FILE"

FOLDER = click.option(
    "--data",
    # One spelling of the path: a process is recognized by the folder on its command line.
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    required=True,
    metavar="DIR",
    help="The cluster's folder: data, logs and cluster.json.",
)


def controller_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--data`, `--controllers` and `--servers`, one of which names the cluster; the function gets
    `controllers`.
    """

    @functools.wraps(function)
    def with_controllers(
        *args: Any,
        data: Path | None,
        controllers: list[str] | None,
        servers: str | None,
        secret_file: Path | None,
        **kwargs: Any,
    ) -> Any:
        with _found(data, controllers, servers, secret_file) as found:
            return function(*args, controllers=found, **kwargs)

    by_folder = click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="The folder of a cluster on this machine.",
    )
    by_address = click.option(
        "--controllers",
        type=ControllersOption(),
        envvar=CONTROLLERS_VARIABLE,
        show_envvar=True,
        metavar="HOST:PORT,…",
        help="The cluster's controllers; one that runs is enough.",
    )
    by_brokers = click.option(
        "--servers",
        metavar="HOST:PORT,…",
        help="The cluster's brokers, which know its controllers; one that runs is enough.  "
        f"[env var: {SERVERS_VARIABLE}; default: {DEFAULT_SERVERS}]",
    )
    secret = click.option(
        "--secret-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=SECRET_VARIABLE,
        show_envvar=True,
        metavar="FILE",
        help="The cluster's secret, as its controllers have it; --data finds it by itself.",
    )
    return by_folder(by_address(by_brokers(secret(with_controllers))))


def _found(
    data: Path | None, addresses: list[str] | None, servers: str | None, secret: Path | None
) -> "Controllers":
    """Options of the command line win over variables, and controllers win over brokers."""
    from tank_cli.cluster import folder as cluster_folder
    from tank_cli.cluster.controller_calls import Controllers

    context = click.get_current_context()
    said = context.get_parameter_source("controllers") is ParameterSource.COMMANDLINE
    servers_source = context.find_root().get_parameter_source("servers")
    if servers is None and servers_source is ParameterSource.COMMANDLINE:
        servers = current().servers
    ways = [("--data", data is not None), ("--controllers", said), ("--servers", servers is not None)]
    named_by = [option for option, is_said in ways if is_said]
    if len(named_by) > 1:
        both = " and ".join(named_by[:2])
        raise CliError(f"{both} may name two clusters: say one of both.", ExitCode.USAGE)
    if data is not None:
        folder = cluster_folder.load_existing(data.absolute())
        found = secret or (folder.secret if folder.secret.exists() else None)
        addresses = [member.address for member in folder.controllers]
        return Controllers(addresses, f"--data {data}", prover_of(found))
    if addresses and servers is None:
        named = f"--controllers {','.join(addresses)}" if said else ""
        return Controllers(addresses, named, prover_of(secret))
    from tank_cli.cluster.controllers_of_brokers import find_controllers

    is_default = servers is None and servers_source is not ParameterSource.ENVIRONMENT
    told = find_controllers(servers or current().servers, is_default=is_default)
    named = f"--servers {servers}" if servers else ""
    return Controllers(told, named, prover_of(secret), by_brokers=True)


def prover_of(file: Path | None) -> "Prover":
    """The prover of the cluster's secret in this file. Raises CliError."""
    from tank_protos.call_proof import NO_PROOF, Prover
    from tank_protos.cluster_secret import Party, PartyRole, SecretError, parse

    if file is None:
        return NO_PROOF
    try:
        secrets = parse(file.read_bytes(), str(file))
    except (SecretError, OSError) as error:
        raise CliError(f"The cluster's secret can't be read: {error}.", ExitCode.USAGE) from None
    return Prover(lambda: secrets, lambda: Party(PartyRole.ADMIN), os.urandom)
