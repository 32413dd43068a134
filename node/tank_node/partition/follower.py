"""The follower's part: takes stretches from connections, checks them (`replication.append_check`), stores
them in logs, and answers.

The follower reports fsyncs of a partition on the connection that carried its newest stretch.
"""

import logging
from collections.abc import Callable

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import PartitionView
from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import LogState
from tank_node.log.producers import check_snapshot
from tank_node.log.pushed import Pushed, append_stretch, last_of
from tank_node.log.refill import begin_anew
from tank_node.partition.beliefs import Beliefs, Claim
from tank_node.partition.partition import Partition
from tank_node.purpose import Purpose
from tank_node.replication.append_check import (
    TAKE,
    Condition,
    Order,
    Standing,
    Verdict,
    goes_on,
    is_outdated,
    judge,
    kept_through,
    mark_of,
)
from tank_node.replication.role import FollowerRole, Role
from tank_node.segment.errors import LogDiverged, StorageError
from tank_node.store.flusher import Flusher
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import PushedPartition
from tank_protos.storage.record_run import BadRecord
from tank_protos.storage.stretch import Stretch
from tank_protos.wire.buffer import Buffer

logger = logging.getLogger(__name__)

_CONDITIONS = {LogState.ACTIVE: Condition.GOOD, LogState.DAMAGED: Condition.DAMAGED}


class PeerLine:
    """A connection on which a leader's broker pushes to this node."""

    __slots__ = ("broker_epoch", "broker_id", "hang_up", "is_open", "purpose", "tell")

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        purpose: Purpose,
        tell: Callable[[int, PushedPartition], None],
        hang_up: Callable[[], None],
    ) -> None:
        """tell: sends a message that answers no push, with the request id up to which it covers stretches.
        hang_up: ends the connection."""
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        """The epoch of the process that connected."""
        self.purpose = purpose
        self.tell = tell
        self.hang_up = hang_up
        self.is_open = True
        """Whether stretches are still taken, and answers sent, on the connection."""


