"""The HTTP API's description, for /api/v1/openapi.json: made from the table of operations. Pure."""

from collections.abc import Mapping, Sequence

from tank_controller.api.fields import ApiField, FieldKind
from tank_controller.api.operations import OPERATIONS, PREFIX, TROUBLES, ApiOperation
from tank_controller.leader.report import Json

_ABOUT = (
    "The controllers' answers and changes, the same as those of `tank cluster`. Any controller may be asked: "
    "one that doesn't lead asks the one that does. What is shown is committed. Reads are open to the "
    "controller's own machine; changes, and everything from other machines, take the token: `Authorization: "
    "Bearer TOKEN`. Keys of answers are stable: none goes away or changes its type, new ones may come."
)

_INTEGER: Json = {"type": "integer", "minimum": 0}
_TEXT: Json = {"type": "string"}
_FLAG: dict[str, Json] = {"type": "boolean"}
_IDS: Json = {"type": "array", "items": {"type": "integer"}}
_OR_NONE: Json = {"type": ["integer", "null"]}
_NEXT: Json = {
    "type": ["string", "null"],
    "description": "the `after` of the next page; null: this is the last page",
}


def _object(about: str, **properties: Json) -> dict[str, Json]:
    """The schema of an object in which all keys are always present."""
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "required": list(properties),
    }


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str) -> dict[str, Json]:
    return {"type": "array", "items": _ref(name)}


_COUNTS = _object(
    "How many partitions are in which trouble; a leaderless one is below min.insync, and under-replicated",
    **dict.fromkeys(
        ("total", "healthy", "under_replicated", "below_min_insync", "leaderless", "moving", "displaced"),
        _INTEGER,
    ),
)

SCHEMAS: Mapping[str, dict[str, Json]] = {
    "Error": _object(
        "Why not, and what to do",
        error=_object("As `tank`'s own errors", code=_TEXT, message=_TEXT),
    ),
    "Description": {"type": "object", "description": "An OpenAPI document"},
    "Controller": _object(
        "A controller: what it says of itself",
        id=_OR_NONE,
        address=_TEXT,
        state={"enum": ["leads", "follows", "learns", "down"]},
        term=_OR_NONE,
        commit_index=_OR_NONE,
        applied_index=_OR_NONE,
        behind=_OR_NONE,
        problem={"type": ["string", "null"]},
        free_bytes=_OR_NONE,
        disk_bytes=_OR_NONE,
    ),
    "Controllers": _object("All of them", controllers=_list("Controller")),
    "Transferred": _object("The next leader", controller=_INTEGER),
    "RemovedController": _object("The removed controller", removed_controller=_INTEGER),
    "Broker": _object(
        "A broker and what it holds",
        broker_id=_INTEGER,
        address={"type": ["string", "null"]},
        rack=_TEXT,
        fenced=_FLAG,
        connected=_FLAG,
        draining=_FLAG,
        scaled_down=_FLAG,
        stopping=_FLAG,
        clock_off=_FLAG,
        no_room=_FLAG,
        replicas=_INTEGER,
        leads=_INTEGER,
        arriving=_INTEGER,
    ),
    "Brokers": _object("A page of them", brokers=_list("Broker"), next=_NEXT),
    "Drained": _object(
        "What is left on it", broker=_INTEGER, draining=_FLAG, replicas=_INTEGER, leads=_INTEGER
    ),
    "RemovedBroker": _object("The removed broker", removed=_INTEGER),
    "Balanced": _object(
        "Loads as they are now",
        balanced=_FLAG,
        brokers={
            "type": "array",
            "items": _object("One of them", broker_id=_INTEGER, replicas=_INTEGER, leads=_INTEGER),
        },
    ),
    "Topic": _object(
        "A topic, and how many of its partitions are in trouble",
        topic=_TEXT,
        topic_id=_INTEGER,
        partitions=_INTEGER,
        replication_factor=_INTEGER,
        min_insync=_INTEGER,
        under_replicated=_INTEGER,
        below_min_insync=_INTEGER,
        leaderless=_INTEGER,
        lossy_elections=_INTEGER,
        settings={"type": "object", "additionalProperties": _TEXT},
    ),
    "Topics": _object("A page of them, by name", topics=_list("Topic"), next=_NEXT),
    "DeletedTopic": _object("What is gone", deleted=_TEXT),
    "Partition": _object(
        "A partition: brokers by their numbers",
        topic=_TEXT,
        partition=_INTEGER,
        leader=_OR_NONE,
        leader_epoch=_INTEGER,
        replicas=_IDS,
        in_sync=_IDS,
        min_insync=_INTEGER,
        eligible=_IDS,
        impaired=_IDS,
        adding=_IDS,
        removing=_IDS,
        lossy_elections=_INTEGER,
        lossy_epoch=_INTEGER,
        troubles={"type": "array", "items": {"enum": list(TROUBLES)}},
        waits_for=_IDS,
        unreadable=_IDS,
    ),
    "Partitions": _object("A page of them, by topic and number", partitions=_list("Partition"), next=_NEXT),
    "Elected": _object("The present leader", topic=_TEXT, partition=_INTEGER, leader=_OR_NONE, lossy=_FLAG),
    "Moved": _object("Where it is, or goes", topic=_TEXT, partition=_INTEGER, replicas=_IDS, moving=_FLAG),
    "Status": _object(
        "The cluster at a glance",
        cluster_id={"type": ["string", "null"]},
        leader=_OR_NONE,
        healthy={
            **_FLAG,
            "description": "every controller answers and is well, no broker is fenced, and every replica "
            "is in sync; the brokers' disks are not looked at",
        },
        controllers=_list("Controller"),
        brokers=_list("Broker"),
        topics=_INTEGER,
        partitions=_COUNTS,
        lossy_elections=_INTEGER,
        balanced=_FLAG,
        feature_level=_INTEGER,
        next_level_waits_for=_object(
            "What holds up the next feature level: processes that don't know it, and topics that users have "
            "to delete, because brokers need their names from it on; nothing when all are empty",
            brokers=_IDS,
            controllers=_IDS,
            topics={"type": "array", "items": _TEXT},
        ),
        waiting=_list("Partition"),
        moving=_list("Partition"),
    ),
}
"""What answers hold, by name."""


