"""The operations of a broker's HTTP API: the route, the fields and the answer of each. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, unique
from typing import Final

from tank_protos.http_api.fields import ApiField, FieldKind
from tank_protos.http_api.operations import ApiOperation, in_path
from tank_protos.wire.names import MAX_TOPIC_NAME_BYTES

PAGE: Final = 100
MAX_PAGE: Final = 1_000
"""Items of a list in one answer: a partition of a group takes some 200 bytes."""
MAX_RESET: Final = 10_000
"""The most positions that one reset sets: their ends are asked before, and all are held in memory."""
_MAX_GROUP_BYTES: Final = 255
"""The longest name of a group that TANK's messages carry."""

_GROUP = ApiField("group", FieldKind.TEXT, "a consumer group's name", True, most=_MAX_GROUP_BYTES)
_LIMIT = ApiField(
    "limit", FieldKind.INTEGER, "the most items of a page; `next` says whether there is more",
    least=1, most=MAX_PAGE, default=PAGE,
)  # fmt: skip
_NUMBER_MOST: Final = 2**53


@unique
class ApiName(Enum):
    """The names of operations: OpenAPI's operationId."""

    DESCRIBE = "describe"
    LIST_GROUPS = "list_groups"
    GET_GROUP = "get_group"
    DELETE_GROUP = "delete_group"
    RESET_GROUP = "reset_group"
    LIST_CLIENTS = "list_clients"


_OPERATIONS = (
    ApiOperation(ApiName.DESCRIBE, "GET", "/openapi.json", "This description", "Description"),
    ApiOperation(
        ApiName.LIST_GROUPS, "GET", "/groups", "The consumer groups of the cluster, by name", "Groups",
        query=(
            _LIMIT,
            ApiField(
                "after", FieldKind.TEXT, "the page behind this group", default="", most=_MAX_GROUP_BYTES
            ),
        ),
    ),
    ApiOperation(
        ApiName.GET_GROUP, "GET", "/groups/{group}",
        "A group: its state, its members, its positions and its lag", "Group",
        query=(
            _LIMIT,
            ApiField(
                "after", FieldKind.TEXT, "the page of partitions behind this one, such as orders/7",
                default="",
            ),
        ),
        detail="The members are all there; the partitions come a page at a time. The end of a partition "
        "whose leader does not answer is null, as is the lag there.",
    ),
    ApiOperation(
        ApiName.DELETE_GROUP, "DELETE", "/groups/{group}", "Delete a group with its positions",
        "DeletedGroup",
        detail="Refused while the group has members.",
    ),
    ApiOperation(
        ApiName.RESET_GROUP, "POST", "/groups/{group}/reset", "Set a group's positions anew", "Reset",
        body=(
            ApiField(
                "to", FieldKind.TEXT, "to the first messages, or behind the last", choices=("first", "end")
            ),
            ApiField("number", FieldKind.INTEGER, "to this sequence number", most=_NUMBER_MOST),
            ApiField(
                "by", FieldKind.INTEGER, "on by so many messages; negative: back", least=-_NUMBER_MOST,
                most=_NUMBER_MOST,
            ),
            ApiField(
                "topic", FieldKind.TEXT, "only this topic; without it, all partitions in which the group has "
                "positions", most=MAX_TOPIC_NAME_BYTES,
            ),
            ApiField("partitions", FieldKind.INTEGERS, "only these partitions of the topic", most=65_534),
            ApiField(
                "dry_run", FieldKind.BOOLEAN, "say what would change, and change nothing", default=False
            ),
        ),
        detail="Exactly one of `to`, `number` and `by` says where. Refused while the group has members, "
        "which would go on from where they are. To a time: `tank group reset --to-time`.",
    ),
    ApiOperation(
        ApiName.LIST_CLIENTS, "GET", "/connections",
        "The clients that are connected to this broker, the oldest connection first", "Connections",
        query=(
            _LIMIT,
            ApiField("after", FieldKind.INTEGER, "the page behind the connection of this number", default=0),
        ),
        detail="Bytes are null where the broker's system doesn't count them.",
    ),
)  # fmt: skip

OPERATIONS: Mapping[ApiName, ApiOperation[ApiName]] = {
    operation.name: replace(operation, in_path=in_path(operation.path, {"group": _GROUP}))
    for operation in _OPERATIONS
}
