"""This node's replica of one partition: appends, the high-water mark, and the requests that wait for it.

The broker owns the partitions and ends the ticks; sessions call `append` and `fetch`. All I/O is the log's.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from tank_node.limits import UNCOMMITTED_WRITES, Limits
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.staged import ProducedRun
from tank_node.metrics import Metrics
from tank_node.partition.acks import PendingAcks
from tank_node.partition.found_run import FoundRun
from tank_node.partition.log_start import LogStart
from tank_node.partition.numbering import END, FIRST_AVAILABLE
from tank_node.partition.reach import Reach
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Acked, Completion, ProducerStamp, Tick, Waiter
from tank_node.refusal_log import RefusalLog
from tank_node.replication.role import FollowerRole, LeaderRole, Role
from tank_node.segment.batch_format import BatchInfo, InvalidBatch, NumberedBatch, NumberTaken
from tank_node.segment.batch_formats import format_of
from tank_node.segment.errors import DiskFull, StorageError, TooManyOpenFiles
from tank_node.segment.record import FORMAT_KAFKA
from tank_node.segment.segment import FileRange
from tank_protos.bundle import MAX_SEQUENCE_NUMBER

_WRITTEN: Final = Acked.WRITTEN


class Partition:
    """A replica of a partition; as the leader it takes appends. Single-threaded, like its log.

    Invariants: `high_water_mark` is at most `log.written`, and falls only when a lossy election or a refill
    cuts the log. Under `flush_disk` it passes only numbers that every in-sync replica has synced.
    """

    __slots__ = (
        "acks", "active_segment", "batch_format", "end_known", "end_known_at", "flush_disk",
        "flush_messages", "flush_ms", "follower", "found",
        "high_water_mark", "in_sync", "leader_epoch", "leadership", "led_epoch", "limits", "log", "metrics",
        "number", "on_failure", "refusal", "refusals", "role", "staged_batches", "staged_bytes",
        "staged_messages", "stands_alone", "start", "stores_record_batches", "sync_asked_ms", "tick",
        "topic_name", "touched", "uncommitted", "unreadable", "waiters",
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
        self.topic_name, self.number = topic_name, number
        self.log = log
        self.high_water_mark = min(log.high_water_mark, log.tail.written)
        """At first the checkpoint's mark: messages stored behind it may not be committed."""
        self.unreadable = False
        self.role = Role.NONE
        self.leadership: LeaderRole | None = None
        """The leader's part, when it has followers; None: it has none, or doesn't lead."""
        self.stands_alone = False
        """Whether its node is without a cluster."""
        self.follower: FollowerRole | None = None
        """The follower's part, once a push has come; it takes the leader's pushes."""
        self.leader_epoch = 0
        """The highest leader epoch that this node knows: pushes of lower ones are refused."""
        self.led_epoch = 0
        """The last leader epoch in which this process led."""
        self.end_known = True
        """Whether the mark has reached `end_known_at`. Until then answers that would show the end wait."""
        self.end_known_at = 0
        """The log's end when the present leader epoch began."""
        self.batch_format = format_of(log.settings.format)
        self.stores_record_batches = log.settings.format == FORMAT_KAFKA  # else TANK's bundles
        self.flush_disk = True
        self.flush_messages = self.flush_ms = 0
        self.sync_asked_ms = 0
        """When an fsync was last requested under flush=replicated (monotonic)."""
        self.in_sync = True
        """Whether at least min.insync.replicas are in sync."""
        self.tick = tick
        self.limits = limits
        self.metrics = metrics
        self.refusals = refusals
        self.on_failure = on_failure
        self.refusal: Refusal = Refusal.NONE
        """The reason why appends are refused now; NONE: they are taken."""
        self.acks = PendingAcks(tick, metrics)
        self.uncommitted: deque[tuple[int, int]] = deque()
        """(last number, bytes) of each write above the high-water mark."""
        self.waiters: dict[Waiter[Partition], None] = {}
        self.start = LogStart(log)
        self.found = FoundRun()
        self.touched = False
        """Whether this tick will write the partition."""
        self.staged_batches = self.staged_bytes = self.staged_messages = 0
        """Counts of the batches staged in this tick."""
        self.active_segment = log.segments.list[-1] if log.segments.list else None
        """The log's last segment at the last write: the broker compares it to see that the log has rolled."""
        self.note_state()

    # --- appends ---------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        completion: Completion,
        token: int,
        *,
        first: int | None = None,
        max_timestamp_ms: int = 0,
        producer: ProducerStamp | None = None,
        timeout_ms: int = 0,
        acked: Acked = Acked.COMMITTED,
    ) -> None:
        """Stages one batch, or completes it at once with a refusal.

        first: the number that the client wants for a batch without own numbers. timeout_ms: the longest wait
        to be complete; 0: the default. `batch` must stay valid until the end of the tick.
        """
        if self.refusal and not self.takes(acked):
            completion.complete(token, self.refusal, 0, 0)
            return
        info = self._judge(batch, completion, token)
        if info is None:
            return
        alone = acked is _WRITTEN and self.leadership is not None
        self.stage_found()  # found batches came earlier
        deadline_ms = self.tick.monotonic_ms + (timeout_ms or self.limits.ack_timeout_ms)
        # Checked before the batch's numbers: those of a repeat are not above the log's end.
        if producer and not self._is_next(producer, info.messages, completion, token, deadline_ms, alone):
            return
        producer_id, epoch, sequence = producer or (0, 0, 0)
        span, flags = info.messages - 1, 0
        if info.sparse or first is not None:
            numbered = self._number(batch, info, first, completion, token)
            if numbered is None:
                return
            batch, first, span, flags = numbered
        try:
            first, last = self.log.tail.stage(
                batch,
                messages=info.messages,
                first=first,
                span=span,
                max_timestamp_ms=max_timestamp_ms or info.timestamp_ms or self.tick.now_ms,
                flags=flags,
                leader_epoch=self.leader_epoch,
                now_ms=self.tick.now_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                producer_sequence=sequence,
            )
        except StorageError as error:
            self.note_error(error)
            completion.complete(token, Refusal.STORAGE, 0, 0)
            return
        self._touch()
        self._count(1, len(batch), info.messages)
        queue = self.acks.written if alone else self.acks.staged
        queue.append((last, first, completion, token, self.tick.monotonic_us, deadline_ms, 1))

    def takes_run(self, run: ProducedRun) -> bool:
        """Whether `append_run` may append this run now: appends are taken, and the run begins with what its
        producer must send next. If not, its batches must be appended one by one."""
        if self.refusal:
            return False
        self.stage_found()  # found batches came earlier
        tail = self.log.tail
        if tail.last >= MAX_SEQUENCE_NUMBER - run.messages:
            return False
        if not run.producer_id:
            return True
        sequence, messages = run.produced(0, 1)[0]
        try:
            verdict = tail.check_producer(run.producer_id, run.producer_epoch, sequence, messages)
        except StorageError:  # the append of the first batch alone reports it
            return False
        return verdict.outcome is Outcome.APPEND

    def append_run(self, run: ProducedRun, completion: Completion, timeout_ms: int, acked: Acked) -> None:
        """Stages a run of checked batches, which `takes_run` has allowed since the last append. They get the
        numbers behind `end`, and are completed together, by token 0.

        The batches must stay valid until the end of the tick, but for those that the run copies.
        """
        tail, tick = self.log.tail, self.tick
        first = tail.last + 1
        produced = run if run.producer_id else None
        try:
            tail.stage_run(run, leader_epoch=self.leader_epoch, now_ms=tick.now_ms, produced=produced)
        except StorageError as error:
            self.note_error(error)
            completion.complete(0, Refusal.STORAGE, 0, 0)
            return
        self._touch()
        batches = run.batches
        self._count(batches, run.batch_bytes, run.messages)
        deadline_ms = tick.monotonic_ms + (timeout_ms or self.limits.ack_timeout_ms)
        alone = acked is _WRITTEN and self.leadership is not None
        queue = self.acks.written if alone else self.acks.staged
        queue.append((tail.last, first, completion, 0, tick.monotonic_us, deadline_ms, batches))

    def _number(
        self, batch: memoryview, info: BatchInfo, first: int | None, completion: Completion, token: int
    ) -> NumberedBatch | None:
        """Gives a batch its numbers; returns None after it completed the batch with a refusal."""
        try:
            return self.batch_format.number(batch, info, first, self.log.tail.last, self.leader_epoch)
        except NumberTaken:
            self._refuse(completion, token, Refusal.NUMBER_TAKEN, "number_out_of_range")
        except InvalidBatch as invalid:
            self._refuse(completion, token, Refusal.INVALID_BATCH, invalid.reason)
        return None

    def takes(self, acked: Acked) -> bool:
        """Whether this replica takes appends now; else `refusal` says why not. It takes appends that only
        have to be written also with too few replicas in sync."""
        refusal = self.refusal
        return not refusal or (acked is _WRITTEN and refusal is Refusal.NOT_ENOUGH_REPLICAS)

    def _judge(self, batch: memoryview, completion: Completion, token: int) -> BatchInfo | None:
        """Checks a batch; returns its info, or None after it completed the batch with a refusal."""
        if len(batch) > self.limits.bundle_bytes:
            self._refuse(completion, token, Refusal.TOO_LARGE, "bundle_too_large")
        else:
            try:
                return self.batch_format.judge(batch, self.found.batches.walks)
            except InvalidBatch as invalid:
                self._refuse(completion, token, Refusal.INVALID_BATCH, invalid.reason)
        return None

    def expect(self, acks: Completion, timeout_ms: int) -> None:
        """Announces batches that the caller adds to `found`. `acks` completes all of them together; batches
        with the same completion and timeout share it within a tick.

        None may be added while there is a `refusal`. Before batches with another completion, call
        `stage_found`.
        """
        assert self.found.acks is None, "batches of others are found and not staged"
        self.found.acks = acks
        self.found.timeout_ms = timeout_ms
        self._touch()

    def stage_found(self) -> None:
        """Stages the found batches: before any other batch is staged, and at the tick's end."""
        run = self.found
        acks = run.acks
        if acks is None:
            return
        run.acks = None
        found, tick = run.batches, self.tick
        batches = found.batches
        if not batches:
            return
        try:
            self.log.tail.stage_run(found, leader_epoch=self.leader_epoch, now_ms=tick.now_ms)
        except StorageError as error:
            found.clear()
            self.note_error(error)
            acks.complete(0, self.refusal or Refusal.STORAGE, 0, 0)
            return
        self._count(batches, found.batch_bytes, found.messages)
        found.clear()
        deadline_ms = tick.monotonic_ms + (run.timeout_ms or self.limits.ack_timeout_ms)
        self.acks.staged.append((self.log.tail.last, 0, acks, 0, tick.monotonic_us, deadline_ms, batches))

    def _count(self, batches: int, batch_bytes: int, messages: int) -> None:
        """Counts what was staged in this tick."""
        self.staged_batches += batches
        self.staged_bytes += batch_bytes
        self.staged_messages += messages

    def _touch(self) -> None:
        """Makes this tick write the partition."""
        if not self.touched:
            self.touched = True
            self.tick.touched.append(self)

    def _is_next(
        self,
        producer: ProducerStamp,
        messages: int,
        completion: Completion,
        token: int,
        deadline_ms: int,
        alone: bool,
    ) -> bool:
        """Whether a batch of an idempotent producer must be appended. If not, completes it: at once, or, for
        a repeat, together with its first copy. alone: whether a repeat waits for this leader's flush
        alone."""
        try:
            verdict = self.log.tail.check_producer(
                producer.producer_id, producer.epoch, producer.sequence, messages
            )
        except StorageError as error:  # the table of producers may have to be read from the disk
            self.note_error(error)
            completion.complete(token, Refusal.STORAGE, 0, 0)
            return False
        outcome = verdict.outcome
        if outcome is Outcome.APPEND:
            return True
        if outcome is Outcome.REPEAT or outcome is Outcome.OLD_REPEAT:
            # A repeat is answered with the numbers of its first copy, once these are committed. If they are
            # forgotten, it waits until the whole log of now is committed.
            first, through = verdict.first, verdict.last or self.log.tail.last
            entry = through, first, completion, token, self.tick.monotonic_us, deadline_ms, 1
            if through <= (self._flushed() if alone else self.high_water_mark):
                completion.complete(token, Refusal.NONE, first, verdict.last)
            elif alone:
                self.acks.written.append(entry)
            elif self.staged_batches:
                self.acks.staged.append(entry)
            else:
                self.acks.waiting.append(entry)
        else:
            self._refuse(completion, token, _VERDICT_ERRORS[outcome], outcome.value)
        return False

    def _refuse(self, completion: Completion, token: int, error: Refusal, reason: str) -> None:
        name = f"a bundle for {self.topic_name}/{self.number}"
        self.refusals.note(reason, name, self.tick.monotonic_ms)
        completion.complete(token, error, 0, 0)

    def end(self) -> int:
        """The last number given out, found batches included."""
        return self.log.tail.last + self.found.batches.messages

    # --- reading ---------------------------------------------------------------------------------

    @property
    def in_sync_size(self) -> int:
        """Number of in-sync replicas, this leader included."""
        return 1 if self.leadership is None else self.leadership.in_sync_size

    def know_end_at(self, end: int) -> None:
        """Notes that a leader epoch begins with a log that ends at `end`."""
        self.end_known_at = end
        self.end_known = self.high_water_mark >= end

    def fetch(self, number: int, max_bytes: int) -> "FileRange | Reach":
        """Returns the stored batches from `number` on, up to the high-water mark, or a `Reach`. The caller
        must release the range's file.

        OUT_OF_BOUNDS is for numbers below the first available one, or beyond the log's end + 1. Between the
        mark and the end it is WAIT, and for any such number until `end_known`.
        """
        if self.unreadable:
            return Reach.UNREADABLE
        mark = self.high_water_mark
        if number == END:
            number = mark + 1
        elif number == FIRST_AVAILABLE:
            number = self.log.first_available or 1
        if number > mark:
            return Reach.WAIT if number <= self.end() + 1 or not self.end_known else Reach.OUT_OF_BOUNDS
        if number < self.log.first_available:
            return Reach.OUT_OF_BOUNDS if self.end_known else Reach.WAIT  # this answer would show the mark
        return self._read(number, max_bytes, mark)

    def can_tell(self, number: int) -> bool:
        """Whether a follower can answer a read of this number. For numbers outside of its log only the leader
        can, whose log may begin and end elsewhere."""
        first = self.log.first_available
        return number in (END, FIRST_AVAILABLE) or first <= number <= self.log.tail.last + 1

    def fetch_as_follower(self, number: int, max_bytes: int) -> "FileRange | Reach":
        """As `fetch`, from a follower, up to its own high-water mark. UNREADABLE also when not `can_tell`.
        Call it only when `follower_reads` allows it."""
        if not self.can_tell(number):
            return Reach.UNREADABLE
        if number == END:
            return Reach.WAIT
        if number == FIRST_AVAILABLE:
            number = self.log.first_available or 1
        through = self.high_water_mark
        return Reach.WAIT if number > through else self._read(number, max_bytes, through)

    def _read(self, number: int, max_bytes: int, mark: int) -> "FileRange | Reach":
        try:
            stretch = self.log.read(number, max_bytes, mark)
        except StorageError as error:
            self.note_error(error)
            return Reach.UNREADABLE
        return Reach.WAIT if stretch is None else stretch

    def next_number(self, number: int) -> int:
        """The number that a consumer without messages waits for."""
        if number == END:
            # A follower's mark may be behind its leader's, and its log's end may be truncated.
            end_known_at = 0 if self.role is Role.FOLLOWER else self.end_known_at
            return max(self.high_water_mark, end_known_at) + 1
        return (self.log.first_available or 1) if number == FIRST_AVAILABLE else number

    # --- the end of a tick -----------------------------------------------------------------------

    def write(self) -> bool:
        """Writes the staged batches. Returns False when none is stored; their producers have the error
        then."""
        self.touched = False
        try:
            self.stage_found()
            self.log.tail.write()
        except StorageError as error:
            self._drop_staged(Refusal.STORAGE)
            self.note_error(error)
            return False
        except Exception as bug:
            # Staged batches lie in the receive buffer, which the next tick overwrites: they must be dropped.
            self.log.tail.drop()
            self.log.fail(f"a bug of ours: {bug!r}")
            self._drop_staged(Refusal.STORAGE)
            self.note_state()
            raise
        metrics = self.metrics
        metrics.produced_batches += self.staged_batches
        metrics.produced_bytes += self.staged_bytes
        metrics.produced_messages += self.staged_messages
        if self.staged_batches:  # without staged batches no mark would ever remove the entry
            self.note_uncommitted(self.log.tail.last, self.staged_bytes)
        self.staged_batches = self.staged_bytes = self.staged_messages = 0
        return True

    def note_uncommitted(self, last: int, size_bytes: int) -> None:
        """Remembers a write until the mark passes it. Beyond UNCOMMITTED_WRITES the last ones count as one.
        Drops entries of numbers that were truncated and are given out again."""
        uncommitted = self.uncommitted
        while uncommitted and uncommitted[-1][0] >= last:
            uncommitted.pop()
        held = uncommitted.pop()[1] if len(uncommitted) >= UNCOMMITTED_WRITES else 0
        uncommitted.append((last, held + size_bytes))

    def _drop_staged(self, error: Refusal) -> None:
        self.staged_batches = self.staged_bytes = self.staged_messages = 0
        self.acks.drop_staged(error, self.log.tail.written)
        acks = self.found.drop()
        if acks is not None:
            acks.complete(0, error, 0, 0)

    def advance(self, mark: int) -> None:
        """Raises the high-water mark and calls the waiters. `acknowledge` answers the producers."""
        if mark <= self.high_water_mark:
            return
        assert mark <= self.log.tail.written, "a high-water mark beyond the log"
        self.high_water_mark = self.log.high_water_mark = mark
        self.log.segments.changed = True  # so that the checkpoint gets the new mark
        appended = 0
        uncommitted = self.uncommitted
        while uncommitted and uncommitted[0][0] <= mark:
            appended += uncommitted.popleft()[1]
        if self.waiters:
            for waiter in tuple(self.waiters):
                if not waiter.done:  # an earlier waiter's read may have found damage, which ends all waits
                    waiter.advanced(self, appended)
        if not self.end_known and mark >= self.end_known_at:
            self.end_known = True
            for waiter in tuple(self.waiters):
                if not waiter.done:
                    waiter.end_known(self)

    def acknowledge(self) -> None:
        """Answers the producers whose messages the high-water mark has passed. Call it at the end of a
        tick."""
        acks = self.acks
        acks.end_tick(self.log.tail.last, self.high_water_mark)
        if acks.written:
            acks.answer_written(self._flushed())
        if (acks.waiting or acks.written) and self.log.health.state is not LogState.ACTIVE:
            self.note_state()  # the log failed after the append: no later event would answer these producers

    def acknowledge_written(self) -> None:
        """Answers the producers that wait for this leader alone, as far as it has flushed its log."""
        if self.acks.written:
            self.acks.answer_written(self._flushed())

    def _flushed(self) -> int:
        """The last number that this replica has, by its own flush."""
        return self.log.synced if self.flush_disk else self.log.tail.written

    # --- settings and trouble --------------------------------------------------------------------

    def set_flush_disk(self, flush_disk: bool) -> None:
        """Sets whether messages must be fsynced to be committed. If not, answers producers that waited for
        the fsync."""
        self.flush_disk = flush_disk
        self.acknowledge_written()
        if not flush_disk and not self.refusal and self.leadership is None:
            self.advance(self.log.tail.written)
            self.acks.answer(self.high_water_mark)

    def set_in_sync(self, in_sync: int, wanted: int) -> None:
        """Takes the number of in-sync replicas, and the number wanted for an append to be taken."""
        self.in_sync = in_sync >= wanted
        self.note_state()

    def note_error(self, error: StorageError) -> None:
        """Counts and reports an error of the log, and takes over the log's state."""
        self.metrics.storage_errors += 1
        self.metrics.refused[error.reason] += 1
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            self.note_state()
        self.on_failure(self, error)

    def note_state(self) -> None:
        """Takes over the role and the log's state: a failed log takes no appends, and a damaged one is not
        read either."""
        state = self.log.health.state
        if self.role is not Role.LEADER:
            elsewhere = self.role is Role.FOLLOWER
            self._stop(Refusal.OTHER_LEADER if elsewhere else Refusal.NO_LEADER, unreadable=True)
        elif state is LogState.ACTIVE:
            self.refusal = Refusal.NONE if self.in_sync else Refusal.NOT_ENOUGH_REPLICAS
            self.unreadable = False
        elif state is LogState.FAILED:
            self._stop(Refusal.STORAGE, unreadable=False)
        else:
            self._stop(Refusal.DAMAGED, unreadable=True)

    # --- roles -----------------------------------------------------------------------------------

    def become(self, role: Role, leader_epoch: int, leadership: LeaderRole | None = None) -> None:
        """Changes this replica's role, with all effects of that.

        leader_epoch: the epoch of the new role; a follower's never falls. leadership: the leader's part, when
        it has followers. A former leader's staged batches are dropped; the written ones may be committed by
        the next leader, and their producers get NOT_ACKNOWLEDGED_IN_TIME.
        """
        led = self.role is Role.LEADER
        leads = role is Role.LEADER
        self.role = role
        if leads or leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
        if self.leadership is not None:
            self.leadership.end()
        self.leadership = leadership
        if leads:
            self.metrics.began_leading += not led
            self.led_epoch = leader_epoch
            # Without followers the log's end now is the end: no other broker may have more.
            self.know_end_at(self.log.tail.written if leadership is None else leadership.start_end)
        elif led:
            self.metrics.ended_leading += 1
            self.log.tail.drop()
            # After this tick's write `acks.staged` is in the log already, though not answered.
            self._drop_staged(Refusal.NO_LEADER if self.touched else Refusal.NOT_ACKNOWLEDGED_IN_TIME)
            self.uncommitted.clear()
        self.note_state()

    def believe(self, leader_epoch: int) -> None:
        """Becomes a follower in a leader epoch that a push brought, higher than any known so far."""
        assert leader_epoch > self.leader_epoch, "the epoch is not higher than the known one"
        self.become(Role.FOLLOWER, leader_epoch)

    def remove(self) -> None:
        """Ends all roles and answers all waiting requests, when the topic was deleted or the replica moved
        away."""
        if self.leadership is not None:
            self.leadership.end()
            self.leadership = None
        self._stop(Refusal.UNKNOWN_PARTITION, unreadable=True)
        self._drop_staged(Refusal.UNKNOWN_PARTITION)

    def _stop(self, refusal: Refusal, *, unreadable: bool) -> None:
        self.refusal = refusal
        self.unreadable = unreadable
        # Written batches may be lost by a restart, or be committed by the next leader.
        self.acks.drop_waiting(Refusal.NOT_ACKNOWLEDGED_IN_TIME)
        if unreadable:
            for waiter in tuple(self.waiters):
                if not waiter.done:
                    waiter.lost(self)


_VERDICT_ERRORS = {
    Outcome.GAP: Refusal.OUT_OF_ORDER_SEQUENCE,
    Outcome.STALE_EPOCH: Refusal.STALE_PRODUCER_EPOCH,
    Outcome.UNKNOWN: Refusal.UNKNOWN_PRODUCER,
    Outcome.FORGOTTEN: Refusal.FORGOTTEN_PRODUCER,
    Outcome.TOO_MANY: Refusal.TOO_MANY_PRODUCERS,
}
