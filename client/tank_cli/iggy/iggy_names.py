"""The names of Iggy's clients, as the controllers know them, and looking them up."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tank_cli.shell.exit_codes import CliError, ExitCode

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers
    from tank_protos.generated import control_pb2 as pb

STREAM = click.argument("stream", metavar="STREAM")
TOPIC = click.argument("topic", metavar="TOPIC")
YES = click.option("--yes", "-y", is_flag=True, help="Don't ask.")


@dataclass(frozen=True, slots=True)
class IggyNames:
    """All streams, topics and groups. A look-up raises CliError for a name that isn't there."""

    streams: "list[pb.IggyStream]"
    topics: "list[pb.IggyTopicSummary]"
    groups: "list[pb.IggyGroup]"

    def stream(self, name: str) -> "pb.IggyStream":
        """The stream of this name."""
        for each in self.streams:
            if each.name == name:
                return each
        raise CliError(f"There is no stream {name!r}.", ExitCode.NOT_FOUND, "tank iggy stream list")

    def topics_of(self, stream: "pb.IggyStream") -> "list[pb.IggyTopicSummary]":
        """The topics of a stream, by number."""
        return [each for each in self.topics if each.topic.iggy.stream == stream.number]

    def topic(self, stream: str, name: str) -> "pb.IggyTopicSummary":
        """The topic of this name in the stream of that name."""
        for each in self.topics_of(self.stream(stream)):
            if each.topic.iggy.name == name:
                return each
        raise CliError(
            f"Stream {stream!r} has no topic {name!r}.", ExitCode.NOT_FOUND, "tank iggy topic list"
        )

    def group(self, topic: "pb.IggyTopicSummary", name: str) -> "pb.IggyGroup":
        """The group of this name of a topic."""
        for each in self.groups:
            if each.topic_id == topic.topic.topic_id and each.name == name:
                return each
        raise CliError(f"The topic has no group {name!r}.", ExitCode.NOT_FOUND, "tank iggy group list")

    def stream_name(self, topic: "pb.IggyTopicSummary") -> str:
        """The name of the topic's stream."""
        return next(each.name for each in self.streams if each.number == topic.topic.iggy.stream)


def names_of(controllers: "Controllers") -> IggyNames:
    """As they are committed now."""
    parts = controllers.iggy_names()
    streams = [each for part in parts for each in part.streams]
    topics = [each for part in parts for each in part.topics]
    return IggyNames(streams, topics, [each for part in parts for each in part.groups])


def confirm(what: str, *, yes: bool) -> None:
    """Asks, unless `--yes` was said. what: what is lost, such as `Delete a/b with all messages`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{what}? Say --yes.", ExitCode.USAGE)
    if not click.confirm(f"{what}?", err=True):
        raise CliError("Nothing was changed.")
