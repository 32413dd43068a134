"""A partition without its appends: its role, its high-water mark, and what may be seen of its log."""

from enum import Enum

from tank_node.log.errors import StorageError
from tank_node.log.log import PartitionLog
from tank_node.log.segment import Stretch
from tank_node.partition.numbering import END, FIRST_AVAILABLE
from tank_node.replication.role import FollowerRole, LeaderRole, Role


class Reach(Enum):
    """What a fetch found when it was no data."""

    WAIT = "nothing yet: the number is the next one"
    OUT_OF_BOUNDS = "below the first available number or beyond the end"
    UNREADABLE = "the partition can't be read here"


class ReadablePartition:
    """What `partition.Partition` is made of.

    Invariant: `high_water_mark` never falls and is at most `log.written`.
    """

    __slots__ = (
        "follower", "high_water_mark", "leader_epoch", "leadership", "led_epoch", "log", "number", "role",
        "settled", "settles_at", "stands_alone", "topic_name", "unreadable",
    )  # fmt: skip

    def __init__(self, topic_name: str, number: int, log: PartitionLog) -> None:
        self.topic_name = topic_name
        self.number = number
        self.log = log
        self.high_water_mark = min(log.high_water_mark, log.written)
        """As the checkpoint has it: what is stored behind it may never have been committed."""
        self.unreadable = False
        self.role = Role.NONE
        self.leadership: LeaderRole | None = None
        """What it does for its followers; None: it has none, or doesn't lead."""
        self.stands_alone = False
        """Its node has no cluster around it."""
        self.follower: FollowerRole | None = None
        """Who takes the leader's pushes."""
        self.leader_epoch = 0
        """The highest that this node knows: orders of lower ones are refused."""
        self.led_epoch = 0
        """The last one that this process has led."""
        self.settled = True
        """Whether the mark has reached `settles_at`. Before that a new leader may have more that is committed
        than it knows, and what would show the end waits."""
        self.settles_at = 0
        """The log's end when the present leader's epoch began."""

    def end(self) -> int:
        """The last number that was given out, in this tick too."""
        return self.log.last

    def note_error(self, error: StorageError) -> None:
        """Counts and reports an error of the log, and takes over the state that it left behind."""
        raise NotImplementedError

    @property
    def in_sync_size(self) -> int:
        """How many replicas are in sync, this leader included."""
        return 1 if self.leadership is None else self.leadership.in_sync_size

    def settle_at(self, end: int) -> None:
        """A leader's epoch begins, with a log that ends there."""
        self.settles_at = end
        self.settled = self.high_water_mark >= end

    def fetch(self, number: int, max_bytes: int) -> "Stretch | Reach":
        """The stored batches from `number` on, up to the high-water mark; or what stands in the way.

        Release the stretch's file when it is sent. OUT_OF_BOUNDS is for numbers below the first available
        one and beyond the log's end + 1: between the mark and the end one waits, and for a new leader in
        any case, until it is `settled`.
        """
        if self.unreadable:
            return Reach.UNREADABLE
        mark = self.high_water_mark
        if number == END:
            number = mark + 1
        elif number == FIRST_AVAILABLE:
            number = self.log.first_available or 1
        if number > mark:
            return Reach.WAIT if number <= self.end() + 1 or not self.settled else Reach.OUT_OF_BOUNDS
        if number < self.log.first_available:
            return Reach.OUT_OF_BOUNDS if self.settled else Reach.WAIT  # that answer shows the mark
        return self._read(number, max_bytes, mark)

    def can_tell(self, number: int) -> bool:
        """Whether a follower knows what is at this number, or that nothing is there yet: of all others its
        leader alone does, whose log may begin and end elsewhere."""
        first = self.log.first_available
        return number in (END, FIRST_AVAILABLE) or first <= number <= self.log.last + 1

    def fetch_as_follower(self, number: int, max_bytes: int) -> "Stretch | Reach":
        """The same as `fetch` from a replica that follows, up to its own mark; UNREADABLE also for numbers of
        which it can't tell. Call it only where `follower_reads` allows it."""
        if not self.can_tell(number):
            return Reach.UNREADABLE
        if number == END:
            return Reach.WAIT
        if number == FIRST_AVAILABLE:
            number = self.log.first_available or 1
        through = self.high_water_mark
        return Reach.WAIT if number > through else self._read(number, max_bytes, through)

    def _read(self, number: int, max_bytes: int, mark: int) -> "Stretch | Reach":
        try:
            stretch = self.log.read(number, max_bytes, mark)
        except StorageError as error:
            self.note_error(error)
            return Reach.UNREADABLE
        return Reach.WAIT if stretch is None else stretch

    def next_number(self, number: int) -> int:
        """The number that a consumer which found nothing waits for."""
        if number == END:
            # A follower's mark may be behind its leader's; its log's end may yet be cut, and given anew.
            settles_at = 0 if self.role is Role.FOLLOWER else self.settles_at
            return max(self.high_water_mark, settles_at) + 1
        return (self.log.first_available or 1) if number == FIRST_AVAILABLE else number
