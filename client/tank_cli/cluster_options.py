"""How a command is told which cluster is meant."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tank_cli.exit_codes import CliError, ExitCode
from tank_node.command_options import ControllersOption

if TYPE_CHECKING:
    from tank_cli.controllers import Controllers

CONTROLLERS_VARIABLE = "TANK_CONTROLLERS"

FOLDER = click.option(
    "--data",
    # By one name however it is said: a process is known by the folder on its command line.
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    required=True,
    metavar="DIR",
    help="The cluster's folder: data, logs and cluster.json.",
)


def controller_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--data` and `--controllers`, one of which says which cluster is meant; the function gets
    `controllers`."""

    @functools.wraps(function)
    def with_controllers(*args: Any, data: Path | None, controllers: list[str] | None, **kwargs: Any) -> Any:
        with _found(data, controllers) as found:
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
    return by_folder(by_address(with_controllers))


def _found(data: Path | None, addresses: list[str] | None) -> "Controllers":
    from tank_cli import cluster_folder
    from tank_cli.controllers import Controllers

    said = click.get_current_context().get_parameter_source("controllers") is ParameterSource.COMMANDLINE
    if data is not None and said:
        raise CliError("--data and --controllers may name two clusters: say one of both.", ExitCode.USAGE)
    if data is not None:
        folder = cluster_folder.load_existing(data.absolute())
        return Controllers([member.address for member in folder.controllers], f"--data {data}")
    if addresses:
        return Controllers(addresses, f"--controllers {','.join(addresses)}" if said else "")
    raise CliError(
        f"Which cluster? Say --data DIR of one on this machine, or --controllers HOST:PORT,… "
        f"({CONTROLLERS_VARIABLE}).",
        ExitCode.USAGE,
    )
