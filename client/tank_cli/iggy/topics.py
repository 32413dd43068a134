"""`tank iggy topic`: the topics of streams."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.iggy_names import STREAM, TOPIC, YES, confirm, names_of
from tank_cli.shell.brokers.positions import DurationType, SizeType
from tank_cli.shell.figures import count_text
from tank_cli.shell.output import Json, done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers


@click.command("list")
@click.option("--stream", metavar="STREAM", help="Only topics of this stream.")
@controller_options
@offline_options
def list_topics(session: CommandSession, controllers: "Controllers", stream: str | None) -> None:
    """List the topics that Iggy's clients see.

    TOPIC is the name by which clients of other protocols know it.
    """
    names = names_of(controllers)
    found = names.topics if stream is None else names.topics_of(names.stream(stream))
    if session.as_json:
        rows: list[Json] = [
            {
                "stream": names.stream_name(each),
                "number": each.topic.iggy.number,
                "name": each.topic.iggy.name,
                "topic": each.topic.name,
                "partitions": each.partitions,
                "exposed": each.topic.iggy.exposed,
            }
            for each in found
        ]
        print_json({"topics": rows})
    elif not found:
        note("There are none; `tank iggy topic create STREAM NAME` makes one.")
    else:
        table = [
            [
                names.stream_name(each),
                str(each.topic.iggy.number),
                each.topic.iggy.name,
                each.topic.name,
                count_text(each.partitions),
                "exposed" if each.topic.iggy.exposed else "-",
            ]
            for each in found
        ]
        print_table(["Stream", ">Number", "Name", "Topic", ">Partitions", "Of others"], table)


@click.command()
@STREAM
@TOPIC
@click.option("--partitions", type=click.IntRange(0, 1000), default=1, show_default=True)
@click.option(
    "--replication-factor", type=click.IntRange(0, 64), default=0, metavar="N",
    help="Replicas of each partition; 0: 3, or as many as there are brokers.",
)  # fmt: skip
@click.option("--expiry", type=DurationType(), help="How long messages are kept.  [default: for ever]")
@click.option("--max-size", type=SizeType(), help="How large the topic may grow.  [default: no limit]")
@controller_options
@offline_options
def create(
    session: CommandSession,
    controllers: "Controllers",
    stream: str,
    topic: str,
    partitions: int,
    replication_factor: int,
    expiry: int | None,
    max_size: int | None,
) -> None:
    """Create a topic in a stream."""
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).stream(stream)
    values = pb.IggyValues(expiry_us=(expiry or 0) * 1000, max_bytes=max_size or 0, compression=1)
    made = pb.CreateIggyTopic(
        stream=found.number,
        born=found.born,
        name=topic,
        partitions=partitions,
        replication_factor=replication_factor,
        settings=[pb.Setting(key="log.format", value="kafka")],
        values=values,
    )
    outcome = controllers.change(pb.Command(create_iggy_topic=made))
    if session.as_json:
        print_json({"stream": stream, "topic": topic, "number": outcome.number})
    else:
        done(f"Created topic {topic} in stream {stream}, number {outcome.number}.")


@click.command()
@STREAM
@TOPIC
@click.argument("new", metavar="NEW")
@controller_options
@offline_options
def rename(session: CommandSession, controllers: "Controllers", stream: str, topic: str, new: str) -> None:
    """Rename a topic for Iggy's clients.

    The name by which clients of other protocols know it stays as it is.
    """
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).topic(stream, topic)
    change = pb.AlterIggyTopic(topic_id=found.topic.topic_id, name=new)
    controllers.change(pb.Command(alter_iggy_topic=change))
    if session.as_json:
        print_json({"stream": stream, "topic": new, "number": found.topic.iggy.number})
    else:
        done(f"Renamed topic {topic} of stream {stream} to {new}.")


@click.command()
@STREAM
@TOPIC
@YES
@controller_options
@offline_options
def delete(session: CommandSession, controllers: "Controllers", stream: str, topic: str, yes: bool) -> None:
    """Delete a topic with all its messages."""
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).topic(stream, topic)
    confirm(f"Delete topic {topic} of stream {stream} with all messages", yes=yes)
    controllers.change(pb.Command(delete_topic=pb.DeleteTopic(topic_id=found.topic.topic_id)))
    if session.as_json:
        print_json({"deleted": topic, "stream": stream})
    else:
        done(f"Deleted topic {topic} of stream {stream}.")


@click.command()
@STREAM
@TOPIC
@YES
@controller_options
@offline_options
def purge(session: CommandSession, controllers: "Controllers", stream: str, topic: str, yes: bool) -> None:
    """Delete all messages of a topic.

    Positions of consumers in it are deleted, too; names, settings and groups stay.
    """
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).topic(stream, topic)
    confirm(f"Delete all messages of topic {topic} of stream {stream}", yes=yes)
    controllers.change(pb.Command(purge_topic=pb.PurgeTopic(topic_id=found.topic.topic_id)))
    if session.as_json:
        print_json({"purged": topic, "stream": stream})
    else:
        done(f"Purged topic {topic} of stream {stream}.")
