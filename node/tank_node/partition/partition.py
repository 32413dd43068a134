"""One partition that this node leads: appends, the high-water mark, and everybody who waits for it.

The broker owns the partitions and ends the ticks; sessions call `append` and `fetch`. Nothing here does
I/O but through the log.
"""

from collections import deque
from collections.abc import Callable

from tank_node.limits import UNCOMMITTED_WRITES, Limits
from tank_node.log.errors import DiskFull, StorageError, TooManyOpenFiles
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.metrics import Metrics
from tank_node.partition.acks import PendingAcks, RunAcks
from tank_node.partition.numbering import numbered
from tank_node.partition.reads import Reach, ReadablePartition
from tank_node.partition.waiters import Producer, Settler, Tick, Waiter
from tank_node.refusal_log import RefusalLog
from tank_node.replication.role import LeaderRole, Role
from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.storage.produce_run import ProduceRun
from tank_protos.wire.errors import InvalidBundle, OutOfRange

__all__ = ["Partition", "Reach"]


class Partition(ReadablePartition):
    """A replica of a partition; as its leader it takes appends. Single-threaded, like its log.

    Invariant: what the mark passed while `flush_disk` held was synced before, by every replica in sync.
    """

    __slots__ = (
        "acks", "active_segment", "flush_disk", "flush_messages", "flush_ms", "found", "found_acks",
        "found_timeout_ms", "in_sync", "limits", "metrics", "on_failure", "refusal", "refusals",
        "staged_batches", "staged_bytes", "staged_messages", "sync_asked_ms", "tick",
        "touched", "uncommitted", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        topic_name: str,
        number: int,
        log: PartitionLog,
        *,
        tick: "Tick[Partition]",
        limits: Limits,
        metrics: Metrics,
        refusals: RefusalLog,
        on_failure: "Callable[[Partition, StorageError], None]",
    ) -> None:
        super().__init__(topic_name, number, log)
        self.flush_disk = True
        self.flush_messages = 0
        self.flush_ms = 0
        self.sync_asked_ms = 0
        """When an fsync was last asked for under flush=replicated (monotonic)."""
        self.in_sync = True
        """Whether as many replicas are in sync as the topic demands."""
        self.tick = tick
        self.limits = limits
        self.metrics = metrics
        self.refusals = refusals
        self.on_failure = on_failure
        self.refusal: ErrorCode = ErrorCode.NONE
        """Why appends are refused now; NONE: they are taken."""
        self.acks = PendingAcks(tick, metrics)
        self.uncommitted: deque[tuple[int, int]] = deque()
        """(last number, bytes) of each write that the mark has not passed."""
        self.waiters: dict[Waiter[Partition], None] = {}
        self.found = ProduceRun()
        """Requests of this tick that came by the short way: see `expect`. `walks` is heeded for all."""
        self.found_acks: RunAcks | None = None
        """Who is told how these ended; None: there are none."""
        self.found_timeout_ms = 0
        """How long their clients wait; 0: the default."""
        self.touched = False
        """This tick will write it."""
        self.staged_batches = 0
        self.staged_bytes = 0
        self.staged_messages = 0
        self.active_segment = log.segments[-1] if log.segments else None
        """The segment that was written last: another one means that the log has rolled."""
        self.note_state()

    # --- appends ---------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        settler: Settler,
        token: int,
        *,
        first: int | None = None,
        max_timestamp_ms: int = 0,
        producer: Producer | None = None,
        timeout_ms: int = 0,
    ) -> None:
        """Stages one bundle (with its length before it), or settles at once with the error that keeps it out.

        `first` is the number that the client wants for a dense bundle (id 5). `batch` must stay valid
        until the end of the tick. `timeout_ms` bounds the wait for the high-water mark; 0: the default.
        """
        header = self._judge(batch, settler, token)
        if header is None:
            return
        self.stage_found()  # they came first
        deadline_ms = self.tick.monotonic_ms + (timeout_ms or self.limits.ack_timeout_ms)
        producer_id = epoch = sequence = 0
        if producer is not None:
            # Before its numbers are looked at: those of a repeat are not above the end any more.
            if not self._is_next(producer, header.messages, settler, token, deadline_ms):
                return
            producer_id, epoch, sequence = producer
        span = header.messages - 1
        max_timestamp_ms = max_timestamp_ms or bundle.first_timestamp_ms(batch, header) or self.tick.now_ms
        if header.sparse or first is not None:
            try:
                batch, first, span = numbered(batch, header, first, self.log.last)
            except OutOfRange:
                self._refuse(settler, token, ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END, "number_out_of_range")
                return
            except InvalidBundle as invalid:
                self._refuse(settler, token, ErrorCode.INVALID_BUNDLE, invalid.reason)
                return
        try:
            first, last = self.log.stage(
                batch,
                messages=header.messages,
                first=first,
                span=span,
                max_timestamp_ms=max_timestamp_ms,
                leader_epoch=self.leader_epoch,
                now_ms=self.tick.now_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                producer_sequence=sequence,
            )
        except StorageError as error:
            self.note_error(error)
            settler.settle(token, ErrorCode.STORAGE, 0, 0)
            return
        self._touch()
        self.staged_batches += 1
        self.staged_bytes += len(batch)
        self.staged_messages += header.messages
        self.acks.staged.append((last, first, settler, token, self.tick.monotonic_us, deadline_ms, 1))

    def _judge(self, batch: memoryview, settler: Settler, token: int) -> bundle.BundleHeader | None:
        """The header of a bundle that may be stored now; None when it was refused."""
        if self.refusal:
            settler.settle(token, self.refusal, 0, 0)
        elif len(batch) > self.limits.bundle_bytes:
            self._refuse(settler, token, ErrorCode.TOO_LARGE, "bundle_too_large")
        else:
            try:
                return bundle.validate(batch, self.found.walks)
            except InvalidBundle as invalid:
                self._refuse(settler, token, ErrorCode.INVALID_BUNDLE, invalid.reason)
        return None

    def expect(self, timeout_ms: int) -> RunAcks:
        """Whoever puts batches into `found` adds there who is to be told how they ended: the same as
        `found_acks`, which all share that wait for the same time.

        They may be put there only while there is no `refusal`.
        """
        self.stage_found()
        acks = self.found_acks = RunAcks()
        self.found_timeout_ms = timeout_ms
        self._touch()
        return acks

    def stage_found(self) -> None:
        """Stages what was found, before something else is or the tick ends."""
        acks = self.found_acks
        if acks is None:
            return
        self.found_acks = None
        found, tick = self.found, self.tick
        batches = found.batches
        if not batches:
            return
        try:
            self.log.stage_found(found, leader_epoch=self.leader_epoch, now_ms=tick.now_ms)
        except StorageError as error:
            found.clear()
            self.note_error(error)
            acks.settle(0, self.refusal or ErrorCode.STORAGE, 0, 0)
            return
        self.staged_batches += batches
        self.staged_bytes += found.batch_bytes
        self.staged_messages += found.messages
        found.clear()
        deadline_ms = tick.monotonic_ms + (self.found_timeout_ms or self.limits.ack_timeout_ms)
        self.acks.staged.append((self.log.last, 0, acks, 0, tick.monotonic_us, deadline_ms, batches))

    def _touch(self) -> None:
        """Makes the tick write this partition."""
        if not self.touched:
            self.touched = True
            self.tick.touched.append(self)

    def _is_next(
        self, producer: Producer, messages: int, settler: Settler, token: int, deadline_ms: int
    ) -> bool:
        """Whether an idempotent bundle is appended; else it is settled, or its first copy is waited for."""
        try:
            verdict = self.log.check_producer(
                producer.producer_id, producer.epoch, producer.sequence, messages
            )
        except StorageError as error:  # its memory is read from the disk where it isn't there
            self.note_error(error)
            settler.settle(token, ErrorCode.STORAGE, 0, 0)
            return False
        outcome = verdict.outcome
        if outcome is Outcome.APPEND:
            return True
        if outcome is Outcome.REPEAT or outcome is Outcome.OLD_REPEAT:
            # Answered with the numbers it got first, and only when they can't be lost any more. Where those
            # are forgotten: when everything that there is can't.
            first, through = verdict.first, verdict.last or self.log.last
            if through <= self.high_water_mark:
                settler.settle(token, ErrorCode.NONE, first, verdict.last)
            else:
                queue = self.acks.staged if self.staged_batches else self.acks.waiting
                queue.append((through, first, settler, token, self.tick.monotonic_us, deadline_ms, 1))
        else:
            self._refuse(settler, token, _VERDICT_ERRORS[outcome], outcome.value)
        return False

    def _refuse(self, settler: Settler, token: int, error: ErrorCode, reason: str) -> None:
        name = f"a bundle for {self.topic_name}/{self.number}"
        self.refusals.note(reason, name, self.tick.monotonic_ms)
        settler.settle(token, error, 0, 0)

    def end(self) -> int:
        return self.log.last + self.found.messages

    # --- the end of a tick -----------------------------------------------------------------------

    def write(self) -> bool:
        """Writes what was staged, once. When False, its producers have been told the error and nothing
        of it is stored."""
        self.touched = False
        try:
            self.stage_found()
            self.log.write_staged()
        except StorageError as error:
            self._drop_staged(ErrorCode.STORAGE)
            self.note_error(error)
            return False
        except Exception as bug:
            # The staged bytes are the receive buffer's and will be overwritten: they must not stay.
            self.log.drop_staged()
            self.log.fail(f"a bug of ours: {bug!r}")
            self._drop_staged(ErrorCode.STORAGE)
            self.note_state()
            raise
        metrics = self.metrics
        metrics.produced_batches += self.staged_batches
        metrics.produced_bytes += self.staged_bytes
        metrics.produced_messages += self.staged_messages
        if self.staged_batches:  # not when all that was found has been refused: nothing would take it out
            self.note_uncommitted(self.log.last, self.staged_bytes)
        if not self.flush_disk:
            metrics.acknowledged_now += self.staged_batches
        self.staged_batches = self.staged_bytes = self.staged_messages = 0
        return True

    def note_uncommitted(self, last: int, size_bytes: int) -> None:
        """Remembers a write until the mark passes it; of too many the last ones count as one. What was
        remembered of numbers that it has anew is forgotten."""
        uncommitted = self.uncommitted
        while uncommitted and uncommitted[-1][0] >= last:
            uncommitted.pop()
        held = uncommitted.pop()[1] if len(uncommitted) >= UNCOMMITTED_WRITES else 0
        uncommitted.append((last, held + size_bytes))

    def _drop_staged(self, error: ErrorCode) -> None:
        self.staged_batches = self.staged_bytes = self.staged_messages = 0
        self.acks.drop_staged(error)
        self.found.clear()
        if self.found_acks is not None:
            acks, self.found_acks = self.found_acks, None
            acks.settle(0, error, 0, 0)

    def advance(self, mark: int) -> None:
        """Raises the high-water mark and wakes who waits for it. Producers are answered by `acknowledge`."""
        if mark <= self.high_water_mark:
            return
        assert mark <= self.log.written, "a high-water mark beyond the log"
        self.high_water_mark = self.log.high_water_mark = mark
        self.log.changed = True  # nothing else may, before an orderly stop writes its checkpoint
        appended = 0
        uncommitted = self.uncommitted
        while uncommitted and uncommitted[0][0] <= mark:
            appended += uncommitted.popleft()[1]
        if self.waiters:
            for waiter in tuple(self.waiters):
                if not waiter.done:  # another one's reading may have found damage, and ended all
                    waiter.advanced(self, appended)
        if not self.settled and mark >= self.settles_at:
            self.settled = True
            for waiter in tuple(self.waiters):
                if not waiter.done:
                    waiter.settled(self)

    def acknowledge(self) -> None:
        """At the end of a tick: answers the producers that the high-water mark has passed; others wait on."""
        self.acks.end_tick(self.log.last, self.high_water_mark)
        if self.acks.waiting and self.log.state is not LogState.ACTIVE:
            self.note_state()  # it failed behind the append: nobody will come back to these

    # --- settings and trouble --------------------------------------------------------------------

    def set_flush_disk(self, flush_disk: bool) -> None:
        """Whether an append must be fsynced before it counts. When it need not any more, those who wait
        are answered."""
        self.flush_disk = flush_disk
        if not flush_disk and not self.refusal and self.leadership is None:
            self.advance(self.log.written)
            self.acks.answer(self.high_water_mark)

    def set_in_sync(self, in_sync: int, wanted: int) -> None:
        """How many replicas are in sync, and how many must be for an append to be taken."""
        self.in_sync = in_sync >= wanted
        self.note_state()

    def note_error(self, error: StorageError) -> None:
        """Counts and reports an error of the log, and takes over the state that it left behind."""
        self.metrics.storage_errors += 1
        self.metrics.refused[error.reason] += 1
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            self.note_state()
        self.on_failure(self, error)

    def note_state(self) -> None:
        """Takes over the log's state: a failed one takes no appends, a damaged one isn't read either."""
        state = self.log.state
        if self.role is not Role.LEADER:
            elsewhere = self.role is Role.FOLLOWER
            self._stop(ErrorCode.OTHER_LEADER if elsewhere else ErrorCode.NO_LEADER, unreadable=True)
        elif state is LogState.ACTIVE:
            self.refusal = ErrorCode.NONE if self.in_sync else ErrorCode.NOT_ENOUGH_REPLICAS
            self.unreadable = False
        elif state is LogState.FAILED:
            self._stop(ErrorCode.STORAGE, unreadable=False)
        else:
            self._stop(ErrorCode.DAMAGED, unreadable=True)

    # --- roles -----------------------------------------------------------------------------------

    def lead(self, leader_epoch: int, leadership: LeaderRole | None) -> None:
        """From now on this replica leads, in this epoch; `leader` when it has followers."""
        if self.leadership is not None:
            self.leadership.end()
        self.metrics.began_leading += self.role is not Role.LEADER
        self.role = Role.LEADER
        self.leader_epoch = self.led_epoch = leader_epoch
        self.leadership = leadership
        # One that is alone has settled when its own log is committed: nobody else may know of more.
        self.settle_at(self.log.written if leadership is None else leadership.start_end)
        self.note_state()

    def follow(self, role: Role, leader_epoch: int) -> None:
        """From now on another replica leads, or nobody. What was staged is not stored; what was written may
        still be committed, by whoever leads next, and its producers are told so."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
        if self.role is Role.LEADER:
            self.metrics.ended_leading += 1
            self.role = role
            if self.leadership is not None:
                self.leadership.end()
                self.leadership = None
            self.log.drop_staged()
            # Between its write and the tick's end, what is staged for an answer is in the log already.
            self._drop_staged(ErrorCode.NO_LEADER if self.touched else ErrorCode.NOT_ACKNOWLEDGED_IN_TIME)
            self.acks.drop_waiting(ErrorCode.NOT_ACKNOWLEDGED_IN_TIME)
            self.uncommitted.clear()
        self.role = role
        self.note_state()

    def believe(self, leader_epoch: int) -> None:
        """A push of this epoch came, which is above all that this node knew."""
        assert leader_epoch > self.leader_epoch, "an epoch that is not news"
        self.follow(Role.FOLLOWER, leader_epoch)

    def remove(self) -> None:
        """The topic was deleted: everybody who waits is told."""
        if self.leadership is not None:
            self.leadership.end()
            self.leadership = None
        self._stop(ErrorCode.UNKNOWN_PARTITION, unreadable=True)
        self._drop_staged(ErrorCode.UNKNOWN_PARTITION)

    def _stop(self, refusal: ErrorCode, *, unreadable: bool) -> None:
        self.refusal = refusal
        self.unreadable = unreadable
        # What was written may be gone after a restart, or be committed by whoever leads next.
        self.acks.drop_waiting(ErrorCode.NOT_ACKNOWLEDGED_IN_TIME)
        if unreadable:
            for waiter in tuple(self.waiters):
                if not waiter.done:
                    waiter.lost(self)


_VERDICT_ERRORS = {
    Outcome.GAP: ErrorCode.OUT_OF_ORDER_SEQUENCE,
    Outcome.STALE_EPOCH: ErrorCode.STALE_PRODUCER_EPOCH,
    Outcome.UNKNOWN: ErrorCode.UNKNOWN_PRODUCER,
    Outcome.TOO_MANY: ErrorCode.TOO_MANY_PRODUCERS,
}
