"""`tank iggy expose|hide`: topics of other protocols that Iggy's clients see."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.iggy_names import TOPIC, names_of
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.output import done, print_json
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers


@click.command()
@TOPIC
@click.option("--stream", required=True, metavar="STREAM", help="The stream in which it is shown.")
@click.option("--name", metavar="NAME", help="Its name there.  [default: TOPIC]")
@controller_options
@offline_options
def expose(
    session: CommandSession, controllers: "Controllers", topic: str, stream: str, name: str | None
) -> None:
    """Show a topic to Iggy's clients, too.

    Deleting or purging the whole stream leaves it alone.
    """
    from tank_controller.leader.reports import report
    from tank_protos.generated import control_pb2 as pb

    shown = names_of(controllers).stream(stream)
    rows = list(report.rows(controllers.partitions([topic], limit=1)))
    if not rows:
        raise CliError(f"Topic {topic!r} has no partitions.", ExitCode.NOT_FOUND)
    topic_id = rows[0].topic.topic.topic_id
    given = name or topic
    change = pb.ExposeTopic(topic_id=topic_id, stream=shown.number, born=shown.born, name=given)
    outcome = controllers.change(pb.Command(expose_topic=change))
    if session.as_json:
        print_json({"topic": topic, "stream": stream, "name": given, "number": outcome.number})
    else:
        done(f"Iggy's clients see {topic} as {given} in stream {stream}, number {outcome.number}.")


@click.command()
@TOPIC
@controller_options
@offline_options
def hide(session: CommandSession, controllers: "Controllers", topic: str) -> None:
    """Hide a topic from Iggy's clients; it stays.

    Their consumer groups of it are deleted.
    """
    from tank_protos.generated import control_pb2 as pb

    found = [each for each in names_of(controllers).topics if each.topic.name == topic]
    if not found:
        hint = "tank iggy topic list"
        raise CliError(f"Iggy's clients see no topic {topic!r}.", ExitCode.NOT_FOUND, hint)
    controllers.change(pb.Command(hide_topic=pb.HideTopic(topic_id=found[0].topic.topic_id)))
    if session.as_json:
        print_json({"hidden": topic})
    else:
        done(f"Iggy's clients don't see {topic} any more.")
