"""A node's options as flags of a command line, for `tank-node` and `tank serve`."""

from collections.abc import Callable
from typing import Any

import click

from tank_node.app.config import OPTIONS, read_address


class ControllersOption(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click alone
    """A list of addresses: `HOST:PORT,HOST:PORT,…`."""

    name = "HOST:PORT,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Parses the addresses, at least one."""
        try:
            return [str(read_address(item.strip())) for item in str(value).split(",")]
        except ValueError as error:
            self.fail(str(error), param, ctx)


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `config.OPTIONS` to a command as flags, in their order. The command gets each by name, as it was
    written; None where it was not given."""
    text = "A TOML file with any of these options."
    command = click.option("--config", metavar="FILE", default=None, help=text)(command)
    for option in reversed(OPTIONS):
        default = f"  [default: {option.default}]" if option.default else ""
        command = click.option(
            option.flag, option.name, metavar=option.metavar, default=None, help=option.help + default
        )(command)
    return command
