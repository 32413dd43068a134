"""Whether a follower takes a pushed stretch, decided before its log is touched. Pure.

Checked in this order: the leader epoch (no lower one than the follower knows), the state of the follower's
log, and whether both logs agree before the stretch.
"""

from enum import Enum
from typing import Final, NamedTuple

from tank_node.log.epoch_history import History, epoch_at, last_common
from tank_protos.error_codes import PushError

MOST_NUMBER: Final = 2**63 - 1
"""The highest number that a log may have."""


class Order(NamedTuple):
    """The fields of a pushed stretch that decide whether it is taken."""

    start: int
    """The first number that the stretch covers."""
    leader_epoch: int
    previous_epoch: int
    """The epoch of number start - 1 in the leader's log; 0: none is known."""
    log_start: int
    """The first number that the leader's log still has."""

    @property
    def is_possible(self) -> bool:
        """Whether the numbers are in the range of a log."""
        return 0 < self.start <= MOST_NUMBER and 0 < self.log_start <= MOST_NUMBER


class Condition(Enum):
    """The state of a follower's log."""

    GOOD = "it takes batches"
    DAMAGED = "batches are missing or wrong: it takes none until it is refilled"
    FAILED = "the disk refused a read, a write or an fsync"


class Standing(NamedTuple):
    """What a follower knows, and the state of its log."""

    leader_epoch: int
    """The highest leader epoch that the follower knows."""
    leads: bool
    """Whether this node itself leads in that epoch."""
    condition: Condition
    in_sync: bool
    """Whether the follower is in the in-sync set of its view; also true when its view is older than the
    leader."""
    log_end: int
    history: History
    is_outdated: bool = False
    """Whether the whole log is older than the last lossy election, so that its committed messages may be
    lost."""
    compacted_through: int = 0
    """Of an outdated log: the number up to which compaction may have removed batches because of later
    ones."""
    log_start: int = 1
    """The first number that the log still has."""


class Verdict(NamedTuple):
    """What a follower does with a stretch: take it, or answer with the error. `anew`: it drops its whole log
    before."""

    error: PushError
    anew: bool = False
    ends: bool = False
    """Whether the log ends where the stretch ends, even if its high-water mark is higher: a lossy election
    lost the rest."""
    agreed_at: int = 0
    """With DISAGREES: the last number before the stretch at which the logs may agree."""
    agreed_epoch: int = 0
    """The epoch of `agreed_at` in the follower's log."""


TAKE: Final = Verdict(PushError.NONE)
_ANEW: Final = Verdict(PushError.NONE, anew=True)
_ENDS: Final = Verdict(PushError.NONE, ends=True)


def goes_on(order: Order, log_end: int, history: History) -> bool:
    """Whether a stretch begins where the log ends, in the same epoch. `judge` takes such a stretch when it
    comes from the present leader and the log is good. Callers ask this first: nearly every stretch is one."""
    if not history or not 0 < order.log_start <= order.start <= MOST_NUMBER or order.start != log_end + 1:
        return False
    epoch, first = history[-1]
    return first <= log_end and epoch == order.previous_epoch


def judge(order: Order, standing: Standing) -> Verdict:
    """Decides whether a follower takes a stretch."""
    if not order.is_possible:
        return Verdict(PushError.BAD_BATCH)
    if order.leader_epoch < standing.leader_epoch:
        return Verdict(PushError.STALE_LEADER)
    if order.leader_epoch == standing.leader_epoch and standing.leads:
        return Verdict(PushError.STALE_LEADER)  # this node is the one leader of that epoch
    if standing.condition is Condition.FAILED:
        return Verdict(PushError.STORAGE)
    if standing.condition is Condition.DAMAGED:
        return _refill(order, standing)
    if standing.is_outdated and not standing.in_sync:
        return _after_a_loss(order, standing)
    return _match(order, standing)


def _refill(order: Order, standing: Standing) -> Verdict:
    """The verdict for a damaged log: an in-sync one is kept, because it may have to lead; one out of sync is
    dropped and copied anew."""
    if standing.in_sync:
        return Verdict(PushError.DAMAGED)
    return _copied_anew(order)


def _copied_anew(order: Order) -> Verdict:
    """The verdict that drops the log, when the stretch begins at the leader's log start; otherwise DISAGREES,
    which makes the leader go back to its start."""
    return _ANEW if order.start == order.log_start else Verdict(PushError.DISAGREES)


def _after_a_loss(order: Order, standing: Standing) -> Verdict:
    """The verdict for an out-of-sync log that is older than a lossy election: it is made to end where the
    stretch of the elected leader ends."""
    if _lacks(order, standing):
        return _copied_anew(order)
    verdict = _match(order, standing)
    return _ENDS if verdict == TAKE else verdict


def _match(order: Order, standing: Standing) -> Verdict:
    """The verdict by Raft's log matching. Numbers that no batch has count with the epoch of the last batch
    before."""
    before = order.start - 1
    is_gone = standing.log_end < order.log_start - 1
    if order.start == order.log_start:
        # The leader has no older batches to compare, but knows the epoch before its start. If the follower
        # has the same epoch there, its older batches were committed, and retention removes them here too. If
        # it has another one, they never were committed: the whole log goes, with what it remembers of their
        # producers.
        own_epoch = epoch_at(standing.history, before)
        is_other = order.previous_epoch and own_epoch and own_epoch != order.previous_epoch
        return _ANEW if is_gone or is_other else TAKE
    agrees = standing.log_end >= before and epoch_at(standing.history, before) == order.previous_epoch
    if agrees and not is_gone:
        return TAKE
    at, epoch = last_common(standing.history, standing.log_end, before, order.previous_epoch)
    return Verdict(PushError.DISAGREES, agreed_at=at, agreed_epoch=epoch)


def _lacks(order: Order, standing: Standing) -> bool:
    """Whether compaction or retention may have removed batches here that the leader of a lossy election still
    has: they were removed because of later batches, which are lost. Then the log is copied anew."""
    return order.start <= standing.compacted_through or order.log_start < standing.log_start


def mark_of(own: int, pushed: int, matched: int) -> int:
    """A follower's high-water mark: the leader's, but not beyond what it has matched, nor below its own."""
    return max(own, min(pushed, matched))


def is_outdated(lossy_epoch: int, history: History) -> bool:
    """Whether all batches of a log are older than the last lossy election, so that its committed messages may
    be lost. lossy_epoch: the leader epoch that this election began; 0: there was none."""
    return lossy_epoch > (history[-1][0] if history else 0)


def kept_through(mark: int, lossy_epoch: int, history: History) -> int:
    """The number up to which a log must not be cut: its high-water mark, or 0 when the log is outdated."""
    return 0 if is_outdated(lossy_epoch, history) else mark
