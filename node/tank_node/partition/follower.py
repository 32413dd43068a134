"""What a follower does with its leaders' pushes: between the peer connections, the pure judgement
(`replication.follow`) and the logs.

The connection that carried a partition's newest stretch is the one that hears of its fsyncs.
"""

import logging
from collections.abc import Callable

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import PartitionView
from tank_node.log.epoch_history import epoch_at
from tank_node.log.errors import LogDiverged, StorageError
from tank_node.log.log import LogState
from tank_node.log.producers import check_snapshot
from tank_node.log.pushed import Pushed, last_of
from tank_node.partition.beliefs import Beliefs, Claim
from tank_node.partition.partition import Partition
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
from tank_node.store.flusher import Flusher
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import PushedPartition
from tank_protos.storage.record_run import BadRecord
from tank_protos.storage.stretch import Stretch
from tank_protos.wire.buffer import Buffer

logger = logging.getLogger(__name__)

LIVE = 0
CATCH_UP = 1
"""What a connection between brokers is for."""

_CONDITIONS = {LogState.ACTIVE: Condition.GOOD, LogState.DAMAGED: Condition.DAMAGED}


class PeerLine:
    """A leader's connection, as those see it who follow through it."""

    __slots__ = ("broker_epoch", "broker_id", "hang_up", "is_open", "purpose", "tell")

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        purpose: int,
        tell: Callable[[int, PushedPartition], None],
        hang_up: Callable[[], None],
    ) -> None:
        """tell: sends an answer that nobody asked for, which covers everything up to a request's id. hang_up:
        ends the connection."""
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        """Of the process that connected."""
        self.purpose = purpose
        self.tell = tell
        self.hang_up = hang_up
        self.is_open = True
        """Nothing more is taken from it, nor sent, when it is not."""


