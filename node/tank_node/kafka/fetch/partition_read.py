"""One partition of a Fetch, and what was found in it."""

from typing import Final

from tank_node.kafka.errors import KafkaError
from tank_node.kafka.fetch.fetch_sessions import SessionEntry
from tank_node.kafka.leaders import NO_BROKER, UNKNOWN_EPOCH
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.segment.segment import FileRange
from tank_protos.generated.kafka.fetch_request import FetchPartition

NOWHERE: Final = (NO_BROKER, UNKNOWN_EPOCH)
"""Stands for a leader and its epoch where they are not told."""


class PartitionRead:
    """One partition of a request, and what was found in it."""

    __slots__ = (
        "available", "batches", "diverging", "entry", "error", "found", "leader", "length", "number",
        "partition", "topic", "topic_id", "wanted",
    )  # fmt: skip

    def __init__(
        self, topic: str, topic_id: bytes, wanted: FetchPartition, entry: SessionEntry | None
    ) -> None:
        self.topic = topic
        """The topic's name; empty if the request names topics by their ids."""
        self.topic_id = topic_id
        self.wanted = wanted
        self.number = wanted.partition
        self.entry = entry
        """What the client's fetch session keeps of the partition; None without a session."""
        self.partition: Partition | None = None
        """None: this broker has no replica of it open."""
        self.error = KafkaError.NONE
        self.leader = NOWHERE
        """With an error that means another leader or epoch: the leader's broker id, and its epoch."""
        self.diverging: tuple[int, int] | None = None
        """The epoch and the offset at which the client's log and this one went apart, if they did."""
        self.found: FileRange | None = None
        """Stored batches, whose file is pinned."""
        self.batches: list[bytes] = []
        """Converted batches, or a message set."""
        self.length = 0
        """The bytes of `found` or `batches`."""
        self.available = 0
        """The bytes that count for min_bytes, of those found and those appended since."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say but the partition's mark and start."""
        return not (self.length or self.error or self.diverging)

    @property
    def is_unsettled(self) -> bool:
        """Whether the partition's leader is new and does not know the end: its mark may be below one that an
        earlier leader has shown."""
        partition = self.partition
        return partition is not None and partition.role is Role.LEADER and not partition.end_known

    def release(self) -> None:
        """Forgets what was found."""
        if self.found is not None:
            self.found.file.release()
            self.found = None
        self.batches = []
        self.length = 0
        self.error = KafkaError.NONE
        self.leader = NOWHERE
        self.diverging = None

    def take(self, found: FileRange) -> None:
        """Takes over a range, to be sent from its file."""
        self.found = found
        self.length = found.length
