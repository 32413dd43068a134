"""A consumer's place in its group: its epoch, which heartbeat is due, and what it holds; pure.

The group's coordinator assigns the partitions; heartbeats carry the answer. Changes reach the program between
two reads, never while it works on what a read gave it. A member whose epoch the group refuses, or that hears
nothing for its session, holds nothing any more, and joins again by itself. A program that doesn't read for
`max_poll_ms` leaves the group, so that others get its partitions.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final

from tank_client.consuming.held_partitions import HeldPartitions
from tank_client.errors import PollTooLate, TankError
from tank_client.model import Route

JOINS: Final = 0
"""The epoch of a heartbeat that joins the group."""
LEAVES: Final = -1
"""The epoch of a heartbeat that leaves the group."""
LEAVES_FOR_A_WHILE: Final = -2
"""The epoch of a heartbeat by which a static member leaves: its partitions wait for its return, as long as
its session lasts.
"""
LEAST_HEARTBEAT_MS: Final = 20
"""The least time between two heartbeats without news, whatever the coordinator says."""


class MemberState(Enum):
    """Where a member stands."""

    JOINING = auto()
    """The group has not accepted it yet, or not again."""
    STABLE = auto()
    """The group has taken nothing back that the program has."""
    REVOKING = auto()
    """The group took partitions back, which the program has still."""
    FENCED = auto()
    """The group gave its partitions away, and the program has not heard of it."""
    LEFT = auto()
    """It left the group: it was closed, refused, or the program didn't read in time."""


@dataclass(slots=True, frozen=True)
class MemberHeartbeat:
    """What a heartbeat says. `owned`: the partitions that the member holds, sorted."""

    epoch: int
    owned: tuple[Route, ...] = ()

    @property
    def leaves(self) -> bool:
        """Whether the member leaves by it."""
        return self.epoch < JOINS


@dataclass(slots=True, frozen=True)
class MemberTimes:
    """Bounds of a membership, in milliseconds."""

    session_ms: int
    """After so long without an answer, the member counts itself as out of the group."""
    max_poll_ms: int
    """After so long without a read, the member leaves the group."""
    give_up_ms: int
    """For so long the member tries to join before a read raises the last error."""


