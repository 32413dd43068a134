"""What a follower makes of a stretch that was pushed to it, before it touches its log. Pure.

In this order: whose orders count (the highest leader epoch that this node knows), what the log can take, and
whether what comes before the stretch agrees.
"""

from enum import Enum
from typing import Final, NamedTuple

from tank_node.log.epoch_history import History, epoch_at, last_common
from tank_protos.error_codes import PushError

MOST_NUMBER: Final = 2**63 - 1
"""No log has a higher one."""


class Order(NamedTuple):
    """What is looked at of a pushed stretch."""

    start: int
    """The end of the leader's log before it + 1."""
    leader_epoch: int
    previous_epoch: int
    """Of number start - 1 in the leader's log; 0: it has none."""
    log_start: int

    @property
    def is_possible(self) -> bool:
        """Whether a log can have these numbers."""
        return 0 < self.start <= MOST_NUMBER and 0 < self.log_start <= MOST_NUMBER


class Condition(Enum):
    """Of a follower's log."""

    GOOD = "it takes batches"
    DAMAGED = "batches are missing or wrong: it takes nothing until it is filled anew"
    FAILED = "the disk refused something"


class Standing(NamedTuple):
    """What a follower knows and has."""

    leader_epoch: int
    """The highest that it knows."""
    leads: bool
    """In that epoch."""
    condition: Condition
    in_sync: bool
    """Whether its view has it in the in-sync set, or is older than the leader and can't tell."""
    log_end: int
    history: History
    is_outdated: bool = False
    """Nothing that it has is newer than the last lossy election: what it takes for committed may be lost."""
    compacted_through: int = 0
    """Of an outdated one: up to there compaction may have taken batches because of later ones."""
    log_start: int = 1
    """What lies below retention took."""


class Verdict(NamedTuple):
    """What to do with a stretch: take it, after dropping everything when `anew`; or answer with the error."""

    error: PushError
    anew: bool = False
    ends: bool = False
    """The log has nothing committed behind the stretch, whatever its mark: that goes."""
    agreed_at: int = 0
    """When it disagrees: the last number, before the stretch, at which the logs may agree."""
    agreed_epoch: int = 0


TAKE: Final = Verdict(PushError.NONE)
_ANEW: Final = Verdict(PushError.NONE, anew=True)
_ENDS: Final = Verdict(PushError.NONE, ends=True)


def goes_on(order: Order, log_end: int, history: History) -> bool:
    """Whether a stretch simply goes on where a log ends. `judge` takes such a one from whom orders are taken,
    when the log is good; asked first, because nearly every stretch is one."""
    if not history or not 0 < order.log_start <= order.start <= MOST_NUMBER or order.start != log_end + 1:
        return False
    epoch, first = history[-1]
    return first <= log_end and epoch == order.previous_epoch


def judge(order: Order, standing: Standing) -> Verdict:
    """Whether a follower takes a stretch."""
    if not order.is_possible:
        return Verdict(PushError.BAD_BATCH)
    if order.leader_epoch < standing.leader_epoch:
        return Verdict(PushError.STALE_LEADER)
    if order.leader_epoch == standing.leader_epoch and standing.leads:
        return Verdict(PushError.STALE_LEADER)  # an epoch has one leader: this is somebody else's mistake
    if standing.condition is Condition.FAILED:
        return Verdict(PushError.STORAGE)
    if standing.condition is Condition.DAMAGED:
        return _refill(order, standing)
    if standing.is_outdated and not standing.in_sync:
        return _after_a_loss(order, standing)
    return _match(order, standing)


def _refill(order: Order, standing: Standing) -> Verdict:
    """A damaged log is kept as it is while it may be asked for: dropped only when it is out of sync, and when
    the stretch begins where the leader does."""
    if standing.in_sync:
        return Verdict(PushError.DAMAGED)
    return _copied_anew(order)


def _copied_anew(order: Order) -> Verdict:
    """Everything is dropped for a stretch from the leader's start on; before, that is asked for."""
    return _ANEW if order.start == order.log_start else Verdict(PushError.DISAGREES)


def _after_a_loss(order: Order, standing: Standing) -> Verdict:
    """What nobody counts on, and is older than a lossy election, ends where the leader that it chose does."""
    if _lacks(order, standing):
        return _copied_anew(order)
    verdict = _match(order, standing)
    return _ENDS if verdict == TAKE else verdict


def _match(order: Order, standing: Standing) -> Verdict:
    """Raft's log matching, on epochs that hold for holes too."""
    before = order.start - 1
    is_gone = standing.log_end < order.log_start - 1
    if order.start == order.log_start:
        # Nothing older is left to agree on. What lies below is gone at the leader, so it was committed, or
        # it was never there: whatever the follower has there goes too.
        return _ANEW if is_gone else TAKE
    agrees = standing.log_end >= before and epoch_at(standing.history, before) == order.previous_epoch
    if agrees and not is_gone:
        return TAKE
    at, epoch = last_common(standing.history, standing.log_end, before, order.previous_epoch)
    return Verdict(PushError.DISAGREES, agreed_at=at, agreed_epoch=epoch)


def _lacks(order: Order, standing: Standing) -> bool:
    """Whether the leader that a lossy election chose may have what compaction or retention took here because
    of later batches, which are lost. Then all is copied anew, from its start on."""
    return order.start <= standing.compacted_through or order.log_start < standing.log_start


def mark_of(own: int, pushed: int, matched: int) -> int:
    """A follower's high-water mark: the leader's, as far as it has the leader's batches. It never goes
    back."""
    return max(own, min(pushed, matched))


def is_outdated(lossy_epoch: int, history: History) -> bool:
    """Whether a lossy election came after everything that a log has. What was committed before it may be
    lost, until the log has batches of the epoch that began with it.

    lossy_epoch: of the last lossy election; 0: there was none.
    """
    return lossy_epoch > (history[-1][0] if history else 0)


def kept_through(mark: int, lossy_epoch: int, history: History) -> int:
    """Up to which number nothing may be cut: the high-water mark, where that can be believed."""
    return 0 if is_outdated(lossy_epoch, history) else mark