def document() -> dict[str, Json]:
    """The whole description, OpenAPI 3.1."""
    paths: dict[str, dict[str, Json]] = {}
    for operation in OPERATIONS.values():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tank Cluster", "version": "1", "description": _ABOUT},
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: ApiOperation) -> dict[str, Json]:
    found: dict[str, Json] = {
        "operationId": operation.name.value,
        "summary": operation.about,
        "security": [{"token": []}] if operation.changes else [{}, {"token": []}],
        "responses": {
            str(operation.status.value): _answer(operation.about, operation.answer),
            "4XX": _answer("It was not done: the request is to be another, or the cluster first", "Error"),
            "5XX": _answer("It was not done, or its outcome is unknown: look, or ask again", "Error"),
        },
    }
    if operation.detail:
        found["description"] = operation.detail
    parameters = [_parameter(each, "path") for each in operation.in_path]
    parameters += [_parameter(each, "query") for each in operation.query]
    if parameters:
        found["parameters"] = parameters
    if operation.body:
        found["requestBody"] = {
            "required": any(each.required for each in operation.body),
            "content": {"application/json": {"schema": _body(operation.body)}},
        }
    return found


def _answer(about: str, schema: str) -> dict[str, Json]:
    return {"description": about, "content": {"application/json": {"schema": _ref(schema)}}}


def _parameter(field: ApiField, place: str) -> dict[str, Json]:
    schema = field.schema()
    found: dict[str, Json] = {"name": field.name, "in": place, "description": schema.pop("description")}
    if field.required:
        found["required"] = True
    if field.kind is FieldKind.TEXTS:
        found["explode"] = True
    return {**found, "schema": schema}


def _body(fields: Sequence[ApiField]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
