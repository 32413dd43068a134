"""The operations of the HTTP API: routes, what each takes, what it answers with. Pure.

The router and the OpenAPI document are both made from this table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from http import HTTPStatus

from tank_controller import limits
from tank_controller.api.fields import Field, Kind
from tank_controller.leader.report import trouble_name
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import MAX_TOPIC_NAME_BYTES

PREFIX = "/api/v1"

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
"""By the names that partitions have in JSON."""

_BROKER_ID = Field("broker_id", Kind.INTEGER, "a broker's number", True, 1, limits.MAX_BROKER_ID)
_PARTITION = Field(
    "partition", Kind.INTEGER, "a partition's number", True, 0, limits.MAX_PARTITIONS_PER_TOPIC - 1
)
_TOPIC = Field("topic", Kind.TEXT, "a topic's name", True, most=MAX_TOPIC_NAME_BYTES)
_CONTROLLER_ID = Field("controller_id", Kind.INTEGER, "a controller's number", True, 0, 999_999_999)
_IN_PATHS = {each.name: each for each in (_BROKER_ID, _PARTITION, _TOPIC, _CONTROLLER_ID)}

_LIMIT = Field(
    "limit", Kind.INTEGER, "at most so many; a page may be shorter, and `next` says whether there is more",
    least=1, most=limits.MAX_API_PAGE, default=limits.API_PAGE,
)  # fmt: skip
_PARTITIONS = Field(
    "partitions",
    Kind.INTEGER,
    "how many partitions",
    least=1,
    most=limits.MAX_PARTITIONS_PER_TOPIC,
    default=1,
)


@unique
class Name(Enum):
    """Of an operation: OpenAPI's operationId."""

    DESCRIBE = "describe"
    STATUS = "status"
    LIST_CONTROLLERS = "list_controllers"
    TRANSFER_LEADERSHIP = "transfer_leadership"
    REMOVE_CONTROLLER = "remove_controller"
    LIST_BROKERS = "list_brokers"
    GET_BROKER = "get_broker"
    DRAIN_BROKER = "drain_broker"
    UNDO_DRAIN = "undo_drain"
    REMOVE_BROKER = "remove_broker"
    BALANCE = "balance"
    LIST_TOPICS = "list_topics"
    GET_TOPIC = "get_topic"
    CREATE_TOPIC = "create_topic"
    ALTER_TOPIC = "alter_topic"
    DELETE_TOPIC = "delete_topic"
    LIST_PARTITIONS = "list_partitions"
    GET_PARTITION = "get_partition"
    ELECT_LEADER = "elect_leader"
    MOVE_PARTITION = "move_partition"
    CANCEL_MOVE = "cancel_move"


