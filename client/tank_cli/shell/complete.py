"""The shell's completions behind TAB: the topics and groups of the broker, when it answers at once."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from tank_cli.shell.session import DEFAULT_SERVERS, SERVERS_VARIABLE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tank_client.sync import Client

PATIENCE_MS = 700  # TAB must not wait longer


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Returns the topics that begin with the typed text; none when no broker answers in time."""
    return _complete(ctx, incomplete, lambda client: (topic.name for topic in client.admin.describe_topics()))


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Returns the consumer groups that begin with the typed text; none when no broker answers in time. Names
    that are not UTF-8 are left out.
    """
    return _complete(ctx, incomplete, lambda client: client.admin.list_groups())


def _complete(
    ctx: click.Context, incomplete: str, ask: "Callable[[Client], Iterable[str]]"
) -> "list[CompletionItem]":
    import os

    from click.shell_completion import CompletionItem

    from tank_client import errors
    from tank_client.settings import ClientSettings
    from tank_client.sync import Client
    from tank_protos.wire.names import readable

    servers = ctx.params.get("servers") or os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
    bounds = ClientSettings(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    try:
        with Client(servers=servers, settings=bounds) as client:
            names = sorted(ask(client))
    except (errors.TankError, OSError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name == readable(name)]
