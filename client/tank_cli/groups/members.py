"""The members of a group in words, and in JSON."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tank_cli.shell.figures import plural
from tank_cli.shell.output import Json

if TYPE_CHECKING:
    from tank_client.model import GroupMember, Route

NAMED = 5
"""The most members that a sentence names."""


def members_text(members: "Sequence[GroupMember]") -> str:
    """The members in a sentence: `2 members: worker-1 (10.0.0.7), worker-2 (10.0.0.8)`."""
    named = [_named(each) for each in members]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{plural(len(named), 'member')}: {', '.join(named[:NAMED])}{more}"


def _named(member: "GroupMember") -> str:
    host = member.host.removeprefix("/")
    return f"{name_of(member)} ({host})" if host else name_of(member)


def name_of(member: "GroupMember") -> str:
    """The name by which people know a member: its static name, else its client's, else its id."""
    return member.instance_id or member.client_name or member.member_id


def owners_of(members: "Iterable[GroupMember]") -> "dict[Route, GroupMember]":
    """Returns the member that has each partition."""
    return {route: member for member in members for route in member.assignment}


def partitions_text(routes: "Iterable[Route]") -> str:
    """Partitions by topic, runs as ranges: `orders 0-3,7; flights 1`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(routes):
        by_topic.setdefault(topic, []).append(partition)
    return "; ".join(f"{topic} {ranges_text(numbers)}" for topic, numbers in by_topic.items())


def ranges_text(numbers: Sequence[int]) -> str:
    """Rising numbers, runs as ranges: `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def member_json(member: "GroupMember") -> dict[str, Json]:
    """A member of `tank group members --output json`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        by_topic.setdefault(topic, []).append(partition)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id or None,
        "client": member.client_name,
        "host": member.host.removeprefix("/"),
        "epoch": member.epoch,
        "topics": list(member.subscribed),
        "partitions": [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()],
    }
