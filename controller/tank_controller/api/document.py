"""The HTTP API's description, for /api/v1/openapi.json: made from the table of operations. Pure."""

from collections.abc import Mapping

from tank_controller.api.iggy.schemas import IGGY_SCHEMAS
from tank_controller.api.operations import OPERATIONS, TROUBLES
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

_ABOUT = (
    "The controllers' answers and changes, the same as those of `tank cluster`. Any controller may be asked: "
    "one that doesn't lead asks the one that does. What is shown is committed. Reads are open to the "
    "controller's own machine; changes, and everything from other machines, take the token: `Authorization: "
    "Bearer TOKEN`. Keys of answers are stable: none goes away or changes its type, new ones may come."
)

_COUNTS = object_of(
    "How many partitions are in which trouble; a leaderless one is below min.insync, and under-replicated",
    **dict.fromkeys(
        ("total", "healthy", "under_replicated", "below_min_insync", "leaderless", "moving", "displaced"),
        INTEGER,
    ),
)

SCHEMAS: Mapping[str, dict[str, Json]] = {
    "Error": ERROR,
    "Description": DESCRIPTION,
    "Controller": object_of(
        "A controller: what it says of itself",
        id=OR_NONE,
        address=TEXT,
        state={"enum": ["leads", "follows", "learns", "down"]},
        term=OR_NONE,
        commit_index=OR_NONE,
        applied_index=OR_NONE,
        behind=OR_NONE,
        problem={"type": ["string", "null"]},
        free_bytes=OR_NONE,
        disk_bytes=OR_NONE,
    ),
    "Controllers": object_of("All of them", controllers=list_of("Controller")),
    "Transferred": object_of("The next leader", controller=INTEGER),
    "RemovedController": object_of("The removed controller", removed_controller=INTEGER),
    "Broker": object_of(
        "A broker and what it holds",
        broker_id=INTEGER,
        address={"type": ["string", "null"]},
        rack=TEXT,
        fenced=FLAG,
        connected=FLAG,
        draining=FLAG,
        scaled_down=FLAG,
        stopping=FLAG,
        clock_off=FLAG,
        no_room=FLAG,
        replicas=INTEGER,
        leads=INTEGER,
        arriving=INTEGER,
    ),
    "Brokers": object_of("A page of them", brokers=list_of("Broker"), next=NEXT),
    "Drained": object_of(
        "What is left on it", broker=INTEGER, draining=FLAG, replicas=INTEGER, leads=INTEGER
    ),
    "RemovedBroker": object_of("The removed broker", removed=INTEGER),
    "Balanced": object_of(
        "Loads as they are now",
        balanced=FLAG,
        brokers={
            "type": "array",
            "items": object_of("One of them", broker_id=INTEGER, replicas=INTEGER, leads=INTEGER),
        },
    ),
    "Topic": object_of(
        "A topic, and how many of its partitions are in trouble",
        topic=TEXT,
        topic_id=INTEGER,
        partitions=INTEGER,
        replication_factor=INTEGER,
        min_insync=INTEGER,
        under_replicated=INTEGER,
        below_min_insync=INTEGER,
        leaderless=INTEGER,
        lossy_elections=INTEGER,
        settings={"type": "object", "additionalProperties": TEXT},
    ),
    "Topics": object_of("A page of them, by name", topics=list_of("Topic"), next=NEXT),
    "DeletedTopic": object_of("What is gone", deleted=TEXT),
    "Partition": object_of(
        "A partition: brokers by their numbers",
        topic=TEXT,
        partition=INTEGER,
        leader=OR_NONE,
        leader_epoch=INTEGER,
        replicas=IDS,
        in_sync=IDS,
        min_insync=INTEGER,
        eligible=IDS,
        impaired=IDS,
        adding=IDS,
        removing=IDS,
        lossy_elections=INTEGER,
        lossy_epoch=INTEGER,
        troubles={"type": "array", "items": {"enum": list(TROUBLES)}},
        waits_for=IDS,
        unreadable=IDS,
    ),
    "Partitions": object_of(
        "A page of them, by topic and number", partitions=list_of("Partition"), next=NEXT
    ),
    "Elected": object_of("The present leader", topic=TEXT, partition=INTEGER, leader=OR_NONE, lossy=FLAG),
    "Moved": object_of("Where it is, or goes", topic=TEXT, partition=INTEGER, replicas=IDS, moving=FLAG),
    "Status": object_of(
        "The cluster at a glance",
        cluster_id={"type": ["string", "null"]},
        leader=OR_NONE,
        healthy={
            **FLAG,
            "description": "every controller answers and is well, no broker is fenced, and every replica "
            "is in sync; the brokers' disks are not looked at",
        },
        controllers=list_of("Controller"),
        brokers=list_of("Broker"),
        topics=INTEGER,
        partitions=_COUNTS,
        lossy_elections=INTEGER,
        balanced=FLAG,
        feature_level=INTEGER,
        next_level_waits_for=object_of(
            "What holds up the next feature level: processes that don't know it, and topics and groups that "
            "users have to delete, because their names are needed from it on; nothing when all are empty",
            brokers=IDS,
            controllers=IDS,
            topics={"type": "array", "items": TEXT},
            groups={"type": "array", "items": TEXT},
        ),
        waiting=list_of("Partition"),
        moving=list_of("Partition"),
    ),
    **IGGY_SCHEMAS,
}
"""What answers hold, by name."""


def document() -> dict[str, Json]:
    """The whole description, OpenAPI 3.1."""
    return description("Tank Cluster", _ABOUT, OPERATIONS.values(), SCHEMAS)