class PartitionFollower(FollowerRole):
    """The follower's part of one partition that is, or was, pushed to this node."""

    __slots__ = (
        "_agreed_epoch", "_line", "_mark", "_matched", "_request_id", "_source", "_told", "_whole_at",
        "partition",
    )  # fmt: skip

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._line: PeerLine | None = None
        """The connection of the newest stretch that was taken; None: there is none, or a later stretch was
        refused."""
        self._request_id = 0
        """The request id of the push with that stretch."""
        self._matched = 0
        """The last number of that stretch; fsyncs are reported up to here."""
        self._source: PeerLine | None = None
        """The connection of the newest stretch of a valid leader, taken or refused."""
        self._agreed_epoch = 0
        """The leader epoch of that stretch; 0: it was refused, or there was none."""
        self._told = 0
        """The number up to which the follower has reported the log as synced."""
        self._mark = 0
        """The leader's high-water mark in the last stretch that was taken."""
        self._whole_at: int | None = None
        """The number at which a refill is complete (flush=disk: when synced): the leader's high-water mark
        when the log first matched it. Later marks may always be ahead of the disk. None: none is matched
        yet."""

    def take(
        self,
        line: PeerLine,
        request_id: int,
        start: int,
        stretch: Stretch,
        placed: PartitionView,
        own_id: int,
        beliefs: Beliefs,
    ) -> PushedPartition:
        """Checks a stretch, and stores it if it is right. Returns the answer; never raises because of the
        content."""
        partition = self.partition
        log = partition.log
        order = Order(start, stretch.leader_epoch, stretch.previous_epoch, stretch.log_start)
        if placed.leader_epoch == order.leader_epoch and placed.leader != line.broker_id:
            return self._answer(PushError.STALE_LEADER)
        if order.is_possible and order.leader_epoch > partition.leader_epoch:
            # Before the log is read: `accept` ends a leadership of this node, and drops its staged batches.
            claim = Claim(order.leader_epoch, partition.tick.monotonic_ms, line.broker_id, line.broker_epoch)
            if not beliefs.accept(partition, claim, placed.replicas):
                return self._answer(PushError.NOT_READY)
        try:
            verdict = self._judged(order, placed, own_id)
        except StorageError as unreadable:
            self._line, self._agreed_epoch = None, 0
            partition.note_error(unreadable)
            return self._answer(PushError.STORAGE)
        if verdict.error is PushError.STALE_LEADER:
            return self._answer(verdict.error)
        # Only now: a stretch of a stale leader must not replace `_line`, on which fsyncs are still told.
        self._line, self._source, self._agreed_epoch = None, line, 0
        if verdict.error is PushError.DISAGREES:
            return self._answer(verdict.error, verdict.agreed_at, verdict.agreed_epoch)
        if verdict.error:
            return self._answer(verdict.error)
        error = self._store(order, stretch, placed, verdict)
        if error:
            self._agreed_epoch = 0
            return self._answer(error)
        self._line, self._request_id = line, request_id
        self._told = min(log.synced, self._matched)
        answer = self._answer(PushError.NONE)
        answer.matched, answer.synced = self._matched, self._told
        return answer

    def _judged(self, order: Order, placed: PartitionView, own_id: int) -> Verdict:
        partition = self.partition
        log = partition.log
        leads, is_good = partition.role is Role.LEADER, log.health.state is LogState.ACTIVE
        is_obeyed = order.leader_epoch == partition.leader_epoch and not leads
        if is_obeyed and is_good and goes_on(order, log.tail.last, log.segments.epochs):
            return TAKE
        outdated = is_good and is_outdated(placed.lossy_epoch, log.segments.epochs)
        standing = Standing(
            partition.leader_epoch,
            leads,
            _CONDITIONS.get(log.health.state, Condition.FAILED),
            own_id in placed.in_sync or placed.leader_epoch < order.leader_epoch,
            log.tail.last,
            log.segments.epochs,
            outdated,
            log.segments.may_be_compacted_through() if outdated else 0,
            log.first_available,
        )
        return judge(order, standing)

    def _answer(self, error: PushError, log_end: int | None = None, epoch: int = 0) -> PushedPartition:
        log = self.partition.log
        if log_end is None:
            log_end, epoch = log.tail.last, epoch_at(log.segments.epochs, log.tail.last)
        return PushedPartition(log.topic_id, log.partition, error, 0, 0, log_end, epoch)

    def _store(self, order: Order, stretch: Stretch, placed: PartitionView, verdict: Verdict) -> PushError:
        """Makes the log equal the leader's up to the stretch's end. Returns the error, or NONE."""
        partition = self.partition
        log = partition.log
        if placed.leader_epoch < order.leader_epoch and order.start <= partition.high_water_mark:
            # This node's view is older than the leader, and may miss a lossy election. Then messages
            # committed here and missing at the leader are lost, and not compacted away.
            return PushError.NOT_READY
        if verdict.anew and log.health.state is LogState.ACTIVE and order.start <= log.tail.written:
            tick = partition.tick  # emptying a log writes two checkpoints: more per tick would block the loop
            if tick.dropped_us == tick.monotonic_us:
                return PushError.NOT_READY
            tick.dropped_us = tick.monotonic_us
        pushed = Pushed(
            order.start, order.previous_epoch, order.leader_epoch, stretch.records, stretch.batches
        )
        try:
            if verdict.anew:
                producers = _checked(stretch.producers)
                logger.warning(
                    "%s/%d, with messages up to %d%s, is emptied: its leader's copy begins at number %d",
                    partition.topic_name,
                    partition.number,
                    log.tail.last,
                    f" ({log.reason})" if log.reason else "",
                    order.start,
                )
                self._whole_at = None
                begin_anew(log, order.start, order.previous_epoch, producers)
                partition.note_state()
            kept = kept_through(partition.high_water_mark, placed.lossy_epoch, log.segments.epochs)
            try:
                append_stretch(log, pushed, kept)
                last = last_of(pushed)
                if verdict.ends and not self._ends_with(last):
                    return PushError.DISAGREES
            finally:  # a lossy election's cut, or a refill, lowers the mark too
                partition.high_water_mark = min(partition.high_water_mark, log.high_water_mark)
            self._matched = last
            self._mark = stretch.high_water_mark
            if partition.waiters and stretch.batches:
                partition.note_uncommitted(last, len(stretch.batches))
            self._agreed_epoch = order.leader_epoch  # before `advance` wakes consumers, which may read here
            partition.advance(mark_of(partition.high_water_mark, self._mark, self._matched))
            log.retain_from(order.log_start)
            self._refilled()
        except BadRecord as bad:
            partition.metrics.refused[bad.reason] += 1
            logger.error("%s/%d: a push was refused: %s", partition.topic_name, partition.number, bad)
            return PushError.BAD_BATCH
        except LogDiverged as diverged:
            if placed.leader_epoch < order.leader_epoch:
                return PushError.NOT_READY  # the view may miss a lossy election
            log.fail(str(diverged))
            partition.note_error(diverged)
            return PushError.DIVERGED
        except StorageError as error:
            partition.note_error(error)
            return PushError.STORAGE
        return PushError.NONE

    def _ends_with(self, last: int) -> bool:
        """After a lossy election: cuts committed messages behind `last` that the new leader lacks, which this
        replica would otherwise show if it led later. Returns False when a batch reached across `last`, so
        that the log ends lower."""
        partition = self.partition
        if last < partition.high_water_mark:
            logger.warning(
                "%s/%d is cut to number %d after a lossy election, though %d was committed here",
                partition.topic_name,
                partition.number,
                last,
                partition.high_water_mark,
            )
            partition.log.truncate_to(last)
        return partition.log.tail.last >= last

    def _refilled(self) -> None:
        """Ends a refill that is complete: at the latest when the replica may join the in-sync set, because a
        member may have to lead."""
        partition = self.partition
        log = partition.log
        if not log.health.refilling:
            return
        if self._whole_at is None or self._whole_at > self._matched:  # None, or the mark of another leader
            self._whole_at = self._mark if self._matched >= self._mark else None
        if self._whole_at is not None:
            # Without flush=disk the log need not be synced: after a loss of power its end is unsure in any
            # case.
            log.refilled_through(self._whole_at if partition.flush_disk else 0)

    def agrees_with(self, leader: int, leader_epoch: int) -> bool:
        source = self._source
        if source is None or not source.is_open or source.broker_id != leader:
            return False
        return self._agreed_epoch == leader_epoch

    def failed(self) -> None:
        line, self._line = self._line, None
        if line is not None and line.is_open:
            is_damaged = self.partition.log.health.state is LogState.DAMAGED
            line.tell(self._request_id, self._answer(PushError.DAMAGED if is_damaged else PushError.STORAGE))

    def synced(self) -> None:
        line, log = self._line, self.partition.log
        if log.health.state is not LogState.ACTIVE:
            self.failed()
            return
        self._refilled()
        synced = min(log.synced, self._matched)
        if line is None or not line.is_open or synced <= self._told:
            return
        self._told = synced
        answer = self._answer(PushError.NONE)
        answer.matched, answer.synced = self._matched, synced
        line.tell(self._request_id, answer)


