"""`tank cluster`: the group and its table of commands."""

import click

from tank_cli.shell.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "up": LazyCommand(
        "tank_cli.cluster.run:up", "Start the processes that don't run, and wait until all are ready."
    ),
    "down": LazyCommand("tank_cli.cluster.run:down", "Stop all processes in order; the data stays."),
    "logs": LazyCommand(
        "tank_cli.cluster.run:logs", "Show the logs of all processes, or of those named, such as broker-1."
    ),
    "status": LazyCommand("tank_cli.cluster.show:status", "Show the state and the problems of the cluster."),
    "brokers": LazyCommand(
        "tank_cli.cluster.show:brokers", "List the brokers: which are alive, and how much each holds."
    ),
    "topics": LazyCommand(
        "tank_cli.cluster.show:topics", "List the topics: how many of their partitions are in trouble."
    ),
    "partitions": LazyCommand(
        "tank_cli.cluster.show:partitions",
        "Show each partition's leader, in-sync replicas and problems.",
    ),
    "controllers": LazyCommand(
        "tank_cli.cluster.controllers:show_controllers",
        "List the controllers: the leader, the voters, how far each is.",
    ),
    "elect": LazyCommand(
        "tank_cli.cluster.change:elect",
        "Elect the preferred replica as leader; with --unclean, any live one.",
    ),
    "drain": LazyCommand(
        "tank_cli.cluster.change:drain",
        "Move all leadership and replicas off a broker, so that it can be removed.",
    ),
    "move": LazyCommand(
        "tank_cli.cluster.change:move", "Move a partition's replicas to other brokers, or change their order."
    ),
    "balance": LazyCommand(
        "tank_cli.cluster.change:balance", "Balance replicas and leaders over the brokers now."
    ),
    "remove": LazyCommand(
        "tank_cli.cluster.change:remove", "Remove a broker for good that is drained and stopped."
    ),
    "transfer": LazyCommand(
        "tank_cli.cluster.controllers:transfer", "Hand leadership of the controllers to another one."
    ),
    "remove-controller": LazyCommand(
        "tank_cli.cluster.controllers:remove_controller", "Remove a controller that is not coming back."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def cluster() -> None:
    """Run, inspect and change a cluster."""
