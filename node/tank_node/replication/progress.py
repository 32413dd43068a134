"""How far one partition is pushed on one connection to a follower, and what a push needs of the partition.
Pure."""

from enum import Enum
from typing import Protocol

from tank_node.log.epoch_history import History
from tank_node.log.pushing import Piece
from tank_protos.error_codes import PushError


class Source(Protocol):
    """What a push needs of a partition that this node leads: of one leadership, so its epoch never
    changes."""

    @property
    def topic_id(self) -> int: ...

    @property
    def topic_name(self) -> bytes: ...

    @property
    def number(self) -> int:
        """The partition's number in its topic."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_end(self) -> int:
        """The last number written to the leader's files."""

    @property
    def mark(self) -> int:
        """The high-water mark."""

    @property
    def log_start(self) -> int:
        """The first number that the leader's log still shows; of an empty log: the next number."""

    def ends(self) -> tuple[int, int, int, int]:
        """Where the copying of the whole log begins, `log_start`, `log_end`, and `mark`. The first is
        `log_start`, or the first number of the batch in which that lies."""

    @property
    def history(self) -> History: ...

    def read(self, start: int, max_bytes: int) -> Piece | None:
        """Stored batches from number `start` on, about `max_bytes` of them; None when there are none. Raises
        StorageError, which the partition has handled already."""

    def producers_before(self, number: int) -> bytes:
        """A snapshot of the idempotent producers before a number; empty when there are none. Raises
        StorageError, as `read`."""

    def bytes_behind(self, number: int) -> int:
        """About how many bytes are stored behind this number; 0 when the disk can't be read."""

    def is_member(self, follower: int) -> bool:
        """Whether this follower is in the in-sync set."""

    def counts_on(self, follower: int) -> bool:
        """Whether this follower is, or may by now be, in the in-sync set because of what it matched."""

    def matched(self, follower: int, matched: int, synced: int) -> None:
        """Notes that a follower has all messages up to `matched`, and those up to `synced` on its disk."""

    def has_start(self, follower: int, log_start: int) -> None:
        """Notes that a follower has this log start."""

    def refused(self, follower: int, error: PushError, before: int) -> None:
        """Notes that a follower refused the stretch behind number `before`: its earlier answers on this
        connection count no more."""


class ProgressState(Enum):
    """The state of one partition's pushes on one connection."""

    PROBE = "one stretch at a time, until the follower's log agrees"
    REPLICATE = "the follower's log agrees: stretches follow each other without waiting for answers"
    PAUSED = "the follower refused a stretch: the next one is sent later"
    LEAVING = "no more is sent on this connection: another one takes over when all stretches are answered"
    GONE = "the partition has left this connection"


class Progress:
    """How far one partition is pushed on one connection."""

    __slots__ = (
        "has_start", "known_mark", "known_start", "leader_epoch", "matched", "number", "retry_ms", "sent",
        "source", "start_request_id", "state", "topic_id", "topic_name", "unanswered", "valid_from",
    )  # fmt: skip

    def __init__(self, source: Source, sent: int, valid_from: int) -> None:
        self.source = source
        self.topic_id = source.topic_id
        self.topic_name = source.topic_name
        self.number = source.number
        """Of the partition."""
        self.leader_epoch = source.leader_epoch
        self.sent = sent
        """The last number that was sent; the next stretch begins behind it."""
        self.valid_from = valid_from
        """The first request id whose answers count: earlier requests were sent before the stream went
        back."""
        self.state = ProgressState.PROBE
        self.matched = 0
        self.known_mark = -1
        """The high-water mark that the follower has after it took all that was sent; -1: none was sent."""
        self.known_start = 0
        """The log start that the follower has after it took all that was sent; 0: none was sent."""
        self.start_request_id = 0
        """The push that carried `known_start` first."""
        self.has_start = 0
        """The log start that the follower has, by its answers."""
        self.unanswered = 0
        """Number of stretches under way whose answers will count."""
        self.retry_ms = 0
