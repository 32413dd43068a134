"""`tank cluster`: the group and its table of commands."""

import click

from tank_cli.shell.lazy import LazyCommand, LazyGroup

COMMANDS: dict[str, LazyCommand] = {
    "up": LazyCommand(
        "tank_cli.cluster.run:up", "Start the processes that don't run, and wait until all are ready."
    ),
    "down": LazyCommand("tank_cli.cluster.run:down", "Stop all processes in order; the data stays."),
    "logs": LazyCommand(
        "tank_cli.cluster.run:logs", "Show what the processes logged: all, or those named, such as broker-1."
    ),
    "status": LazyCommand("tank_cli.cluster.show:status", "Show at a glance how the cluster is."),
    "brokers": LazyCommand(
        "tank_cli.cluster.show:brokers", "List the brokers: which live, and what they hold."
    ),
    "topics": LazyCommand(
        "tank_cli.cluster.show:topics", "List the topics: how many of their partitions are in trouble."
    ),
    "partitions": LazyCommand(
        "tank_cli.cluster.show:partitions",
        "Show who leads each partition, who is in sync, and what is the matter.",
    ),
    "controllers": LazyCommand(
        "tank_cli.cluster.controllers:show_controllers",
        "List the controllers: who leads, who votes, how far each is.",
    ),
    "elect": LazyCommand(
        "tank_cli.cluster.change:elect",
        "Have the preferred replica lead; with --unclean, any that lives where none can.",
    ),
    "drain": LazyCommand(
        "tank_cli.cluster.change:drain", "Move everything off a broker, leadership first, so that it can go."
    ),
    "move": LazyCommand(
        "tank_cli.cluster.change:move", "Move a partition's replicas to other brokers, or change their order."
    ),
    "balance": LazyCommand("tank_cli.cluster.change:balance", "Even loads and leaders out now."),
    "remove": LazyCommand(
        "tank_cli.cluster.change:remove", "Forget a broker that is gone for good: drained, and stopped."
    ),
    "transfer": LazyCommand(
        "tank_cli.cluster.controllers:transfer", "Have another controller lead the controllers."
    ),
    "remove-controller": LazyCommand(
        "tank_cli.cluster.controllers:remove_controller", "Take a controller out that is not coming back."
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def cluster() -> None:
    """Run a cluster, look into one, and change it."""
