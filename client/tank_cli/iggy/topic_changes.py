"""`tank iggy topic alter|shrink`: what an Iggy client may say of a topic, said by an operator."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.iggy_names import STREAM, TOPIC, YES, confirm, names_of
from tank_cli.shell.brokers.positions import DurationType, SizeType
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import plural
from tank_cli.shell.output import done, print_json
from tank_cli.shell.session import CommandSession, offline_options
from tank_protos.iggy.limits import MAX_TOPIC_PARTITIONS, UNBOUNDED

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers

_DEFAULT = 0
_US_OF_MS = 1000


class ExpiryType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """As DurationType, in microseconds; `never`, and `default` for the cluster's default."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds, as Iggy's clients say it."""
        if isinstance(value, int):
            return value
        words = {"never": UNBOUNDED, "default": _DEFAULT}
        known = words.get(str(value).strip().lower())
        return DurationType().convert(value, param, ctx) * _US_OF_MS if known is None else known


class MaxSizeType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """As SizeType; `unlimited`, and `default` for the cluster's default."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, as Iggy's clients say it."""
        words = {"unlimited": UNBOUNDED, "default": _DEFAULT}
        known = None if isinstance(value, int) else words.get(str(value).strip().lower())
        return SizeType().convert(value, param, ctx) if known is None else known


@click.command()
@STREAM
@TOPIC
@click.option(
    "--partitions", type=click.IntRange(1, MAX_TOPIC_PARTITIONS), metavar="N",
    help="The new number of partitions; `tank iggy topic shrink` takes some away.",
)  # fmt: skip
@click.option("--expiry", type=ExpiryType(), help="How long messages are kept; or never, or default.")
@click.option("--max-size", type=MaxSizeType(), help="How large it may grow; or unlimited, or default.")
@click.option(
    "--segment-size", type=SizeType(), help="The size of a segment of its logs; 0: the cluster's default."
)
@click.option(
    "--durability", type=click.Choice(["replicated", "persisted"]),
    help="When a message is acknowledged: in memory of all replicas in sync, or on their disks.",
)  # fmt: skip
@controller_options
@offline_options
def alter(
    session: CommandSession,
    controllers: "Controllers",
    stream: str,
    topic: str,
    partitions: int | None,
    expiry: int | None,
    max_size: int | None,
    segment_size: int | None,
    durability: str | None,
) -> None:
    """Change a topic's retention, durability or size of segments, or add partitions.

    Iggy's clients see the new values. What is not named stays as it is.
    """
    from tank_protos.generated import control_pb2 as pb
    from tank_protos.iggy.topic_options import with_texts

    options = {"segment_size": None if segment_size is None else str(segment_size), "durability": durability}
    given = {key: value for key, value in options.items() if value is not None}
    if partitions is None and expiry is None and max_size is None and not given:
        raise click.UsageError(
            "Nothing to change: give --partitions N, --expiry, --max-size, --segment-size or --durability."
        )
    found = names_of(controllers).topic(stream, topic)
    topic_id = found.topic.topic_id
    if partitions is not None and partitions < found.partitions:
        raise CliError(
            f"Topic {topic} of stream {stream} has {found.partitions} partitions.",
            ExitCode.USAGE,
            f"tank iggy topic shrink {stream} {topic} --partitions {partitions}",
        )
    if expiry is not None or max_size is not None or given:
        change = pb.AlterIggyTopic(topic_id=topic_id, expiry_us=expiry, max_bytes=max_size)
        if given:
            change.options.options.extend(with_texts(found.topic.iggy.values.options, given))
        controllers.change(pb.Command(alter_iggy_topic=change))
    if partitions is not None and partitions > found.partitions:
        more = pb.AlterTopic(topic_id=topic_id, partitions=partitions)
        controllers.change(pb.Command(alter_topic=more))
    if session.as_json:
        print_json({"stream": stream, "topic": topic, "altered": True})
    else:
        done(f"Altered topic {topic} of stream {stream}.")


@click.command()
@STREAM
@TOPIC
@click.option(
    "--partitions", type=click.IntRange(0, MAX_TOPIC_PARTITIONS), required=True, metavar="N",
    help="How many partitions stay: those of the lowest numbers.",
)  # fmt: skip
@YES
@controller_options
@offline_options
def shrink(
    session: CommandSession, controllers: "Controllers", stream: str, topic: str, partitions: int, yes: bool
) -> None:
    """Remove the partitions of the highest numbers, with all their messages."""
    from tank_protos.generated import control_pb2 as pb

    found = names_of(controllers).topic(stream, topic)
    removed = found.partitions - partitions
    if removed < 0:
        raise CliError(
            f"Topic {topic} of stream {stream} has {found.partitions} partitions.",
            ExitCode.USAGE,
            f"tank iggy topic alter {stream} {topic} --partitions {partitions}",
        )
    if removed:
        confirm(
            f"Remove {plural(removed, 'partition')} of topic {topic} of stream {stream} with all messages",
            yes=yes,
        )
    change = pb.ShrinkTopic(
        topic_id=found.topic.topic_id,
        partitions=partitions,
        seen_partitions=found.partitions,
        seen_epoch_floor=found.topic.epoch_floor,
    )
    controllers.change(pb.Command(shrink_topic=change))
    if session.as_json:
        print_json({"stream": stream, "topic": topic, "removed": removed, "partitions": partitions})
    else:
        done(f"Removed {plural(removed, 'partition')} of topic {topic} of stream {stream}.")