def _checked(producers: Buffer) -> bytes:
    """Checks a pushed snapshot of producers before the log is emptied for it. Checks only its checksum,
    because 100,000 producers would block the event loop. Raises BadRecord."""
    content = bytes(producers)
    try:
        if content:
            check_snapshot(content)
    except ValueError as error:
        raise BadRecord(str(error)) from error
    return content


class Followers:
    """The follower's part of a node: all partitions that are pushed to it, and the connections of the
    leaders."""

    def __init__(
        self,
        link: ControllerLink,
        flusher: Flusher,
        find: Callable[[int, int], Partition | None],
        beliefs: Beliefs,
    ) -> None:
        """find: returns the open partition of a topic id and a number."""
        self.beliefs = beliefs
        self._link = link
        self._flusher = flusher
        self._find = find
        self._lines: dict[tuple[int, Purpose], PeerLine] = {}
        """The open connections, by leader's broker id and purpose."""
        self._unsynced: dict[Partition, None] = {}
        """Partitions that took a stretch since the last `sync`."""
        link.on_brokers(self._on_brokers)

    @property
    def is_ready(self) -> bool:
        """Whether this node takes pushes: its registration is committed and in its view."""
        epoch = self._link.broker_epoch
        return bool(epoch) and self._link.view.index >= epoch

    def opened(self, line: PeerLine) -> None:
        """Takes over a new connection of a leader's broker, and ends its old one of the same purpose; a live
        one ends the catch-up one too. Stretches that wait unread on the old ones are dropped."""
        is_live = line.purpose is Purpose.LIVE
        purposes = (Purpose.LIVE, Purpose.CATCH_UP) if is_live else (Purpose.CATCH_UP,)
        for purpose in purposes:
            old = self._lines.pop((line.broker_id, purpose), None)
            if old is not None:
                old.is_open = False
                old.hang_up()
        self._lines[line.broker_id, line.purpose] = line

    def closed(self, line: PeerLine) -> None:
        """Forgets a connection that has ended."""
        line.is_open = False
        if self._lines.get((line.broker_id, line.purpose)) is line:
            del self._lines[line.broker_id, line.purpose]

    def _on_brokers(self) -> None:
        """Ends connections of earlier processes, when the brokers in the view have changed."""
        brokers = self._link.view.brokers
        for line in list(self._lines.values()):
            broker = brokers.get(line.broker_id)
            if broker is None or broker.epoch != line.broker_epoch:
                line.is_open = False
                line.hang_up()

    def take(
        self, line: PeerLine, request_id: int, number: int, start: int, stretch: Stretch
    ) -> PushedPartition:
        """Takes one entry of a push. Call `sync` after the last entry."""
        topic_id = stretch.topic_id
        if not self.is_ready:
            return PushedPartition(topic_id, number, PushError.NOT_READY)
        topic = self._link.view.topic_by_id(topic_id)
        partition = self._find(topic_id, number)
        if topic is None or partition is None or number >= len(topic.partitions):
            return PushedPartition(topic_id, number, PushError.UNKNOWN_PARTITION)
        own_id = self._link.view.broker_id
        if own_id not in topic.partitions[number].replicas:
            # The replica moved away, and its data will be deleted: see `broker.replica_removal`.
            return PushedPartition(topic_id, number, PushError.UNKNOWN_PARTITION)
        following = partition.follower
        if not isinstance(following, PartitionFollower):
            following = partition.follower = PartitionFollower(partition)
        placed = topic.partitions[number]
        answer = following.take(line, request_id, start, stretch, placed, own_id, self.beliefs)
        if not answer.error and partition.flush_disk:
            self._unsynced[partition] = None
        return answer

    def sync(self) -> None:
        """Requests the fsyncs of the stretches that were taken, after they are answered."""
        unsynced, self._unsynced = self._unsynced, {}
        for partition in unsynced:
            self._flusher.request(partition.log, partition.log.tail.written)
