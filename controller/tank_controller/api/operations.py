"""The operations of the HTTP API: the route, the fields and the answer of each. Pure.

The router and the OpenAPI document are both made from this table.
"""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from tank_controller import limits
from tank_controller.api.iggy.operations import IGGY_OPERATIONS
from tank_controller.api.names import Name
from tank_controller.leader.reports.report import trouble_name
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.fields import ApiField, FieldKind
from tank_protos.http_api.operations import ApiOperation, in_path
from tank_protos.wire.names import MAX_TOPIC_NAME_BYTES

TROUBLES = {
    trouble_name(each): each
    for each in (
        pb.UNDER_REPLICATED,
        pb.BELOW_MIN_INSYNC,
        pb.LEADERLESS,
        pb.MOVING,
        pb.DISPLACED,
        pb.LOSSY,
    )
}
"""The troubles of partitions, by their names in JSON."""

_BROKER_ID = ApiField("broker_id", FieldKind.INTEGER, "a broker's number", True, 1, limits.MAX_BROKER_ID)
_PARTITION = ApiField(
    "partition", FieldKind.INTEGER, "a partition's number", True, 0, limits.MAX_PARTITIONS_PER_TOPIC - 1
)
_TOPIC = ApiField("topic", FieldKind.TEXT, "a topic's name", True, most=MAX_TOPIC_NAME_BYTES)
_CONTROLLER_ID = ApiField("controller_id", FieldKind.INTEGER, "a controller's number", True, 0, 999_999_999)
_IN_PATHS = {each.name: each for each in (_BROKER_ID, _PARTITION, _TOPIC, _CONTROLLER_ID)}

_LIMIT = ApiField(
    "limit", FieldKind.INTEGER,
    "the most items of a page; a page may be shorter, and `next` says whether there is more",
    least=1, most=limits.MAX_API_PAGE, default=limits.API_PAGE,
)  # fmt: skip
_PARTITIONS = ApiField(
    "partitions",
    FieldKind.INTEGER,
    "how many partitions",
    least=1,
    most=limits.MAX_PARTITIONS_PER_TOPIC,
    default=1,
)


_ACCEPTED, _CREATED = HTTPStatus.ACCEPTED, HTTPStatus.CREATED
_ON_PARTITION = "/topics/{topic}/partitions/{partition}"

