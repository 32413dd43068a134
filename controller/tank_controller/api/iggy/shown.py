"""What the HTTP API shows of Iggy's clients, as JSON. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.errors import Json
from tank_protos.http_api.fields import Values
from tank_protos.iggy.limits import UNBOUNDED
from tank_protos.users.permissions import decode
from tank_protos.users.rights_text import permission_rows

Item = TypeVar("Item")


def stream_json(stream: pb.IggyStream, topics: int) -> dict[str, Json]:
    """A stream with so many topics."""
    return {
        "number": stream.number,
        "name": stream.name,
        "topics": topics,
        "created_ms": stream.created_ms,
        "going": stream.going,
    }


def topic_json(found: pb.IggyTopicSummary, stream: str) -> dict[str, Json]:
    """A topic of the stream of this name."""
    topic, part = found.topic, found.topic.iggy
    return {
        "stream": stream,
        "number": part.number,
        "name": part.name,
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partitions": found.partitions,
        "replication_factor": topic.replication_factor,
        "exposed": part.exposed,
        "created_ms": part.created_ms,
        "expiry_us": _bound(part.values.expiry_us),
        "max_bytes": _bound(part.values.max_bytes),
        "settings": {setting.key: setting.value for setting in topic.settings},
    }


def group_json(group: pb.IggyGroup, stream: str, topic: str) -> dict[str, Json]:
    """A group of a topic."""
    return {"stream": stream, "topic": topic, "number": group.number, "name": group.name, "born": group.born}


def user_json(user: pb.User) -> dict[str, Json]:
    """A user, without what proves its logins."""
    rows: Json = None
    if user.HasField("permissions"):
        rows = [
            {"place": place, "rights": [*rights]}
            for place, rights in permission_rows(decode(user.permissions))
        ]
    return {
        "number": user.number,
        "name": user.name,
        "active": not user.inactive,
        "created_ms": user.created_ms,
        "tokens": len(user.tokens),
        "permissions": rows,
    }


def page(items: Sequence[Item], query: Values, number: Callable[[Item], int]) -> tuple[Sequence[Item], Json]:
    """The items of the page that a query asks for, and its `next`. number: an item's place in the order."""
    if "after" in query:
        after = query.integer("after")
        items = [each for each in items if number(each) > after]
    limit = query.integer("limit")
    shown = items[:limit]
    return shown, str(number(shown[-1])) if len(items) > limit else None


def _bound(value: int) -> int | None:
    return None if value in (0, UNBOUNDED) else value
