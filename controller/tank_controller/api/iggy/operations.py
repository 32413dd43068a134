"""The operations for Iggy's clients: the route, the fields and the answer of each. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from tank_controller import limits
from tank_controller.api.names import Name
from tank_protos.http_api.fields import ApiField, FieldKind
from tank_protos.http_api.operations import ApiOperation, in_path
from tank_protos.users.rules import HASH_BYTES, NAME_BYTES, TOKEN_NAME_BYTES
from tank_protos.wire.names import MAX_TOPIC_NAME_BYTES

_CREATED: Final = HTTPStatus.CREATED
_NAME: Final = limits.MAX_IGGY_NAME_BYTES
_MOST_US: Final = 2**53
_TOPICS: Final = "/iggy/streams/{stream}/topics"
_TOPIC: Final = f"{_TOPICS}/{{name}}"

_IN_PATHS = {
    each.name: each
    for each in (
        ApiField("stream", FieldKind.TEXT, "a stream's name", True, most=_NAME),
        ApiField("name", FieldKind.TEXT, "a topic's name in its stream", True, most=_NAME),
        ApiField("group", FieldKind.TEXT, "a consumer group's name", True, most=_NAME),
        ApiField("topic", FieldKind.TEXT, "a topic's name in the cluster", True, most=MAX_TOPIC_NAME_BYTES),
        ApiField("user", FieldKind.TEXT, "a user's name", True, most=NAME_BYTES.stop),
        ApiField("token_name", FieldKind.TEXT, "a token's name", True, most=TOKEN_NAME_BYTES.stop),
    )
}
_PAGE: Final = (
    ApiField(
        "limit", FieldKind.INTEGER, "the most items of a page; `next` says whether there is more",
        least=1, most=limits.MAX_API_PAGE, default=limits.API_PAGE,
    ),
    ApiField("after", FieldKind.INTEGER, "a page's `next`: the number behind which it begins"),
)  # fmt: skip
_NEW_NAME: Final = ApiField("name", FieldKind.TEXT, "the new name", True, most=_NAME)
_EXPIRY: Final = ApiField(
    "expiry_us", FieldKind.INTEGER, "after how many microseconds messages expire; 0: the cluster's default",
    most=_MOST_US,
)  # fmt: skip
_MAX_BYTES: Final = ApiField(
    "max_bytes", FieldKind.INTEGER, "how large the topic may grow; 0: the cluster's default", most=_MOST_US
)
_DURABILITY: Final = ApiField(
    "durability", FieldKind.TEXT, "when a message is acknowledged: in memory of all replicas in sync, or on "
    "their disks", choices=("replicated", "persisted"),
)  # fmt: skip
_HASH: Final = ApiField(
    "password_hash", FieldKind.TEXT, "argon2id's text form of the password, which is hashed where it is "
    "typed, and never sent", most=HASH_BYTES,
)  # fmt: skip
_RIGHTS: Final = ApiField(
    "permissions", FieldKind.SETTINGS, "the names of rights, with commas, by place: `server`, a stream such "
    "as `0`, a topic such as `0/1`; {}: none",
)  # fmt: skip

_OPERATIONS = (
    ApiOperation(
        Name.LIST_STREAMS, "GET", "/iggy/streams", "The streams, by number", "Streams", query=_PAGE
    ),
    ApiOperation(
        Name.CREATE_STREAM, "POST", "/iggy/streams", "Create a stream", "Stream", _CREATED,
        body=(ApiField("stream", FieldKind.TEXT, "the stream's name", True, most=_NAME),),
    ),
    ApiOperation(
        Name.RENAME_STREAM, "PATCH", "/iggy/streams/{stream}", "Rename a stream", "Stream", body=(_NEW_NAME,),
        detail="Its topics keep the names that clients of other protocols know.",
    ),
    ApiOperation(
        Name.DELETE_STREAM, "DELETE", "/iggy/streams/{stream}",
        "Delete a stream with its topics and their messages", "DeletedStream",
        detail="Exposed topics are hidden, and stay. A stream with very many partitions is `going` for a "
        "while.",
    ),
    ApiOperation(
        Name.PURGE_STREAM, "POST", "/iggy/streams/{stream}/purge", "Delete all messages of a stream's topics",
        "PurgedStream",
        detail="Offsets begin at 0 again, and consumers' positions are gone. Exposed topics stay as they "
        "are. After an error some topics are purged: ask again.",
    ),
    ApiOperation(
        Name.LIST_STREAM_TOPICS, "GET", _TOPICS, "The topics of a stream, by number", "StreamTopics",
        query=_PAGE,
    ),
    ApiOperation(Name.GET_STREAM_TOPIC, "GET", _TOPIC, "One topic of a stream", "StreamTopic"),
    ApiOperation(
        Name.CREATE_STREAM_TOPIC, "POST", _TOPICS, "Create a topic in a stream", "StreamTopic", _CREATED,
        body=(
            ApiField("name", FieldKind.TEXT, "the topic's name in the stream", True, most=_NAME),
            ApiField(
                "partitions", FieldKind.INTEGER, "how many partitions", most=limits.MAX_IGGY_PARTITIONS,
                default=1,
            ),
            ApiField(
                "replication_factor", FieldKind.INTEGER,
                "the number of replicas of each partition; 0: 3, or as many as there are brokers",
                most=limits.MAX_REPLICATION_FACTOR, default=0,
            ),
            ApiField(
                "format", FieldKind.TEXT, "how messages are stored: tank keeps no headers",
                choices=("kafka", "tank"), default="kafka",
            ),
            _EXPIRY, _MAX_BYTES, _DURABILITY,
        ),
    ),
    ApiOperation(
        Name.ALTER_STREAM_TOPIC, "PATCH", _TOPIC,
        "Rename a topic for Iggy's clients, change its retention or durability, or add partitions",
        "StreamTopic",
        body=(
            replace(_NEW_NAME, required=False),
            ApiField(
                "partitions", FieldKind.INTEGER, "the new number of partitions", least=1,
                most=limits.MAX_IGGY_PARTITIONS,
            ),
            _EXPIRY, _MAX_BYTES, _DURABILITY,
        ),
    ),
    ApiOperation(
        Name.DELETE_STREAM_TOPIC, "DELETE", _TOPIC, "Delete a topic and all its messages",
        "DeletedStreamTopic",
    ),
    ApiOperation(
        Name.PURGE_STREAM_TOPIC, "POST", f"{_TOPIC}/purge", "Delete all messages of a topic", "StreamTopic",
        detail="Offsets begin at 0 again, and consumers' positions are gone.",
    ),
    ApiOperation(
        Name.SHRINK_STREAM_TOPIC, "POST", f"{_TOPIC}/shrink",
        "Remove the partitions of the highest numbers, with all their messages", "StreamTopic",
        body=(
            ApiField(
                "partitions", FieldKind.INTEGER, "how many partitions stay", True,
                most=limits.MAX_IGGY_PARTITIONS,
            ),
        ),
    ),
    ApiOperation(
        Name.LIST_STREAM_GROUPS, "GET", f"{_TOPIC}/groups", "The consumer groups of a topic, by number",
        "StreamGroups", query=_PAGE,
        detail="Their members and positions: a broker's HTTP API, under the name `iggy:g:` and `born`.",
    ),
    ApiOperation(
        Name.CREATE_STREAM_GROUP, "POST", f"{_TOPIC}/groups", "Create a consumer group", "StreamGroup",
        _CREATED,
        body=(ApiField("group", FieldKind.TEXT, "the group's name", True, most=_NAME),),
    ),
    ApiOperation(
        Name.DELETE_STREAM_GROUP, "DELETE", f"{_TOPIC}/groups/{{group}}",
        "Delete a consumer group with its positions", "DeletedStreamGroup",
    ),
    ApiOperation(
        Name.LIST_EXPOSURES, "GET", "/iggy/exposures",
        "The topics of other protocols that Iggy's clients see, by their ids", "Exposures", query=_PAGE,
    ),
    ApiOperation(
        Name.EXPOSE_TOPIC, "POST", "/iggy/exposures", "Show a topic to Iggy's clients, too", "StreamTopic",
        _CREATED,
        body=(
            ApiField("topic", FieldKind.TEXT, "the topic's name", True, most=MAX_TOPIC_NAME_BYTES),
            ApiField("stream", FieldKind.TEXT, "the stream in which it is shown", True, most=_NAME),
            ApiField("name", FieldKind.TEXT, "its name there; without it, that of the topic", most=_NAME),
        ),
    ),
    ApiOperation(
        Name.HIDE_TOPIC, "DELETE", "/iggy/exposures/{topic}", "Hide a topic from Iggy's clients; it stays",
        "HiddenTopic",
    ),
    ApiOperation(
        Name.LIST_USERS, "GET", "/iggy/users", "The users of Iggy's clients, by number", "Users", query=_PAGE,
        detail="Neither passwords nor tokens are shown, and nothing that is made of them.",
    ),
    ApiOperation(Name.GET_USER, "GET", "/iggy/users/{user}", "One user", "User"),
    ApiOperation(
        Name.CREATE_USER, "POST", "/iggy/users", "Create a user", "User", _CREATED,
        body=(
            ApiField("user", FieldKind.TEXT, "the user's name", True, most=NAME_BYTES.stop),
            replace(_HASH, required=True),
            ApiField("active", FieldKind.BOOLEAN, "whether it may log in", default=True),
            _RIGHTS,
        ),
        detail="The root user is created by a broker, or by `tank iggy user create`.",
    ),
    ApiOperation(
        Name.UPDATE_USER, "PATCH", "/iggy/users/{user}",
        "Rename a user, let it log in or not, set its password or its permissions", "User",
        body=(
            ApiField("name", FieldKind.TEXT, "the new name", most=NAME_BYTES.stop),
            ApiField("active", FieldKind.BOOLEAN, "whether it may log in"),
            _HASH,
            _RIGHTS,
        ),
        detail="Each of them is a change of its own, in this order: after an error some are made. "
        "Permissions take the place of all that there were.",
    ),
    ApiOperation(
        Name.DELETE_USER, "DELETE", "/iggy/users/{user}", "Delete a user with its tokens", "DeletedUser"
    ),
    ApiOperation(
        Name.LIST_TOKENS, "GET", "/iggy/users/{user}/tokens",
        "The names of a user's personal access tokens, and when they expire", "Tokens",
        detail="A token itself is shown once, by what creates it: an Iggy client, or `tank iggy token "
        "create`.",
    ),
    ApiOperation(
        Name.DELETE_TOKEN, "DELETE", "/iggy/users/{user}/tokens/{token_name}", "Delete a token",
        "DeletedToken",
        detail="Sessions that began with it end.",
    ),
)  # fmt: skip

IGGY_OPERATIONS: Final[Sequence[ApiOperation[Name]]] = tuple(
    replace(operation, in_path=in_path(operation.path, _IN_PATHS)) for operation in _OPERATIONS
)
