"""The client library: Client, Producer, Consumer and Admin; async here, the same names synchronous in
`tank_client.sync`.

Usage::

    async with Client("127.0.0.1:11011") as client:
        async with client.producer() as producer:
            delivery = await producer.send("flights", b"value", key=b"AA")
            stored = await delivery
        async for batch in client.consumer("flights", start="first"):
            ...
"""

from tank_client.admin import Admin
from tank_client.client import Client
from tank_client.consumer import Consumer
from tank_client.errors import (
    BufferFull,
    DeliveryTimedOut,
    FeatureMissing,
    OutcomeUnknown,
    OutOfBounds,
    ServerUnreachable,
    TankError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from tank_client.model import (
    END,
    FIRST,
    Address,
    BrokerDescription,
    BrokerReport,
    CommittedPosition,
    ConsumedMessage,
    Ends,
    Features,
    FetchedChunk,
    FoundTime,
    PartitionDescription,
    PartitionTrouble,
    ProducerIdentity,
    ServerStatus,
    Setting,
    SettingValue,
    Stored,
    StrayFolder,
    TopicDescription,
    Topology,
    Trouble,
)
from tank_client.producer import Producer
from tank_client.settings import (
    AtTime,
    ClientSettings,
    ConsumerSettings,
    DamagedPolicy,
    OutOfBoundsPolicy,
    ProducerSettings,
    StartAt,
)

__all__ = [
    "END",
    "FIRST",
    "Address",
    "Admin",
    "AtTime",
    "BrokerDescription",
    "BrokerReport",
    "BufferFull",
    "Client",
    "ClientSettings",
    "CommittedPosition",
    "ConsumedMessage",
    "Consumer",
    "ConsumerSettings",
    "DamagedPolicy",
    "DeliveryTimedOut",
    "Ends",
    "FeatureMissing",
    "Features",
    "FetchedChunk",
    "FoundTime",
    "OutOfBounds",
    "OutOfBoundsPolicy",
    "OutcomeUnknown",
    "PartitionDescription",
    "PartitionTrouble",
    "Producer",
    "ProducerIdentity",
    "ProducerSettings",
    "ServerStatus",
    "ServerUnreachable",
    "Setting",
    "SettingValue",
    "StartAt",
    "Stored",
    "StrayFolder",
    "TankError",
    "TopicDescription",
    "TopicExists",
    "Topology",
    "Trouble",
    "UnknownPartition",
    "UnknownTopic",
]
