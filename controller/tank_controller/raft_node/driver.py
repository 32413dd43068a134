"""Drives the Raft core: this file alone persists, then sends, then applies.

Runs on an event loop's thread; the disk has a thread of its own. One RaftReady is under way at a time, and
new proposals gather for the next one (group commit). Messages that don't depend on the disk, a leader's
appends and heartbeats above all, are sent while the disk works: the leader counts its own acknowledgement
only when the fsync has returned (`Raft.advance`).
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from tank_controller.raft.core import Raft
from tank_controller.raft.errors import MessageRefusedError, OverloadedError, ProposalRefusedError
from tank_controller.raft.membership import Change
from tank_controller.raft.messages import (
    Configuration,
    EntryKind,
    LogEntry,
    NodeId,
    RaftMessage,
    RaftReady,
    ReadState,
    Snapshot,
)
from tank_controller.raft.snapshots import make
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.disk_thread import DiskWork, DiskWorker, Storage
from tank_controller.raft_node.figures import RaftFigures
from tank_controller.raft_node.replay import StorageFullError

Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

HANGING_ELECTIONS = 4
"""For how many election timeouts a disk may work on one piece before leadership moves: an fsync on a busy
machine takes seconds now and then, and a new leader has to wait for the brokers."""
SNAPSHOT_AGAIN_TICKS = 100
"""How many ticks pass before the next attempt to write a snapshot to a full disk."""
_PIECES_IN_ONE_GO = 2
"""How many pieces of a snapshot are made at each tick; the state of a small cluster is one piece."""

_log = logging.getLogger("tank.raft")


class OutcomeUnknownError(Exception):
    """Leadership, or the process, ended before the outcome was known: the command may be in the log or not.

    Commands are idempotent: ask the leader again.
    """


Done = Callable[[Result | Exception], None]
"""Called with the result of `apply`, a ProposalRefusedError (nothing was done), or an OutcomeUnknownError."""
ReadDone = Callable[[Exception | None], None]


class StateMachine(Protocol[ResultOut]):
    """The consumer of committed entries. All calls on the loop's thread."""

    def apply(self, index: int, data: bytes) -> ResultOut:
        """Applies one committed command. Indexes rise, with gaps where Raft has entries of its own."""

    def snapshot(self) -> Iterator[bytes]:
        """The present state in pieces; entries may be applied between the pieces. One snapshot at a time."""

    def restore(self, data: bytes) -> None: ...


class RaftTransport(Protocol):
    """Sends messages to the other controllers."""

    def send(self, messages: Sequence[RaftMessage]) -> None:
        """May lose, delay, repeat and reorder messages; must not wait."""


