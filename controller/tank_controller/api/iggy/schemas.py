"""What the answers about Iggy's clients hold, by name. Pure."""

from collections.abc import Mapping
from typing import Final

from tank_protos.http_api.document import FLAG, INTEGER, NEXT, OR_NONE, TEXT, list_of, object_of
from tank_protos.http_api.errors import Json

_TEXTS: Final[Json] = {"type": "array", "items": TEXT}

IGGY_SCHEMAS: Final[Mapping[str, dict[str, Json]]] = {
    "Stream": object_of(
        "A stream; `going`: it is being deleted",
        number=INTEGER,
        name=TEXT,
        topics=INTEGER,
        created_ms=INTEGER,
        going=FLAG,
    ),
    "Streams": object_of("A page of them", streams=list_of("Stream"), next=NEXT),
    "DeletedStream": object_of("What is gone, or going", deleted=TEXT),
    "PurgedStream": object_of("How many topics were purged", purged=TEXT, topics=INTEGER),
    "StreamTopic": object_of(
        "A topic as Iggy's clients see it; `topic`: its name in the cluster; expiry and size are null where "
        "they are those of the cluster, or have no bound",
        stream=TEXT,
        number=INTEGER,
        name=TEXT,
        topic=TEXT,
        topic_id=INTEGER,
        partitions=INTEGER,
        replication_factor=INTEGER,
        exposed=FLAG,
        created_ms=INTEGER,
        expiry_us=OR_NONE,
        max_bytes=OR_NONE,
        settings={"type": "object", "additionalProperties": TEXT},
    ),
    "StreamTopics": object_of("A page of them", topics=list_of("StreamTopic"), next=NEXT),
    "DeletedStreamTopic": object_of("What is gone", deleted=TEXT, stream=TEXT),
    "StreamGroup": object_of(
        "A consumer group; `born` is in the name of its positions",
        stream=TEXT,
        topic=TEXT,
        number=INTEGER,
        name=TEXT,
        born=INTEGER,
    ),
    "StreamGroups": object_of("A page of them", groups=list_of("StreamGroup"), next=NEXT),
    "DeletedStreamGroup": object_of("What is gone", deleted=TEXT),
    "Exposures": object_of("A page of them", topics=list_of("StreamTopic"), next=NEXT),
    "HiddenTopic": object_of("The topic, which stays", hidden=TEXT),
    "User": object_of(
        "A user; `permissions` are null where it has none",
        number=INTEGER,
        name=TEXT,
        active=FLAG,
        created_ms=INTEGER,
        tokens=INTEGER,
        permissions={
            "type": ["array", "null"],
            "items": object_of("Rights in one place", place=TEXT, rights=_TEXTS),
        },
    ),
    "Users": object_of("A page of them", users=list_of("User"), next=NEXT),
    "DeletedUser": object_of("Who is gone", deleted=TEXT),
    "Tokens": object_of(
        "The tokens that have not expired; `expires_us`: null for one that never does",
        user=TEXT,
        tokens={"type": "array", "items": object_of("One of them", name=TEXT, expires_us=OR_NONE)},
    ),
    "DeletedToken": object_of("What is gone", deleted=TEXT, user=TEXT),
}
