"""`tank group`: its table of commands."""

import click

from tank_cli.shell.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand("tank_cli.groups.show:list_groups", "List the consumer groups."),
    "describe": LazyCommand(
        "tank_cli.groups.show:describe", "Show a group's state, positions, lag and members' partitions."
    ),
    "members": LazyCommand("tank_cli.groups.show:members", "Show the members of a group."),
    "reset": LazyCommand("tank_cli.groups.reset:reset", "Set a group's positions anew."),
    "delete": LazyCommand("tank_cli.groups.delete:delete", "Delete groups with their positions."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """See, reset and delete consumer groups."""
