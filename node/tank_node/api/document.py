"""The description of a broker's HTTP API, for /api/v1/openapi.json. Pure."""

from collections.abc import Mapping
from typing import Final

from tank_node.api.operations import OPERATIONS
from tank_protos.http_api.document import (
    DESCRIPTION,
    ERROR,
    FLAG,
    IDS,
    INTEGER,
    NEXT,
    OR_NONE,
    TEXT,
    description,
    list_of,
    object_of,
)
from tank_protos.http_api.errors import Json

_ABOUT: Final = (
    "What a broker knows: the consumer groups of the whole cluster, whichever broker coordinates them, and "
    "its own clients; the same as `tank group` and `tank connections`. Reads are open to the broker's own "
    "machine; changes, and everything from other machines, take the token: `Authorization: Bearer TOKEN`. "
    "Keys of answers are stable: none goes away or changes its type, new ones may come."
)

_OR_NO_TEXT: Final[Json] = {"type": ["string", "null"]}
_ANY_INTEGER: Final[Json] = {"type": "integer"}
_OR_NO_INTEGER: Final[Json] = {"type": ["integer", "null"]}

SCHEMAS: Final[Mapping[str, dict[str, Json]]] = {
    "Error": ERROR,
    "Description": DESCRIPTION,
    "GroupSummary": object_of(
        "A consumer group; `title`: what people know it by, if that is not its name: stream/topic/group of "
        "Iggy's clients",
        group=TEXT,
        state=TEXT,
        protocol_type=TEXT,
        members=INTEGER,
        title=_OR_NO_TEXT,
    ),
    "Groups": object_of("A page of them, by name", groups=list_of("GroupSummary"), next=NEXT),
    "TopicPartitions": object_of("Partitions of a topic", topic=TEXT, partitions=IDS),
    "Member": object_of(
        "A member of a group, with the partitions that it has",
        member_id=TEXT,
        instance_id=_OR_NO_TEXT,
        client=TEXT,
        host=TEXT,
        epoch=_ANY_INTEGER,
        topics={"type": "array", "items": TEXT},
        partitions=list_of("TopicPartitions"),
    ),
    "Position": object_of(
        "A group's progress in a partition: `position` is the next number that it reads, null where it has "
        "committed none; `member` is the id of the member that has it",
        topic=TEXT,
        partition=INTEGER,
        position=OR_NONE,
        first_available=OR_NONE,
        high_water_mark=OR_NONE,
        lag=OR_NONE,
        expired=OR_NONE,
        committed_ms=INTEGER,
        member=_OR_NO_TEXT,
    ),
    "Group": object_of(
        "A group with its members, and a page of its partitions",
        group=TEXT,
        state=TEXT,
        protocol_type=TEXT,
        protocol=TEXT,
        epoch=_ANY_INTEGER,
        members=list_of("Member"),
        partitions=list_of("Position"),
        next=NEXT,
    ),
    "DeletedGroup": object_of("What is gone", deleted=TEXT),
    "Change": object_of(
        "A position before and after; `messages` are skipped, or, if negative, read again",
        topic=TEXT,
        partition=INTEGER,
        before=OR_NONE,
        after=INTEGER,
        messages=_OR_NO_INTEGER,
    ),
    "Reset": object_of(
        "What was changed, or would be", group=TEXT, dry_run=FLAG, partitions=list_of("Change")
    ),
    "Request": object_of(
        "A kind of request, and the version in which it came last", name=TEXT, version=OR_NONE
    ),
    "Connection": object_of(
        "A client's connection",
        number=INTEGER,
        protocol=TEXT,
        address=_OR_NO_TEXT,
        client_id=TEXT,
        software=TEXT,
        software_version=TEXT,
        connected_ms=INTEGER,
        received_bytes=OR_NONE,
        sent_bytes=OR_NONE,
        in_flight=INTEGER,
        requests=list_of("Request"),
    ),
    "Connections": object_of(
        "A page of them", broker_id=INTEGER, connections=list_of("Connection"), next=NEXT
    ),
}
"""What answers hold, by name."""


def document() -> dict[str, Json]:
    """The whole description, OpenAPI 3.1."""
    return description("Tank Cluster, a broker", _ABOUT, OPERATIONS.values(), SCHEMAS)
