"""A partition's place in the connection to a follower, and the partition as its pushes see it. Pure."""

from enum import Enum
from typing import Protocol

from tank_node.log.epoch_history import History
from tank_node.log.pushing import Piece
from tank_protos.error_codes import PushError


class Source(Protocol):
    """A partition that this node leads, as its pushes see it."""

    @property
    def topic_id(self) -> int: ...

    @property
    def topic_name(self) -> bytes: ...

    @property
    def number(self) -> int:
        """Of the partition."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_end(self) -> int:
        """The last number that is in the leader's files."""

    @property
    def log_start(self) -> int:
        """The first number that it still has, or would give next."""

    @property
    def mark(self) -> int: ...

    @property
    def history(self) -> History: ...

    def read(self, start: int, max_bytes: int) -> Piece | None:
        """What begins behind `start` - 1; None: nothing does. Raises StorageError: the leader has seen to
        it."""

    def producers_before(self, number: int) -> bytes:
        """What is remembered of producers before it, as a snapshot; empty: nothing. Raises StorageError, as
        `read`."""

    def bytes_behind(self, number: int) -> int:
        """About how many bytes are stored behind this number."""

    def is_member(self, follower: int) -> bool:
        """Whether this follower is in the in-sync set."""

    def counts_on(self, follower: int) -> bool:
        """Whether this follower is in that set for what it has matched, or may be by now."""

    def matched(self, follower: int, matched: int, synced: int) -> None:
        """It took a stretch on a connection that is open."""

    def refused(self, follower: int, error: PushError, before: int) -> None:
        """It did not take the stretch behind number `before`: what it said before on this connection counts
        no more."""


class PlaceState(Enum):
    """How a follower stands to one partition."""

    ASKING = "one stretch at a time, until it agrees"
    STREAMING = "what it was sent before it took: the next ones need not wait"
    PAUSED = "it refused: it is asked again later"
    LEAVING = "nothing more is sent here: another connection takes over when all is answered"
    GONE = "this partition is pushed here no more"


class Place:
    """One partition's place in a connection."""

    __slots__ = ("known_mark", "matched", "retry_ms", "sent", "source", "state", "unanswered", "valid_from")

    def __init__(self, source: Source, sent: int, valid_from: int) -> None:
        self.source = source
        self.sent = sent
        """The last number that was sent; the next stretch begins behind it."""
        self.valid_from = valid_from
        """Answers to requests before this one are of an earlier way, which was left."""
        self.state = PlaceState.ASKING
        self.matched = 0
        self.known_mark = -1
        """The high-water mark that the follower has when it took what it was sent; -1: it was not told."""
        self.unanswered = 0
        """Stretches under way whose answers will count."""
        self.retry_ms = 0
