"""The shell's completions behind TAB: the topics of the broker, when it answers at once."""

from typing import TYPE_CHECKING

import click

from tank_cli.shell.session import DEFAULT_SERVERS, SERVERS_VARIABLE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PATIENCE_MS = 700  # TAB must not wait longer


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Returns the topics that begin with the typed text; none when no broker answers in time."""
    import os

    from click.shell_completion import CompletionItem

    from tank_client import errors
    from tank_client.settings import ClientSettings
    from tank_client.sync import Client

    servers = ctx.params.get("servers") or os.environ.get(SERVERS_VARIABLE) or DEFAULT_SERVERS
    bounds = ClientSettings(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    try:
        with Client(servers=servers, settings=bounds) as client:
            names = [topic.name for topic in client.admin.describe_topics()]
    except (errors.TankError, OSError):
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
