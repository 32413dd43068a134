"""`tank iggy stream`: the streams of Iggy's clients."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.iggy_names import YES, confirm, names_of
from tank_cli.shell.figures import count_text, plural, time_text
from tank_cli.shell.output import Json, done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers

STREAM = click.argument("name", metavar="STREAM")


@click.command("list")
@controller_options
@offline_options
def list_streams(session: CommandSession, controllers: "Controllers") -> None:
    """List the streams."""
    names = names_of(controllers)
    counts = {each.number: len(names.topics_of(each)) for each in names.streams}
    if session.as_json:
        rows: list[Json] = [
            {
                "number": each.number,
                "name": each.name,
                "topics": counts[each.number],
                "created_ms": each.created_ms,
                "going": each.going,
            }
            for each in names.streams
        ]
        print_json({"streams": rows})
    elif not names.streams:
        note("There are no streams yet; `tank iggy stream create NAME` makes one.")
    else:
        table = [
            [
                str(each.number),
                each.name + (" (being deleted)" if each.going else ""),
                count_text(counts[each.number]),
                time_text(each.created_ms),
            ]
            for each in names.streams
        ]
        print_table([">Number", "Stream", ">Topics", "Created"], table)


@click.command()
@STREAM
@controller_options
@offline_options
def create(session: CommandSession, controllers: "Controllers", name: str) -> None:
    """Create a stream."""
    from tank_protos.generated import control_pb2 as pb

    outcome = controllers.change(pb.Command(create_stream=pb.CreateStream(name=name)))
    if session.as_json:
        print_json({"stream": name, "number": outcome.number})
    else:
        done(f"Created stream {name}, number {outcome.number}.")


@click.command()
@STREAM
@click.argument("new", metavar="NEW")
@controller_options
@offline_options
def rename(session: CommandSession, controllers: "Controllers", name: str, new: str) -> None:
    """Rename a stream.

    The names by which clients of other protocols know its topics stay as they are.
    """
    from tank_protos.generated import control_pb2 as pb

    stream = names_of(controllers).stream(name)
    change = pb.RenameStream(stream=stream.number, born=stream.born, name=new)
    controllers.change(pb.Command(rename_stream=change))
    if session.as_json:
        print_json({"stream": new, "number": stream.number})
    else:
        done(f"Renamed stream {name} to {new}.")


@click.command()
@STREAM
@YES
@controller_options
@offline_options
def delete(session: CommandSession, controllers: "Controllers", name: str, yes: bool) -> None:
    """Delete a stream with its topics.

    Topics of other protocols that were exposed in it are hidden, and stay.
    """
    from tank_protos.generated import control_pb2 as pb

    stream = names_of(controllers).stream(name)
    confirm(f"Delete stream {name} with its topics and all their messages", yes=yes)
    controllers.change(pb.Command(delete_stream=pb.DeleteStream(stream=stream.number, born=stream.born)))
    if session.as_json:
        print_json({"deleted": name})
    else:
        done(f"Deleted stream {name}.")


@click.command()
@STREAM
@YES
@controller_options
@offline_options
def purge(session: CommandSession, controllers: "Controllers", name: str, yes: bool) -> None:
    """Delete all messages of a stream's topics.

    Positions of consumers in them are deleted, too. Exposed topics of other protocols keep their messages.
    """
    from tank_protos.generated import control_pb2 as pb

    names = names_of(controllers)
    topics = [each for each in names.topics_of(names.stream(name)) if not each.topic.iggy.exposed]
    confirm(f"Delete all messages of {plural(len(topics), 'topic')} of stream {name}", yes=yes)
    for each in topics:
        controllers.change(pb.Command(purge_topic=pb.PurgeTopic(topic_id=each.topic.topic_id)))
    if session.as_json:
        print_json({"purged": name, "topics": len(topics)})
    else:
        done(f"Purged {plural(len(topics), 'topic')} of stream {name}.")