class Following(FollowerRole):
    """One partition that is, or was, pushed to this node."""

    __slots__ = (
        "_agreed_epoch", "_line", "_mark", "_matched", "_request_id", "_source", "_told", "_whole_at",
        "partition",
    )  # fmt: skip

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._line: PeerLine | None = None
        """Which connection carried the newest stretch that was taken; None: there is none, or its leader has
        sent another since that was not."""
        self._request_id = 0
        """Of the push with that stretch."""
        self._matched = 0
        """Its last number: what was synced is told up to here."""
        self._source: PeerLine | None = None
        """Which connection carried the newest stretch that was looked at."""
        self._agreed_epoch = 0
        """Its leader epoch, when it was taken; 0: it was refused, or there was none."""
        self._told = 0
        """What was told as synced."""
        self._mark = 0
        """The leader's high-water mark, as it was pushed last."""
        self._whole_at: int | None = None
        """A refill has done its work when all up to here is there (flush=disk: on the disk): the mark that it
        had matched first. A later one may always be ahead of the disk. None: it has matched none yet."""

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
        """Judges a stretch and does what it says. Never raises because of what it holds."""
        partition = self.partition
        log = partition.log
        order = Order(start, stretch.leader_epoch, stretch.previous_epoch, stretch.log_start)
        if placed.leader_epoch == order.leader_epoch and placed.leader != line.broker_id:
            return self._answer(PushError.STALE_LEADER)
        if order.is_possible and order.leader_epoch > partition.leader_epoch:
            # Before its log is looked at: what was staged here, as a leader, is not stored.
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
        # Not before: whom nobody obeys takes nobody's place, and an fsync may have to be told yet.
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
        leads, is_good = partition.role is Role.LEADER, log.state is LogState.ACTIVE
        is_obeyed = order.leader_epoch == partition.leader_epoch and not leads
        if is_obeyed and is_good and goes_on(order, log.last, log.epochs):
            return TAKE
        outdated = is_good and is_outdated(placed.lossy_epoch, log.epochs)
        standing = Standing(
            partition.leader_epoch,
            leads,
            _CONDITIONS.get(log.state, Condition.FAILED),
            own_id in placed.in_sync or placed.leader_epoch < order.leader_epoch,
            log.last,
            log.epochs,
            outdated,
            log.may_be_compacted_through() if outdated else 0,
            log.first_available,
        )
        return judge(order, standing)

    def _answer(self, error: PushError, log_end: int | None = None, epoch: int = 0) -> PushedPartition:
        log = self.partition.log
        if log_end is None:
            log_end, epoch = log.last, epoch_at(log.epochs, log.last)
        return PushedPartition(log.topic_id, log.partition, error, 0, 0, log_end, epoch)

    def _store(self, order: Order, stretch: Stretch, placed: PartitionView, verdict: Verdict) -> PushError:
        """Makes the log what the leader has, up to the stretch's end; what of it failed."""
        partition = self.partition
        log = partition.log
        if placed.leader_epoch < order.leader_epoch and order.start <= partition.high_water_mark:
            # The view may yet tell of a lossy election: what is committed here and missing there is lost
            # then, not compacted away.
            return PushError.NOT_READY
        if verdict.anew and log.state is LogState.ACTIVE and order.start <= log.written:
            tick = partition.tick  # it writes both checkpoints: many at once would hold up the loop
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
                    "%s/%d holds up to %d%s: dropped, to be copied from number %d on",
                    partition.topic_name,
                    partition.number,
                    log.last,
                    f" ({log.reason})" if log.reason else "",
                    order.start,
                )
                self._whole_at = None
                log.begin_anew(order.start, order.previous_epoch, producers)
                partition.note_state()
            kept = kept_through(partition.high_water_mark, placed.lossy_epoch, log.epochs)
            try:
                log.append_stretch(pushed, kept)
                last = last_of(pushed)
                if verdict.ends and not self._ends_with(last):
                    return PushError.DISAGREES
            finally:  # what a lossy election has cut, or a refill dropped, takes the mark down with it
                partition.high_water_mark = min(partition.high_water_mark, log.high_water_mark)
            self._matched = last
            self._mark = stretch.high_water_mark
            if partition.waiters and stretch.batches:
                partition.note_uncommitted(last, len(stretch.batches))
            self._agreed_epoch = order.leader_epoch  # those who are woken may read
            partition.advance(mark_of(partition.high_water_mark, self._mark, self._matched))
            log.retain_from(order.log_start)
            self._refilled()
        except BadRecord as bad:
            partition.metrics.refused[bad.reason] += 1
            logger.error("%s/%d: a push was refused: %s", partition.topic_name, partition.number, bad)
            return PushError.BAD_BATCH
        except LogDiverged as diverged:
            if placed.leader_epoch < order.leader_epoch:
                return PushError.NOT_READY  # the view may yet tell of a lossy election
            log.fail(str(diverged))
            partition.note_error(diverged)
            return PushError.DIVERGED
        except StorageError as error:
            partition.note_error(error)
            return PushError.STORAGE
        return PushError.NONE

    def _ends_with(self, last: int) -> bool:
        """After a lossy election: takes back what was committed here and is lost to the leader that it chose.
        Or this replica would show it when it leads, and those in sync with it have it not. False: a batch lay
        over that end."""
        partition = self.partition
        if last < partition.high_water_mark:
            logger.warning(
                "%s/%d is cut to number %d after a lossy election: up to %d was committed here",
                partition.topic_name,
                partition.number,
                last,
                partition.high_water_mark,
            )
            partition.log.truncate_to(last)
        return partition.log.last >= last

    def _refilled(self) -> None:
        """Ends a refill that has done its work. It does so no later than it may be made a member: as one it
        may have to lead."""
        partition = self.partition
        log = partition.log
        if not log.refilling:
            return
        if self._whole_at is None or self._whole_at > self._matched:  # another leader's
            self._whole_at = self._mark if self._matched >= self._mark else None
        if self._whole_at is not None:
            # Without flush=disk it need not be synced: after a loss of power no such tail is sure anyway.
            log.refilled_through(self._whole_at if partition.flush_disk else 0)

    def agrees_with(self, leader: int, leader_epoch: int) -> bool:
        source = self._source
        if source is None or not source.is_open or source.broker_id != leader:
            return False
        return self._agreed_epoch == leader_epoch

    def failed(self) -> None:
        line, self._line = self._line, None
        if line is not None and line.is_open:
            is_damaged = self.partition.log.state is LogState.DAMAGED
            line.tell(self._request_id, self._answer(PushError.DAMAGED if is_damaged else PushError.STORAGE))

    def synced(self) -> None:
        line, log = self._line, self.partition.log
        if log.state is not LogState.ACTIVE:
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
    """A snapshot that was pushed, before anything is dropped for it: its checksum alone, for it may tell of
    100,000 producers, and the event loop waits. Raises BadRecord."""
    content = bytes(producers)
    try:
        if content:
            check_snapshot(content)
    except ValueError as error:
        raise BadRecord(str(error)) from error
    return content