class RaftDriver(Generic[Result]):
    """One controller's Raft, running. All calls from the event loop's thread."""

    def __init__(
        self,
        raft: Raft,
        storage: Storage,
        transport: RaftTransport,
        machine: StateMachine[Result],
        disk: DiskWorker,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        """`on_fatal` gets an error of the disk once, and must end the process: no write is tried again."""
        self.raft = raft
        self.failed: str | None = None
        """Why the driver has stopped; None while it runs."""
        self.figures = RaftFigures()
        self.applied = 0
        """The index of the last entry applied to the state machine."""
        self._storage = storage
        self._transport = transport
        self._machine = machine
        self._disk = DiskWork(disk, self._on_full)
        """While the disk works, the core's next RaftReady and the state machine wait."""
        self._on_fatal = on_fatal
        self._waiting: _Outcomes[Result] = _Outcomes()
        self._making: _SnapshotMaking | None = None
        """The snapshot that is being made, or is not on the disk yet."""
        self._no_snapshot_ticks = 0
        """The number of ticks until a snapshot is tried again, because the last one found no room."""
        self._when_stopped: Callable[[], None] | None = None
        self._stopped = False
        self._going = self._again = False
        """Whether `_go_on` is running, and whether it has to run once more."""

    def start(self) -> None:
        """Restores the snapshot and begins; the only voter leads at once. Raises the errors of `restore`."""
        if self.raft.snapshot is not None:
            self._machine.restore(self.raft.snapshot.data)
            self.applied = self.raft.snapshot.meta.index
        self.raft.campaign_alone()
        self._go_on()

    @property
    def full(self) -> str | None:
        """Why nothing can be written now; None while there is room. Tried again at each tick."""
        return self._disk.full

    @property
    def hangs(self) -> bool:
        """Whether the disk has worked on one thing for so long that leadership should move."""
        patience = self.raft.settings.election_ticks * HANGING_ELECTIONS
        return self.full is None and self._disk.busy_ticks >= patience

    @property
    def trouble(self) -> str | None:
        """Why this controller can't commit now; None when all is well."""
        hanging = "its disk has not finished a write for too long: check it" if self.hangs else None
        return self.failed or self.full or hanging

    @property
    def idle(self) -> bool:
        """Whether all entries are applied: then a check against the state is valid for the next entry."""
        return self.applied == self.raft.log.last_index

    @property
    def ready(self) -> bool:
        """Whether this controller leads, and its state holds all that was ever committed."""
        return self.raft.role is RaftRole.LEADER and self.raft.own_term_applied

    @property
    def proposals_waiting(self) -> int:
        return len(self._waiting.proposals)

    @property
    def snapshot_index(self) -> int:
        """The last entry in the newest snapshot; 0 before the first."""
        return 0 if self.raft.snapshot is None else self.raft.snapshot.meta.index

    # --- What others ask for ---

    def propose(self, data: bytes, done: Done[Result]) -> None:
        """Proposes a command; `done` is called when it is committed and applied here, or with an error."""
        self._append(lambda: self.raft.propose(data), done)

    def change(self, change: Change, done: Done[Result | None]) -> None:
        """Proposes a membership change; `done(None)` is called when it is committed."""
        self._append(lambda: self.raft.propose_change(change), done)

    def _append(self, propose: Callable[[], tuple[int, int]], done: Done[Result]) -> None:
        """Puts an entry into the leader's log; `propose` returns its index and term, or refuses."""
        try:
            self._must_run()
            index, term = propose()
        except ProposalRefusedError as error:
            self.figures.refused_proposals[type(error).__name__] += 1
            done(error)
            return
        self._waiting.proposals[index] = term, done
        self._go_on()

    def read(self, done: ReadDone) -> None:
        """Calls `done(None)` when the state machine holds all that was committed before this call."""
        try:
            self._must_run()
            self._waiting.reads[self.raft.read()] = done
        except ProposalRefusedError as error:
            self.figures.refused_proposals[type(error).__name__] += 1
            done(error)
            return
        self._go_on()

    def transfer_leadership(self, target: NodeId) -> None:
        """Asks for a transfer of leadership; `raft.leader` shows its success. Raises ProposalRefusedError."""
        self.raft.transfer_leadership(target)
        self._go_on()

    def receive(self, message: RaftMessage) -> None:
        """Takes another controller's message; one that the core refuses is counted, logged and dropped."""
        if self.failed is not None or self._stopped:
            return
        try:
            self.raft.step(message)
        except MessageRefusedError as error:
            refused, kind = self.figures.refused_messages, type(error).__name__
            refused[kind] += 1
            if refused[kind] in (1, 10, 100) or refused[kind] % 1000 == 0:
                _log.warning("refused a message (%d of this kind): %s", refused[kind], error)
        self._go_on()

    def tick(self) -> None:
        """One tick of the clock."""
        if self.failed is not None or self._stopped:
            return
        self.raft.tick()
        self._disk.tick()
        self._no_snapshot_ticks = max(0, self._no_snapshot_ticks - 1)
        if self._making is not None and not self._making.whole:
            self._making.go_on()
        self._look_at_the_disk()
        self._go_on()

    def _look_at_the_disk(self) -> None:
        """Hands leadership over when the disk is full or hangs, because failover waits for commits."""
        no_room = self.full is not None and self._disk.busy_ticks >= self.raft.settings.election_ticks
        if not no_room and not self.hangs:
            return
        if self.raft.role is not RaftRole.LEADER:
            self._waiting.give_up_proposals("this controller doesn't lead any more")
        elif self.raft.transfer_target is None and (heirs := self.heirs()):
            _log.error("hands leadership over to %s: the disk has not done its work for too long", heirs[0])
            with contextlib.suppress(ProposalRefusedError):
                self.raft.transfer_leadership(heirs[0])

    def heirs(self) -> list[NodeId]:
        """The voters that answer, longest log first."""
        voters = self.raft.configuration.voters
        there = [(e.matched, node) for node, e in self.raft.progress.items() if e.active and node in voters]
        return [node for _, node in sorted(there, reverse=True)]

    def stop(self, done: Callable[[], None]) -> None:
        """Ends the log in good order, then calls `done`. All later proposals are refused."""
        assert self._when_stopped is None, "stopped twice"
        self._when_stopped = done
        if self.failed is not None:
            self._disk.close()
            done()
        elif self._disk.waits_for_room:
            self._stop_without_room()  # at once, because no further tick may come
        else:
            self._go_on()

    def _must_run(self) -> None:
        if self.failed is not None:
            raise OverloadedError(self.failed)
        if self.full is not None:
            raise OverloadedError(self.full)
        if self._when_stopped is not None:
            raise OverloadedError("the controller is stopping: ask another one")

    # --- Persist, send, apply ---

    def _go_on(self, persisted: RaftReady | None = None) -> None:
        """Does what the core has ready, until the disk has to work or nothing is left.

        What a callback proposes waits until this RaftReady is applied.
        """
        self._again = True
        if self._going:
            assert persisted is None, "one Ready is under way at a time"
            return
        self._going = True
        try:
            if persisted is not None:
                self._persisted(persisted)
            while self._again:
                self._again = False
                self._do_what_is_ready()
        finally:
            self._going = False

    def _do_what_is_ready(self) -> None:
        self.figures.look(self.raft)
        if self.failed is not None or self._stopped:
            return
        if self._disk.busy:
            self._transport.send(self.raft.early())
            return
        while not self._disk.busy and self.failed is None and (ready := self.raft.ready()):
            self._transport.send(ready.early)
            if ready.must_persist:
                self._persist(ready)
            else:
                self._persisted(ready)
        if self._waiting.proposals and self.raft.role is not RaftRole.LEADER and self.failed is None:
            self._waiting.give_up_proposals("this controller doesn't lead any more")
        self._make_a_snapshot()
        if not self._disk.busy and self._when_stopped is not None:
            self._close(self.raft.log.commit)

    def _persist(self, ready: RaftReady) -> None:
        def work() -> None:
            self.figures.timed(lambda: self._storage.persist(ready.hard_state, ready.snapshot, ready.entries))

        def then(error: Exception | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._go_on(ready)

        # On a full disk the RaftReady stays under way: no message that needs it leaves before there is room.
        self._disk.run(work, then, waits_for_room=True)

    def _on_full(self, why: str) -> None:
        self._waiting.give_up_proposals(why)  # written when there is room: the outcome is unknown
        if self._when_stopped is not None:
            self._stop_without_room()

    def _persisted(self, ready: RaftReady) -> None:
        self.raft.advance(ready)
        self._transport.send(ready.late)
        if ready.snapshot is not None:
            self._restore(ready.snapshot)
        for entry in ready.committed:
            if self.failed is None:
                self._apply(entry)
        for read in ready.reads:
            self._waiting.confirmed(read)
        self._waiting.answer_reads(self.applied)

    def _restore(self, snapshot: Snapshot) -> None:
        try:
            self._machine.restore(snapshot.data)
        except Exception as error:
            self._fail(error)  # a newer version wrote it: no later entry may be applied to the old state
            return
        self.applied = snapshot.meta.index
        self._making = None

    def _apply(self, entry: LogEntry) -> None:
        assert entry.index == self.applied + 1, "entries are applied in order, each once"
        result: Result | Exception | None = None
        if entry.kind is EntryKind.COMMAND:
            try:
                result = self._machine.apply(entry.index, entry.data)
            except Exception as error:
                self._fail(error)  # going on would make this state differ from the other controllers'
                return
        self.applied = entry.index
        self._waiting.applied(entry, result)

    def _make_a_snapshot(self) -> None:
        """Makes a snapshot, some pieces at each tick: a large one takes a minute."""
        if self._disk.busy or self._no_snapshot_ticks or self.failed is not None:
            return
        if self._making is None and self._storage.snapshot_due:
            point = self.raft.snapshot_point()
            assert point[0] == self.applied, "a snapshot is of the state after its entry"
            self._making = _SnapshotMaking(point, self._machine.snapshot())
            self._making.go_on()
        if self._making is not None and self._making.whole:
            self._save_snapshot(self._making)

    def _save_snapshot(self, making: "_SnapshotMaking") -> None:
        made: list[Snapshot] = []

        def work() -> None:
            made.append(making.snapshot())
            self._storage.save_snapshot(made[0])

        def then(error: Exception | None) -> None:
            if error is None:
                self._making = None
                self.raft.compacted(made[0])
            elif isinstance(error, StorageFullError):
                self._no_snapshot_ticks = SNAPSHOT_AGAIN_TICKS
                _log.error("no snapshot of the metadata: %s", error)
            else:
                self._fail(error)
                return
            self._go_on()

        self._disk.run(work, then)

    def _stop_without_room(self) -> None:
        """Stops although the RaftReady under way is not stored: no message that needs it was sent."""
        self._disk.forget_what_waits_for_room()
        self._close(0)  # committed entries of that RaftReady may replace entries on the disk

    def _close(self, commit: int) -> None:
        """Closes the storage. `commit`: the disk holds all committed entries up to this index, or 0."""

        def then(error: Exception | None) -> None:
            if error is not None:
                _log.error("the end of the log was not written (%s): the next start recovers", error)
            self._stopped = True
            self._waiting.give_up("the controller stopped")
            self._disk.close()
            assert self._when_stopped is not None
            self._when_stopped()

        self._disk.run(lambda: self._storage.close(commit), then)

    def _fail(self, error: Exception) -> None:
        """Ends the driver's work after an error that must not be tried again."""
        self.failed = str(error)
        _log.critical("the controller has to end: %s", error)
        self._waiting.give_up(self.failed)
        self._on_fatal(error)
        if self._when_stopped is not None:
            self._when_stopped()


class _Outcomes(Generic[Result]):
    """The proposals and reads whose outcome is not known yet."""

    def __init__(self) -> None:
        self.proposals: dict[int, tuple[int, Done[Result]]] = {}
        """By index: the entry's term, and the callback. Bounded by the core's uncommitted bytes."""
        self.reads: dict[int, ReadDone] = {}
        """The unconfirmed reads, by read id."""
        self._confirmed: list[tuple[int, ReadDone]] = []
        """(index, callback): confirmed reads that wait until the index is applied."""

    def applied(self, entry: LogEntry, result: Result | Exception | None) -> None:
        """Gives the result to the proposal of this entry, where it was made here."""
        term, done = self.proposals.pop(entry.index, (0, None))
        if done is None:
            return
        if term != entry.term:
            result = OutcomeUnknownError("another leader has replaced the entry: try again")
        _guarded(lambda: done(result))  # type: ignore[arg-type] # None is a change's result

    def confirmed(self, read: ReadState) -> None:
        """Takes the index at which a read may be answered; None: the read has failed."""
        done = self.reads.pop(read.read_id, None)
        if done is None:
            return
        if read.index is None:
            _guarded(lambda: done(OutcomeUnknownError("the read was not confirmed: ask again")))
        else:
            self._confirmed.append((read.index, done))

    def answer_reads(self, applied: int) -> None:
        """Answers the confirmed reads up to this applied index."""
        due = [done for index, done in self._confirmed if index <= applied]
        if not due:
            return
        self._confirmed = [item for item in self._confirmed if item[0] > applied]
        for done in due:
            _guarded(lambda: done(None))  # noqa: B023 - called at once

    def give_up_proposals(self, why: str) -> None:
        """Ends all proposals with an unknown outcome."""
        proposals, self.proposals = self.proposals, {}
        for _, done in proposals.values():
            _guarded(lambda: done(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once

    def give_up(self, why: str) -> None:
        """Ends all proposals and reads with an unknown outcome."""
        self.give_up_proposals(why)
        reads = [*self.reads.values(), *(done for _, done in self._confirmed)]
        self.reads, self._confirmed = {}, []
        for done in reads:
            _guarded(lambda: done(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once


class _SnapshotMaking:
    """A snapshot of the state at one entry; the disk's thread joins its pieces."""

    def __init__(self, point: tuple[int, int, Configuration], pieces: Iterator[bytes]) -> None:
        """`point`: index, term and configuration of the state."""
        self._point = point
        self._pieces = pieces
        self._made: list[bytes] = []
        self.whole = False
        """Whether all pieces are there."""

    def go_on(self) -> None:
        """Makes some more pieces."""
        for _ in range(_PIECES_IN_ONE_GO):
            piece = next(self._pieces, None)
            if piece is None:
                self.whole = True
                return
            self._made.append(piece)

    def snapshot(self) -> Snapshot:
        """The joined snapshot; `whole` must be true."""
        assert self.whole
        return make(*self._point, b"".join(self._made))


def _guarded(call: Callable[[], None]) -> None:
    """Calls a callback; an exception in it is logged, so that the other callbacks get their outcomes."""
    try:
        call()
    except Exception:
        _log.exception("a callback failed on its outcome")
