"""Permissions of users as `tank iggy user permissions` takes them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tank_cli.shell.exit_codes import CliError, ExitCode

if TYPE_CHECKING:
    from tank_protos.users.permissions import Permissions


def parse_permissions(everywhere: str | None, streams: Iterable[str], topics: Iterable[str]) -> "Permissions":
    """The permissions of `--server`, `--stream` and `--topic`. Raises CliError."""
    from tank_protos.users import rights_text

    try:
        return rights_text.parse_permissions(everywhere or "", streams, topics)
    except rights_text.RightsTextError as error:
        raise CliError(f"{error}.", ExitCode.USAGE) from None


SERVER = click.option("--server", metavar="RIGHT,…", help="Rights for all streams and topics.")
STREAM = click.option("--stream", multiple=True, metavar="N:RIGHT,…", help="Rights in stream number N.")
TOPIC = click.option("--topic", multiple=True, metavar="N/M:RIGHT,…", help="Rights in topic M of stream N.")