class Membership:
    """One member's place. All times are milliseconds of one monotonic clock.

    Invariant: at most one heartbeat is under way; what may be handed out was named by it, or was assigned by
    the last answer.
    """

    __slots__ = (
        "_due_ms",
        "_error",
        "_failing_since_ms",
        "_heard_ms",
        "_idle_since_ms",
        "_is_closing",
        "_is_in",
        "_is_known",
        "_is_static",
        "_times",
        "_under_way",
        "answers_without_partitions",
        "epoch",
        "failures",
        "partitions",
    )

    def __init__(self, times: MemberTimes, now_ms: float, *, is_static: bool = False) -> None:
        self._times = times
        self._is_static = is_static
        self.partitions = HeldPartitions()
        self.epoch = JOINS
        """The epoch of commits and of the next heartbeat."""
        self.failures = 0
        """Heartbeats that failed in a row."""
        self.answers_without_partitions = 0
        """Answers in a row that left this member without any partition."""
        self._is_in = True
        """Whether the member is, or wants to be, in the group."""
        self._is_known = False
        """Whether the group may count the member."""
        self._is_closing = False
        self._under_way: MemberHeartbeat | None = None
        self._due_ms = self._heard_ms = self._failing_since_ms = now_ms
        self._idle_since_ms: float | None = now_ms
        self._error: TankError | None = None

    @property
    def state(self) -> MemberState:
        """Where the member stands."""
        if self.partitions.lost:
            return MemberState.FENCED
        if not self._is_in:
            return MemberState.LEFT
        if self.epoch == JOINS:
            return MemberState.JOINING
        return MemberState.REVOKING if self.partitions.revoking else MemberState.STABLE

    def next_ms(self) -> float:
        """When `passed` and `heartbeat` have something to do, unless something else happens before."""
        due_ms = self._due_ms if self._under_way is None else inf
        if not self._is_in:
            return due_ms
        session_end_ms = inf if self.epoch == JOINS else self._heard_ms + self._times.session_ms
        idle = self._idle_since_ms
        return min(due_ms, session_end_ms, inf if idle is None else idle + self._times.max_poll_ms)

    # Heartbeats

    def heartbeat(self, now_ms: float) -> MemberHeartbeat | None:
        """Takes the heartbeat that is due; None: none is, or one is under way."""
        if self._under_way is not None or now_ms < self._due_ms:
            return None
        if self._is_in:
            self._is_known = True
            self._under_way = MemberHeartbeat(self.epoch, tuple(sorted(self.partitions.held)))
        else:
            self._is_known, self._due_ms = False, inf
            self._under_way = self._farewell()
        return self._under_way

    def answered(
        self, epoch: int, heartbeat_ms: int, assignment: Collection[Route] | None, now_ms: float
    ) -> None:
        """Takes the answer to the heartbeat under way. `assignment` None: as before."""
        said, self._under_way = self._under_way, None
        if said is None or said.epoch != self.epoch or not self._is_in:
            return  # the member left, or was fenced, since it was sent
        self.epoch = epoch
        self.failures = 0
        self._heard_ms = self._failing_since_ms = now_ms
        self._due_ms = now_ms + max(heartbeat_ms, LEAST_HEARTBEAT_MS)
        if assignment is not None and not self._is_closing:
            self.partitions.assign(assignment)
        held = self.partitions.held
        self.answers_without_partitions = 0 if held else self.answers_without_partitions + 1
        if not held.issuperset(said.owned):
            self._due_ms = now_ms  # others wait for what was taken back, and the program never had

    def failed(self, error: TankError, now_ms: float, pause_ms: float) -> None:
        """The heartbeat under way had no answer, or one after which to try again in `pause_ms`."""
        said, self._under_way = self._under_way, None
        if said is None or said.epoch != self.epoch or not self._is_in:
            return
        self.failures += 1
        self._due_ms = now_ms + pause_ms
        if self.epoch == JOINS and now_ms - self._failing_since_ms >= self._times.give_up_ms:
            self._error = error
            self._failing_since_ms = now_ms

    def fenced(self, now_ms: float) -> None:
        """The group doesn't count this member, or not in this epoch: what it had is lost, and it joins again
        unless it is closing."""
        self._under_way = None
        self._is_known = False
        if not self._is_in:
            return
        self._lose()
        self._is_in = not self._is_closing
        self._due_ms = self._failing_since_ms = now_ms if self._is_in else inf

    def refused(self, error: TankError) -> None:
        """The group refuses this member for a reason that stays: each read raises the error."""
        self._under_way = None
        self._is_in, self._is_known = False, False
        self._lose()
        self._error, self._due_ms = error, inf

    # Time, and the program

    def passed(self, now_ms: float) -> None:
        """Time has passed: ends a session without answers, and leaves the group for a program that doesn't
        read."""
        if not self._is_in:
            return
        idle = self._idle_since_ms
        if idle is not None and now_ms - idle >= self._times.max_poll_ms:
            self._lose()
            self._is_in = False
            self._due_ms = now_ms if self._is_known else inf
            self._error = PollTooLate(self._times.max_poll_ms)
        elif self.epoch != JOINS and now_ms - self._heard_ms >= self._times.session_ms:
            self.fenced(now_ms)

    def reads(self) -> None:
        """The program waits in a read."""
        self._idle_since_ms = None

    def works(self, now_ms: float) -> None:
        """The program works on what a read gave it, from now on."""
        self._idle_since_ms = None if self._is_closing else now_ms

    def progressed(self, now_ms: float) -> None:
        """The program, which works on what a read gave it, has got further in it."""
        if self._idle_since_ms is not None:
            self._idle_since_ms = now_ms

    def hurry(self, now_ms: float) -> None:
        """A heartbeat is wanted at once."""
        if self._is_in:
            self._due_ms = min(self._due_ms, now_ms)

    def take_error(self, now_ms: float) -> TankError | None:
        """What a read has to raise; None: nothing. After an error that may pass, the next read tries
        again."""
        error = self._error
        if error is not None and error.retriable:
            self._error = None
            if not self._is_in and not self._is_closing:
                self._is_in = True
                self._due_ms = self._failing_since_ms = now_ms
        return error

    def release(self, partitions: Collection[Route], now_ms: float) -> None:
        """The program has given these up, and their positions are committed: the next heartbeat doesn't name
        them, and goes at once."""
        if self.partitions.release(partitions) and not self._is_closing:
            self._due_ms = min(self._due_ms, now_ms)

    def close(self) -> None:
        """The program ends its reading: all that it has is taken back, and nothing is assigned any more.
        Heartbeats go on until `leave`."""
        self._is_closing = True
        self._idle_since_ms = None
        self.partitions.assign(())

    def leave(self) -> MemberHeartbeat | None:
        """The member's last heartbeat; None: the group doesn't count it. It holds nothing any more."""
        is_known, self._is_known = self._is_known, False
        self._is_in, self._is_closing, self._under_way, self._due_ms = False, True, None, inf
        self._lose()
        self.partitions.heard_of_loss(self.partitions.lost)
        return self._farewell() if is_known else None

    def _farewell(self) -> MemberHeartbeat:
        return MemberHeartbeat(LEAVES_FOR_A_WHILE if self._is_static else LEAVES)

    def _lose(self) -> None:
        self.partitions.lose()
        self.epoch = JOINS
        self.answers_without_partitions = 0
