"""`tank topic create|list|describe|alter|delete`."""

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from tank_cli.shell.brokers.positions import SettingType
from tank_cli.shell.complete import complete_topics
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import bytes_text, count_text, plural, settings_text
from tank_cli.shell.lazy import LazyGroup
from tank_cli.shell.output import Json, done, print_facts, print_gap, print_json, print_table
from tank_cli.shell.session import CommandSession, shared_options
from tank_protos.topic_settings import LOG_FORMAT, LogFormat, in_units

if TYPE_CHECKING:
    from tank_client.model import PartitionDescription, TopicDescription

MAX_PARTITIONS = 65_530
LISTING = "tank topic list"  # what to type when a topic to look at or to change is not there
NAME = click.argument("name", metavar="NAME", shell_complete=complete_topics)


def _each_once(
    context: click.Context, parameter: click.Parameter, settings: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The settings as they are. Raises UsageError for a key that is there twice."""
    for key, times in Counter(key for key, _ in settings).items():
        if times > 1:
            raise click.UsageError(f"--set {key} is there {times} times: say it once.")
    return settings


FORMAT = click.option(
    "--format", "log_format", type=click.Choice([str(each) for each in LogFormat]),
    help="How messages are stored: tank, bundles of TANK's protocol; kafka, record batches, with headers and "
    "null values. It can't be changed afterwards.  [default: tank]",
)  # fmt: skip
SETTINGS = click.option(
    "--set",
    "settings",
    type=SettingType(),
    multiple=True,
    callback=_each_once,
    help="A setting of the topic, such as log.retention.secs=7d or flush=replicated; may be repeated.",
)


@click.group(cls=LazyGroup)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@NAME
@click.option(
    "--partitions", "-p", type=click.IntRange(1, MAX_PARTITIONS), default=1, show_default=True, metavar="N",
    help="How many partitions: as many consumers can share the work.",
)  # fmt: skip
@click.option(
    "--replication-factor", "-r", type=click.IntRange(0, 255), default=0, metavar="N",
    help="How many brokers hold each partition.  [default: 3, or as many as there are]",
)  # fmt: skip
@FORMAT
@SETTINGS
@click.option("--if-not-exists", is_flag=True, help="Succeed when the topic exists already.")
@shared_options
def create(
    session: CommandSession,
    name: str,
    partitions: int,
    replication_factor: int,
    log_format: str | None,
    settings: tuple[tuple[str, str], ...],
    if_not_exists: bool,
) -> None:
    """Create a topic.

    \b
    tank topic create flights --partitions 4 --set log.retention.secs=7d
    tank topic create orders.v1 --format kafka
    """
    chosen = dict(settings)
    if log_format is not None and chosen.setdefault(LOG_FORMAT, log_format) != log_format:
        raise click.UsageError(f"--format and --set {LOG_FORMAT} say different formats: say one of them.")
    from tank_client import errors

    created = True
    with session.client() as client:
        try:
            client.admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, settings=chosen
            )
        except errors.TopicExists:
            if not if_not_exists:
                raise
            created = False
    if session.as_json:
        print_json({"topic": name, "created": created})
    elif created:
        done(f"Created topic {name} with {plural(partitions, 'partition')}.")
    else:
        done(f"Topic {name} is there already; nothing was changed.")


@topic.command("list")
@click.option("--names", is_flag=True, help="Print only the names, one a line.")
@shared_options
def list_topics(session: CommandSession, names: bool) -> None:
    """List the topics.

    Messages are counted by their numbers, from the first to the last: a compacted topic holds fewer.
    """
    from tank_cli.shell.brokers.described import described

    with session.client() as client:
        topics = sorted(described(client, session.servers), key=lambda each: each.name)
    if session.as_json:
        print_json({"topics": [summary_json(each) for each in topics]})
    elif names:
        for each in topics:
            click.echo(each.name)
    elif not topics:
        done("There are no topics yet; `tank topic create NAME` makes one.")
    else:
        columns = ["Topic", ">Partitions", ">Replicas", ">Messages", ">Size", "Settings"]
        print_table(columns, [summary_row(each) for each in topics])


def summary_row(each: "TopicDescription") -> list[str]:
    """A line of `tank topic list`."""
    messages, size = total_messages(each), total_bytes(each)
    return [
        each.name,
        count_text(len(each.partitions)),
        str(each.replication_factor),
        "-" if messages is None else count_text(messages),
        "-" if size is None else bytes_text(size),
        settings_text((s.key, s.value) for s in each.settings if not s.is_default),
    ]


def summary_json(each: "TopicDescription") -> dict[str, Json]:
    """A topic of `tank topic list --output json`; `messages` and `size_bytes` null where the broker can't
    say.
    """
    return {
        "name": each.name,
        "topic_id": each.topic_id,
        "partitions": len(each.partitions),
        "replication_factor": each.replication_factor,
        "messages": total_messages(each),
        "size_bytes": total_bytes(each),
        "settings": {setting.key: setting.value for setting in each.settings if not setting.is_default},
    }


def partition_messages(partition: "PartitionDescription") -> int | None:
    """How many numbers the partition spans; None when this broker doesn't know."""
    first, last = partition.first_available, partition.high_water_mark
    if first is None or last is None:
        return None
    return max(0, last - max(first, 1) + 1)


def total_messages(each: "TopicDescription") -> int | None:
    """The same over all partitions; None when one of them isn't known."""
    counts = [partition_messages(partition) for partition in each.partitions]
    return None if None in counts else sum(count for count in counts if count is not None)


def total_bytes(each: "TopicDescription") -> int | None:
    """Bytes over all partitions; None when one of them isn't known."""
    sizes = [partition.size_bytes for partition in each.partitions]
    return None if None in sizes else sum(size for size in sizes if size is not None)


@topic.command()
@NAME
@click.option("--all-settings", is_flag=True, help="Show the settings that have their defaults, too.")
@shared_options
def describe(session: CommandSession, name: str, all_settings: bool) -> None:
    """Show a topic's settings and partitions."""
    from tank_cli.shell.brokers.described import described

    with session.client(LISTING) as client:
        (found,) = described(client, session.servers, [name])
    if session.as_json:
        print_json(description_json(found))
        return
    messages, size = total_messages(found), total_bytes(found)
    facts = [("topic", found.name)]
    if found.topic_id:
        facts.append(("id", str(found.topic_id)))
    facts.append(("replication factor", str(found.replication_factor)))
    facts += [("format", s.value) for s in found.settings if s.key == LOG_FORMAT]
    if messages is not None:
        facts.append(("messages", count_text(messages)))
    if size is not None:
        facts.append(("size", bytes_text(size)))
    print_facts(facts)
    chosen = [s for s in found.settings if all_settings or not s.is_default]
    if chosen:
        print_gap()
        print_table(
            ["Setting", "Value", ""],
            [[s.key, in_units(s.key, s.value), "default" if s.is_default else "set"] for s in chosen],
        )
    print_gap()
    columns = [">Partition", ">Leader", ">Epoch", "Replicas", "In sync", ">First", ">Last", ">Size"]
    print_table(columns, [partition_row(partition) for partition in found.partitions])


def partition_row(partition: "PartitionDescription") -> list[str]:
    """A line of `tank topic describe`."""

    def known(number: int | None) -> str:
        return "-" if number is None else str(number)

    return [
        str(partition.partition),
        known(partition.leader),
        str(partition.leader_epoch),
        ",".join(map(str, partition.replicas)) or "-",
        ",".join(map(str, partition.in_sync)) or "-",
        known(partition.first_available),
        known(partition.high_water_mark),
        "-" if partition.size_bytes is None else bytes_text(partition.size_bytes),
    ]


def description_json(found: "TopicDescription") -> dict[str, Json]:
    """The shape of `tank topic describe --output json`."""
    return {
        "name": found.name,
        "topic_id": found.topic_id,
        "replication_factor": found.replication_factor,
        "settings": [{"key": s.key, "value": s.value, "is_default": s.is_default} for s in found.settings],
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "first_available": partition.first_available,
                "high_water_mark": partition.high_water_mark,
                "size_bytes": partition.size_bytes,
            }
            for partition in found.partitions
        ],
    }