class Followers:
    """All partitions of a node that others lead, and the connections through which they are pushed."""

    def __init__(
        self,
        link: ControllerLink,
        flusher: Flusher,
        find: Callable[[int, int], Partition | None],
        beliefs: Beliefs,
    ) -> None:
        """find: the open partition of a topic's id."""
        self.beliefs = beliefs
        self._link = link
        self._flusher = flusher
        self._find = find
        self._lines: dict[tuple[int, int], PeerLine] = {}
        """The connection of each leader's broker and purpose that is open."""
        self._unsynced: dict[Partition, None] = {}
        """Those that took something since `sync`."""
        link.on_brokers(self._on_brokers)

    @property
    def is_ready(self) -> bool:
        """Whether this node takes orders: its registration is committed, and its view has come so far."""
        epoch = self._link.broker_epoch
        return bool(epoch) and self._link.view.index >= epoch

    def opened(self, line: PeerLine) -> None:
        """A leader's broker has connected: its old connection of the same purpose ends, a live one ends
        both, before anything that waits on them is looked at."""
        purposes = (LIVE, CATCH_UP) if line.purpose == LIVE else (CATCH_UP,)
        for purpose in purposes:
            old = self._lines.pop((line.broker_id, purpose), None)
            if old is not None:
                old.is_open = False
                old.hang_up()
        self._lines[line.broker_id, line.purpose] = line

    def closed(self, line: PeerLine) -> None:
        """A connection has ended."""
        line.is_open = False
        if self._lines.get((line.broker_id, line.purpose)) is line:
            del self._lines[line.broker_id, line.purpose]

    def _on_brokers(self) -> None:
        """The view of the brokers has changed: a connection of an earlier process ends."""
        brokers = self._link.view.brokers
        for line in list(self._lines.values()):
            broker = brokers.get(line.broker_id)
            if broker is None or broker.epoch != line.broker_epoch:
                line.is_open = False
                line.hang_up()

    def take(
        self, line: PeerLine, request_id: int, number: int, start: int, stretch: Stretch
    ) -> PushedPartition:
        """Takes one entry of a push; `sync` at its end."""
        topic_id = stretch.topic_id
        if not self.is_ready:
            return PushedPartition(topic_id, number, PushError.NOT_READY)
        topic = self._link.view.topic_by_id(topic_id)
        partition = self._find(topic_id, number)
        if topic is None or partition is None or number >= len(topic.partitions):
            return PushedPartition(topic_id, number, PushError.UNKNOWN_PARTITION)
        own_id = self._link.view.broker_id
        if (
            own_id not in topic.partitions[number].replicas
        ):  # its data is about to go: see `broker.replica_removal`
            return PushedPartition(topic_id, number, PushError.UNKNOWN_PARTITION)
        following = partition.follower
        if not isinstance(following, Following):
            following = partition.follower = Following(partition)
        placed = topic.partitions[number]
        answer = following.take(line, request_id, start, stretch, placed, own_id, self.beliefs)
        if not answer.error and partition.flush_disk:
            self._unsynced[partition] = None
        return answer

    def sync(self) -> None:
        """Asks for the fsync of what was taken, after the answers that tell of it."""
        unsynced, self._unsynced = self._unsynced, {}
        for partition in unsynced:
            self._flusher.request(partition.log, partition.log.written)
