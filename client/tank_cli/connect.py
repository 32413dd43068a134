"""The one place where commands open a client; and where an unknown topic becomes advice while the client
is open.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tank_cli.exit_codes import CliError, ExitCode
from tank_cli.nearest import did_you_mean
from tank_client import errors
from tank_client.sync import Client


@contextmanager
def open_client(servers: str) -> Iterator[Client]:
    """A client for `with`. An `UnknownTopic` that leaves the block names the nearest topic and the
    command to type.
    """
    with Client(servers=servers) as client:
        try:
            yield client
        except errors.UnknownTopic as error:
            raise unknown_topic(error.topic, topic_names(client)) from error


def topic_names(client: Client) -> list[str]:
    """The names of all topics; none when the broker can't say, because this is asked on the way to
    another error.
    """
    try:
        return [topic.name for topic in client.admin.describe_topics()]
    except errors.TankError:
        return []


def unknown_topic(topic: str, names: list[str]) -> CliError:
    """There is no such topic: the nearest one, and the command that creates it."""
    return CliError(
        f"There is no topic {topic!r}.{did_you_mean(topic, names)}",
        ExitCode.NOT_FOUND,
        hint=f"tank topic create {topic}",
    )
