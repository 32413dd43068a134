"""`tank iggy`: its table of commands."""

import click

from tank_cli.shell.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "user": LazyCommand("tank_cli.iggy.user:user", "See and change the users of Iggy's clients."),
    "token": LazyCommand("tank_cli.iggy.token:token", "See, create and delete personal access tokens."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def iggy() -> None:
    """See and change what Iggy's clients use."""
