"""`tank iggy group`: the consumer groups of Iggy's clients."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.iggy_names import STREAM, TOPIC, YES, confirm, names_of
from tank_cli.shell.output import Json, done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers

GROUP = click.argument("group", metavar="GROUP")


@click.command("list")
@controller_options
@offline_options
def list_groups(session: CommandSession, controllers: "Controllers") -> None:
    """List the consumer groups of Iggy's clients."""
    names = names_of(controllers)
    topics = {each.topic.topic_id: each for each in names.topics}
    found = [(topics[each.topic_id], each) for each in names.groups if each.topic_id in topics]
    if session.as_json:
        rows: list[Json] = [
            {
                "stream": names.stream_name(topic),
                "topic": topic.topic.iggy.name,
                "number": group.number,
                "name": group.name,
            }
            for topic, group in found
        ]
        print_json({"groups": rows})
    elif not found:
        note("There are none; `tank iggy group create STREAM TOPIC GROUP` makes one.")
    else:
        table = [
            [names.stream_name(topic), topic.topic.iggy.name, str(group.number), group.name]
            for topic, group in found
        ]
        print_table(["Stream", "Topic", ">Number", "Group"], table)


@click.command()
@STREAM
@TOPIC
@GROUP
@controller_options
@offline_options
def create(session: CommandSession, controllers: "Controllers", stream: str, topic: str, group: str) -> None:
    """Create a consumer group of a topic."""
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).topic(stream, topic)
    made = pb.CreateIggyGroup(topic_id=found.topic.topic_id, name=group)
    outcome = controllers.change(pb.Command(create_iggy_group=made))
    if session.as_json:
        print_json({"group": group, "number": outcome.number})
    else:
        done(f"Created group {group}, number {outcome.number}.")


@click.command()
@STREAM
@TOPIC
@GROUP
@YES
@controller_options
@offline_options
def delete(
    session: CommandSession, controllers: "Controllers", stream: str, topic: str, group: str, yes: bool
) -> None:
    """Delete a consumer group of a topic.

    Its members and positions go with it.
    """
    from tank_protos.generated import control_pb2 as pb

    names = names_of(controllers)
    found = names.group(names.topic(stream, topic), group)
    confirm(f"Delete group {group} with its positions", yes=yes)
    gone = pb.DeleteIggyGroup(topic_id=found.topic_id, number=found.number, born=found.born)
    controllers.change(pb.Command(delete_iggy_group=gone))
    if session.as_json:
        print_json({"deleted": group})
    else:
        done(f"Deleted group {group}.")
