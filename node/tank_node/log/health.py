"""The health of a log: whether it takes writes, why not, and whether it is being refilled."""

from enum import Enum
from typing import Final, NoReturn

from tank_node.segment.errors import LogClosed, LogDamaged, LogFailed


class LogState(Enum):
    """Whether a log takes writes."""

    ACTIVE = "active"
    FAILED = "failed"
    """The disk refused a write or an fsync. Reads go on; writes are refused until the process is
    restarted."""
    DAMAGED = "damaged"
    """Stored batches are missing or wrong: see `LogHealth.reason`. Nothing is written or cut."""
    CLOSED = "closed"


_ACTIVE: Final = LogState.ACTIVE
"""A constant for the hot path: before Python 3.12 a look-up in the enum costs as much as a call."""


class LogHealth:
    """A part of `log.PartitionLog`."""

    __slots__ = ("reason", "recovery_point", "refilling", "state")

    def __init__(self) -> None:
        self.state = _ACTIVE
        self.reason = ""
        """A sentence on why the log is FAILED or DAMAGED."""
        self.recovery_point = 0
        """Of a damaged log: the last number that is known to be given out."""
        self.refilling = False
        """Whether the log is being copied anew from its leader, after it was damaged or emptied. The
        checkpoint calls it damaged until the copy is complete: after a crash the copy begins again."""

    def fail(self, reason: str) -> None:
        """Makes an ACTIVE log FAILED, which ends all writes: after a failed fsync the page cache may hold
        bytes that the disk never got. A damaged log stays DAMAGED, because a failed one is still read.
        """
        if self.state is _ACTIVE:
            self.state, self.reason = LogState.FAILED, reason

    def end(self, reason: str) -> None:
        """Makes the log CLOSED."""
        self.state, self.reason = LogState.CLOSED, reason

    def restore(self) -> None:
        """Makes the log ACTIVE again, after it was mended or emptied."""
        self.state, self.reason = _ACTIVE, ""

    def refuse(self) -> NoReturn:
        """Raises LogClosed, LogDamaged or LogFailed, by the state: for a log that is not ACTIVE."""
        if self.state is LogState.CLOSED:
            raise LogClosed("the partition was closed or deleted")
        if self.state is LogState.DAMAGED:
            raise LogDamaged(self.reason)
        raise LogFailed(self.reason)

    @property
    def is_impaired(self) -> bool:
        """Whether the log is damaged or being refilled, and so may hold less than it once did. Such a replica
        must not lead nor be in sync, and its broker's registration names it."""
        return self.state is LogState.DAMAGED or self.refilling