@topic.command()
@NAME
@click.option(
    "--partitions", "-p", type=click.IntRange(1, MAX_PARTITIONS), metavar="N",
    help="The new number of partitions; never fewer than there are.",
)  # fmt: skip
@SETTINGS
@click.option("--unset", metavar="KEY", multiple=True, help="Back to the default; may be repeated.")
@shared_options
def alter(
    session: CommandSession,
    name: str,
    partitions: int | None,
    settings: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
) -> None:
    """Change a topic's settings or add partitions."""
    if partitions is None and not settings and not unset:
        raise click.UsageError("Nothing to change: give --partitions N, --set KEY=VALUE or --unset KEY.")
    if both := sorted({key for key, _ in settings} & set(unset)):
        raise click.UsageError(f"{both[0]} is named by --set and by --unset: say one of them.")
    changes: dict[str, str | None] = {**dict.fromkeys(unset), **dict(settings)}
    with session.client(LISTING) as client:
        client.admin.alter_topic(name, partitions=partitions or 0, settings=changes)
    if session.as_json:
        print_json({"topic": name, "altered": True})
    else:
        done(f"Altered topic {name}.")


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--if-exists", is_flag=True, help="A topic that isn't there is no error.")
@shared_options
def delete(session: CommandSession, names: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete topics with all their messages."""
    if not yes:
        if not sys.stdin.isatty():
            raise CliError("Deleting a topic deletes its messages: say --yes.", ExitCode.USAGE)
        if not click.confirm(f"Delete {', '.join(names)} with all messages?", err=True):
            raise CliError("Nothing was deleted.")
    from tank_client import errors

    deleted: list[str] = []
    with session.client(LISTING) as client:
        for name in names:
            try:
                client.admin.delete_topic(name)
            except errors.UnknownTopic:
                if not if_exists:
                    raise
            else:
                deleted.append(name)
    if session.as_json:
        print_json({"deleted": deleted})
    else:
        done(f"Deleted {', '.join(deleted)}." if deleted else "Nothing was there to delete.")
