"""Permissions as text, for people and programs: a place, and the names of its rights. Pure."""

from collections.abc import Iterable
from enum import IntFlag
from typing import TYPE_CHECKING, Final, TypeVar

from tank_protos.users.permissions import (
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)

if TYPE_CHECKING:
    from tank_protos.generated import control_pb2 as pb

_MOST_DIGITS: Final = 10
Right = TypeVar("Right", bound=IntFlag)


class RightsTextError(ValueError):
    """A text that names no right, or no place. The message is a sentence without its end."""


def parse_permissions(everywhere: str, streams: Iterable[str], topics: Iterable[str]) -> Permissions:
    """The permissions of `RIGHT,RIGHT`, of `N:RIGHT,RIGHT` for streams and of `N/M:RIGHT,RIGHT` for topics.
    Raises RightsTextError."""
    in_streams: dict[int, StreamRight] = {}
    in_topics: dict[int, dict[int, TopicPermissions]] = {}
    for said in streams:
        place, _, rights = said.partition(":")
        in_streams[_number(place, said)] = _rights(StreamRight, rights)
    for said in topics:
        place, _, rights = said.partition(":")
        stream, _, topic = place.partition("/")
        named = TopicPermissions(_number(topic, said), _rights(TopicRight, rights))
        in_topics.setdefault(_number(stream, said), {})[named.topic] = named
    numbers = sorted(in_streams.keys() | in_topics.keys())
    found = tuple(
        StreamPermissions(
            number,
            in_streams.get(number, StreamRight(0)),
            tuple(each for _, each in sorted(in_topics[number].items())) if number in in_topics else None,
        )
        for number in numbers
    )
    return Permissions(_rights(GlobalRight, everywhere), found or None)


def permission_rows(permissions: Permissions) -> list[tuple[str, list[str]]]:
    """(server, stream or topic; its rights), in the order of the document."""
    rows = [("server", _names(permissions.rights))]
    for stream in permissions.streams or ():
        rows.append((f"stream {stream.stream}", _names(stream.rights)))
        rows += [
            (f"topic {stream.stream}/{topic.topic}", _names(topic.rights)) for topic in stream.topics or ()
        ]
    return rows


def births_of(permissions: Permissions, names: "Iterable[pb.IggyNamesAnswer]") -> list[int]:
    """What made the streams and topics that have the numbers now, by the document's order; 0: nothing."""
    born: dict[tuple[int, int | None], int] = {}
    for part in names:
        born |= {(stream.number, None): stream.born for stream in part.streams}
        parts = (each.topic.iggy for each in part.topics)
        born |= {(each.stream, each.number): each.born for each in parts}
    return [born.get(place, 0) for place in permissions.places()]


def names_of(rights: type[IntFlag]) -> str:
    """The rights that there are, as a list for people."""
    return ", ".join(str(each.name).lower() for each in rights)


def _names(rights: IntFlag) -> list[str]:
    return [str(each.name).lower() for each in type(rights) if rights & each]


def _rights(kind: type[Right], text: str) -> Right:
    found = kind(0)
    for name in filter(None, (part.strip() for part in text.split(","))):
        right = kind.__members__.get(name.upper())
        if right is None:
            raise RightsTextError(f"There is no right {name[:40]}: there are {names_of(kind)}")
        found |= right
    return found


def _number(text: str, said: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) < 2**32 - 1:
        return int(text)
    raise RightsTextError(
        f"{said[:60]}: write NUMBER:RIGHT,RIGHT for a stream, and STREAM/NUMBER:RIGHT,RIGHT for a topic"
    )