_OPERATIONS = (
    ApiOperation(Name.DESCRIBE, "GET", "/openapi.json", "This description", "Description"),
    ApiOperation(Name.STATUS, "GET", "/status", "The cluster at a glance", "Status"),
    ApiOperation(
        Name.LIST_CONTROLLERS, "GET", "/controllers", "The controllers: which one leads, how far each has "
            "applied the log",
        "Controllers",
    ),
    ApiOperation(
        Name.TRANSFER_LEADERSHIP, "POST", "/controllers/{controller_id}/lead",
        "Hand leadership of the controllers over to this one", "Transferred", _ACCEPTED,
        detail="The list of controllers shows the outcome: another election may come in between.",
    ),
    ApiOperation(
        Name.REMOVE_CONTROLLER, "DELETE", "/controllers/{controller_id}",
        "Remove a controller that is not coming back", "RemovedController",
        query=(
            ApiField(
                "disk", FieldKind.TEXT, "the disk of the controller to remove, in hexadecimal; needed "
                    "while two members have this number",
                most=64,
                default="",
            ),
            ApiField("running", FieldKind.BOOLEAN, "remove it although it answers", default=False),
        ),
        detail="Refused while it answers. One with an empty folder that is started with this number asks to "
        "be added: it learns first, and votes when it has caught up.",
    ),
    ApiOperation(
        Name.LIST_BROKERS, "GET", "/brokers", "The brokers: which live, and what they hold", "Brokers",
        query=(
            _LIMIT,
            ApiField("after", FieldKind.INTEGER, "a page's `next`", most=limits.MAX_BROKER_ID, default=0),
        ),
    ),
    ApiOperation(Name.GET_BROKER, "GET", "/brokers/{broker_id}", "One broker", "Broker"),
    ApiOperation(
        Name.DRAIN_BROKER, "POST", "/brokers/{broker_id}/drain",
        "Move all leadership and replicas off a broker, so that it can be removed", "Drained", _ACCEPTED,
        detail="It is done when `replicas` and `leads` of the broker are 0.",
    ),
    ApiOperation(
        Name.UNDO_DRAIN, "DELETE", "/brokers/{broker_id}/drain", "End the drain of a broker",
        "Drained",
    ),
    ApiOperation(
        Name.REMOVE_BROKER, "DELETE", "/brokers/{broker_id}",
        "Forget a broker that is gone for good: drained, and stopped", "RemovedBroker",
    ),
    ApiOperation(
        Name.BALANCE, "POST", "/balance", "Even loads and leaders out now", "Balanced", _ACCEPTED,
        detail="The controllers do so by themselves, too. It is done when the status says `balanced`.",
    ),
    ApiOperation(
        Name.LIST_TOPICS, "GET", "/topics", "The topics, and how many of their partitions are in trouble",
        "Topics",
        query=(
            _LIMIT,
            ApiField("after", FieldKind.TEXT, "a page's `next`", most=MAX_TOPIC_NAME_BYTES, default=""),
        ),
    ),
    ApiOperation(Name.GET_TOPIC, "GET", "/topics/{topic}", "One topic", "Topic"),
    ApiOperation(
        Name.CREATE_TOPIC, "POST", "/topics", "Create a topic", "Topic", _CREATED,
        body=(
            ApiField("topic", FieldKind.TEXT, "the topic's name", True, most=MAX_TOPIC_NAME_BYTES),
            _PARTITIONS,
            ApiField(
                "replication_factor", FieldKind.INTEGER,
                "the number of replicas of each partition; 0: 3, or as many as there are brokers",
                most=limits.MAX_REPLICATION_FACTOR, default=0,
            ),
            ApiField("settings", FieldKind.SETTINGS, 'settings that differ from their defaults, by key'),
        ),
    ),
    ApiOperation(
        Name.ALTER_TOPIC, "PATCH", "/topics/{topic}", "Change a topic's settings, or give it more partitions",
        "Topic",
        body=(
            ApiField(
                "partitions", FieldKind.INTEGER, "the new number of partitions", least=1,
                most=limits.MAX_PARTITIONS_PER_TOPIC,
            ),
            ApiField("settings", FieldKind.CHANGES, "new values by key; null: the default again"),
        ),
    ),
    ApiOperation(
        Name.DELETE_TOPIC, "DELETE", "/topics/{topic}", "Delete a topic and all its messages", "DeletedTopic"
    ),
    ApiOperation(
        Name.LIST_PARTITIONS, "GET", "/partitions",
        "Partitions: leader, in-sync replicas, troubles", "Partitions",
        query=(
            ApiField(
                "topic", FieldKind.TEXTS, "only partitions of this topic; may be "
                    "repeated", most=MAX_TOPIC_NAME_BYTES
            ),
            ApiField("only", FieldKind.TEXT, "only partitions in this trouble", choices=tuple(TROUBLES)),
            _LIMIT,
            ApiField(
                "after", FieldKind.TEXT, "a page's `next`, such as orders/7", most=MAX_TOPIC_NAME_BYTES + 6,
                default="",
            ),
        ),
    ),
    ApiOperation(Name.GET_PARTITION, "GET", _ON_PARTITION, "One partition", "Partition"),
    ApiOperation(
        Name.ELECT_LEADER, "POST", f"{_ON_PARTITION}/elect", "Elect the preferred replica as "
            "leader", "Elected",
        body=(
            ApiField(
                "unclean", FieldKind.BOOLEAN, "for a partition without a leader: elect any live replica; "
                "acknowledged messages that it lacks are lost", default=False,
            ),
        ),
    ),
    ApiOperation(
        Name.MOVE_PARTITION, "POST", f"{_ON_PARTITION}/move",
        "Move a partition's replicas to other brokers, or change their order", "Moved", _ACCEPTED,
        body=(
            ApiField(
                "to", FieldKind.INTEGERS, "where its replicas are to be, the preferred leader first", True, 1,
                limits.MAX_BROKER_ID,
            ),
        ),
        detail="It is done when the partition has nothing `adding` and nothing `removing`.",
    ),
    ApiOperation(
        Name.CANCEL_MOVE, "DELETE", f"{_ON_PARTITION}/move", "Cancel a move: the added replicas are "
            "removed again",
        "Moved",
    ),
)  # fmt: skip

OPERATIONS: Mapping[Name, ApiOperation[Name]] = {
    operation.name: replace(operation, in_path=in_path(operation.path, _IN_PATHS))
    for operation in _OPERATIONS
} | {operation.name: operation for operation in IGGY_OPERATIONS}
