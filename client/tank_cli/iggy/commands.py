"""`tank iggy`: its tables of commands."""

import click

from tank_cli.shell.lazy import LazyCommand, LazyGroup

STREAM_COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand("tank_cli.iggy.streams:list_streams", "List the streams."),
    "create": LazyCommand("tank_cli.iggy.streams:create", "Create a stream."),
    "rename": LazyCommand("tank_cli.iggy.streams:rename", "Rename a stream."),
    "delete": LazyCommand("tank_cli.iggy.streams:delete", "Delete a stream with its topics."),
    "purge": LazyCommand("tank_cli.iggy.streams:purge", "Delete all messages of a stream's topics."),
}
TOPIC_COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand("tank_cli.iggy.topics:list_topics", "List the topics that Iggy's clients see."),
    "create": LazyCommand("tank_cli.iggy.topics:create", "Create a topic in a stream."),
    "rename": LazyCommand("tank_cli.iggy.topics:rename", "Rename a topic for Iggy's clients."),
    "alter": LazyCommand(
        "tank_cli.iggy.topic_changes:alter",
        "Change a topic's retention, durability or size of segments, or add partitions.",
    ),
    "shrink": LazyCommand(
        "tank_cli.iggy.topic_changes:shrink",
        "Remove the partitions of the highest numbers, with all their messages.",
    ),
    "delete": LazyCommand("tank_cli.iggy.topics:delete", "Delete a topic with all its messages."),
    "purge": LazyCommand("tank_cli.iggy.topics:purge", "Delete all messages of a topic."),
}
GROUP_COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand("tank_cli.iggy.groups:list_groups", "List the consumer groups of Iggy's clients."),
    "create": LazyCommand("tank_cli.iggy.groups:create", "Create a consumer group of a topic."),
    "delete": LazyCommand("tank_cli.iggy.groups:delete", "Delete a consumer group of a topic."),
}


@click.group(cls=LazyGroup, table=STREAM_COMMANDS)
def stream() -> None:
    """See and change streams."""


@click.group(cls=LazyGroup, table=TOPIC_COMMANDS)
def topic() -> None:
    """See and change the topics of streams."""


@click.group(cls=LazyGroup, table=GROUP_COMMANDS)
def group() -> None:
    """See and change the consumer groups of Iggy's clients."""


COMMANDS: dict[str, LazyCommand] = {
    "stream": LazyCommand("tank_cli.iggy.commands:stream", "See and change streams."),
    "topic": LazyCommand("tank_cli.iggy.commands:topic", "See and change the topics of streams."),
    "group": LazyCommand(
        "tank_cli.iggy.commands:group", "See and change the consumer groups of Iggy's clients."
    ),
    "expose": LazyCommand("tank_cli.iggy.exposing:expose", "Show a topic to Iggy's clients, too."),
    "hide": LazyCommand("tank_cli.iggy.exposing:hide", "Hide a topic from Iggy's clients; it stays."),
    "user": LazyCommand("tank_cli.iggy.user:user", "See and change the users of Iggy's clients."),
    "token": LazyCommand("tank_cli.iggy.token:token", "See, create and delete personal access tokens."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def iggy() -> None:
    """See and change what Iggy's clients use."""