@dataclass(slots=True, frozen=True)
class Operation:
    """One of them."""

    name: Name
    method: str
    path: str
    """Below PREFIX; parameters in braces."""
    about: str
    answer: str
    """The schema of what it answers with; see `document`."""
    status: HTTPStatus = HTTPStatus.OK
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
    detail: str = ""
    in_path: tuple[Field, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_path", tuple(_IN_PATHS[n] for n in re.findall(r"{(\w+)}", self.path)))

    @property
    def changes(self) -> bool:
        """Whether it takes a token."""
        return self.method != "GET"


_ACCEPTED, _CREATED = HTTPStatus.ACCEPTED, HTTPStatus.CREATED
_ON_PARTITION = "/topics/{topic}/partitions/{partition}"

_OPERATIONS = (
    Operation(Name.DESCRIBE, "GET", "/openapi.json", "This description", "Description"),
    Operation(Name.STATUS, "GET", "/status", "The cluster at a glance", "Status"),
    Operation(
        Name.LIST_CONTROLLERS, "GET", "/controllers", "The controllers: who leads, how far each is",
        "Controllers",
    ),
    Operation(
        Name.TRANSFER_LEADERSHIP, "POST", "/controllers/{controller_id}/lead",
        "Hand leadership of the controllers over to this one", "Transferred", _ACCEPTED,
        detail="Whether it came to be shows in the list: another election may come in between.",
    ),
    Operation(
        Name.REMOVE_CONTROLLER, "DELETE", "/controllers/{controller_id}",
        "Take a controller out that is not coming back", "RemovedController",
        query=(
            Field(
                "disk", Kind.TEXT, "which one, in hex, while the number is there with two disks", most=64,
                default="",
            ),
            Field("running", Kind.BOOLEAN, "take it out though it answers", default=False),
        ),
        detail="Refused while it answers. One with an empty folder that is started with this number asks to "
        "be added: it learns first, and votes when it has caught up.",
    ),
    Operation(
        Name.LIST_BROKERS, "GET", "/brokers", "The brokers: which live, and what they hold", "Brokers",
        query=(_LIMIT, Field("after", Kind.INTEGER, "a page's `next`", most=limits.MAX_BROKER_ID, default=0)),
    ),
    Operation(Name.GET_BROKER, "GET", "/brokers/{broker_id}", "One broker", "Broker"),
    Operation(
        Name.DRAIN_BROKER, "POST", "/brokers/{broker_id}/drain",
        "Move everything off a broker, leadership first, so that it can go", "Drained", _ACCEPTED,
        detail="It is done when `replicas` and `leads` of the broker are 0.",
    ),
    Operation(
        Name.UNDO_DRAIN, "DELETE", "/brokers/{broker_id}/drain", "Let a broker hold partitions again",
        "Drained",
    ),
    Operation(
        Name.REMOVE_BROKER, "DELETE", "/brokers/{broker_id}",
        "Forget a broker that is gone for good: drained, and stopped", "RemovedBroker",
    ),
    Operation(
        Name.BALANCE, "POST", "/balance", "Even loads and leaders out now", "Balanced", _ACCEPTED,
        detail="The controllers do so by themselves, too. It is done when a status says `balanced`.",
    ),
    Operation(
        Name.LIST_TOPICS, "GET", "/topics", "The topics, and how many of their partitions are in trouble",
        "Topics",
        query=(_LIMIT, Field("after", Kind.TEXT, "a page's `next`", most=MAX_TOPIC_NAME_BYTES, default="")),
    ),
    Operation(Name.GET_TOPIC, "GET", "/topics/{topic}", "One topic", "Topic"),
    Operation(
        Name.CREATE_TOPIC, "POST", "/topics", "Make a topic", "Topic", _CREATED,
        body=(
            Field("topic", Kind.TEXT, "the topic's name", True, most=MAX_TOPIC_NAME_BYTES),
            _PARTITIONS,
            Field(
                "replication_factor", Kind.INTEGER,
                "on how many brokers each is; 0: on 3, or as many as there are",
                most=limits.MAX_REPLICATION_FACTOR, default=0,
            ),
            Field("settings", Kind.SETTINGS, "settings that aren't to have their defaults, by key"),
        ),
    ),
    Operation(
        Name.ALTER_TOPIC, "PATCH", "/topics/{topic}", "Change a topic's settings, or give it more partitions",
        "Topic",
        body=(
            Field(
                "partitions", Kind.INTEGER, "the new number of partitions", least=1,
                most=limits.MAX_PARTITIONS_PER_TOPIC,
            ),
            Field("settings", Kind.CHANGES, "new values by key; null: the default again"),
        ),
    ),
    Operation(
        Name.DELETE_TOPIC, "DELETE", "/topics/{topic}", "Delete a topic and all its messages", "DeletedTopic"
    ),
    Operation(
        Name.LIST_PARTITIONS, "GET", "/partitions",
        "Partitions: who leads, who is in sync, what is the matter", "Partitions",
        query=(
            Field("topic", Kind.TEXTS, "of these topics alone; may be repeated", most=MAX_TOPIC_NAME_BYTES),
            Field("only", Kind.TEXT, "those in this trouble alone", choices=tuple(TROUBLES)),
            _LIMIT,
            Field(
                "after", Kind.TEXT, "a page's `next`, such as orders/7", most=MAX_TOPIC_NAME_BYTES + 6,
                default="",
            ),
        ),
    ),
    Operation(Name.GET_PARTITION, "GET", _ON_PARTITION, "One partition", "Partition"),
    Operation(
        Name.ELECT_LEADER, "POST", f"{_ON_PARTITION}/elect", "Have the preferred replica lead", "Elected",
        body=(
            Field(
                "unclean", Kind.BOOLEAN, "where nobody leads: any replica that lives; what it lacks of "
                "acknowledged messages is lost", default=False,
            ),
        ),
    ),
    Operation(
        Name.MOVE_PARTITION, "POST", f"{_ON_PARTITION}/move",
        "Move a partition's replicas to other brokers, or change their order", "Moved", _ACCEPTED,
        body=(
            Field(
                "to", Kind.INTEGERS, "where its replicas are to be, the preferred leader first", True, 1,
                limits.MAX_BROKER_ID,
            ),
        ),
        detail="It is done when the partition has nothing `adding` and nothing `removing`.",
    ),
    Operation(
        Name.CANCEL_MOVE, "DELETE", f"{_ON_PARTITION}/move", "End a move: the added replicas go again",
        "Moved",
    ),
)  # fmt: skip

OPERATIONS: Mapping[Name, Operation] = {operation.name: operation for operation in _OPERATIONS}
