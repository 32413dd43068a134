"""The shell around the Raft core: persist, then send, then apply, here and nowhere else.

Runs on an event loop's thread; the disk has a thread of its own. One Ready is under way at a time, and what
comes meanwhile gathers for the next (group commit). What promises nothing that the disk doesn't hold yet, a
leader's appends and heartbeats above all, leaves while the disk works: its own acknowledgement counts only
when the fsync has returned (`Raft.advance`).
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tank_controller.raft.core import Raft
from tank_controller.raft.errors import MessageRefusedError, OverloadedError, ProposalRefusedError
from tank_controller.raft.membership import Change
from tank_controller.raft.messages import (
    Entry,
    EntryKind,
    HardState,
    Message,
    NodeId,
    ReadState,
    Ready,
    Snapshot,
)
from tank_controller.raft.snapshots import make
from tank_controller.raft.state import Role
from tank_controller.raft_disk import Disk
from tank_controller.raft_replay import StorageFullError

Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

_log = logging.getLogger("tank.raft")


class OutcomeUnknownError(Exception):
    """Leadership, or the process, ended before the outcome was known: it may be in the log or not.

    Commands are idempotent: ask the leader again.
    """


Done = Callable[[Result | Exception], None]
"""Gets what `apply` returned; or a ProposalRefusedError: nothing was done; or an OutcomeUnknownError."""


class StateMachine(Protocol[ResultOut]):
    """What the log is for. Called by the loop; `snapshot` from the disk's, while nothing applies."""

    def apply(self, index: int, data: bytes) -> ResultOut:
        """One committed command. Indexes rise, with gaps: some entries are Raft's own."""

    def snapshot(self) -> bytes: ...

    def restore(self, data: bytes) -> None: ...


class Storage(Protocol):
    """As RaftStorage has it."""

    def persist(
        self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[Entry]
    ) -> None: ...

    def save_snapshot(self, snapshot: Snapshot) -> None: ...

    @property
    def snapshot_due(self) -> bool: ...

    def close(self, commit: int = 0) -> None: ...


class Transport(Protocol):
    """The way to the other controllers."""

    def send(self, messages: Sequence[Message]) -> None:
        """May lose, delay, repeat and reorder them; must not wait."""


@dataclass(slots=True)
class _Waiting(Generic[Result]):
    """Proposals and reads whose outcome isn't known yet."""

    proposals: dict[int, tuple[int, Done[Result]]] = field(default_factory=dict)
    """By index: the term that its entry has. Bounded by the core's uncommitted bytes."""
    reads: dict[int, Callable[[Exception | None], None]] = field(default_factory=dict)
    """By read id, unconfirmed."""
    confirmed: list[tuple[int, Callable[[Exception | None], None]]] = field(default_factory=list)
    """(index, done): until that index is applied."""


class RaftDriver(Generic[Result]):
    """One controller's Raft, running. All calls from the event loop's thread."""

    def __init__(
        self,
        raft: Raft,
        storage: Storage,
        transport: Transport,
        machine: StateMachine[Result],
        disk: Disk,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        """`on_fatal` gets an error of the disk once, and must end the process: it is never tried again."""
        self.raft = raft
        self.failed: str | None = None
        """Why nothing is taken any more."""
        self.full: str | None = None
        """Why nothing can be written at the moment; tried again at each tick."""
        self.refused: Counter[str] = Counter()
        """Messages that were refused, by the type of the error."""
        self.applied = 0
        """The state machine holds everything up to here, and nothing behind it."""
        self._storage = storage
        self._transport = transport
        self._machine = machine
        self._disk = disk
        self._on_fatal = on_fatal
        self._waiting: _Waiting[Result] = _Waiting()
        self._busy = False
        """The disk works: the core's next Ready, and the state machine, stand still."""
        self._retry: Callable[[], None] | None = None
        self._when_stopped: Callable[[], None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Brings the state machine to what is known to be committed, and begins: a voter who is alone leads
        at once. Raises what `restore` raises.
        """
        if self.raft.snapshot is not None:
            self._machine.restore(self.raft.snapshot.data)
            self.applied = self.raft.snapshot.meta.index
        self.raft.campaign_alone()
        self._go_on()

    @property
    def idle(self) -> bool:
        """Everything in the log is applied: what the state says now, it says of the next entry, too."""
        return self.applied == self.raft.log.last_index

    @property
    def ready(self) -> bool:
        """It leads, and its state holds all that was ever committed."""
        return self.raft.role is Role.LEADER and self.raft.own_term_applied

    @property
    def proposals_waiting(self) -> int:
        return len(self._waiting.proposals)

    # --- What others ask for ---

    def propose(self, data: bytes, done: Done[Result]) -> None:
        """`done` is called when the entry is durable at a majority and applied here; or with an error."""
        try:
            self._must_run()
            index, term = self.raft.propose(data)
        except ProposalRefusedError as error:
            done(error)
            return
        self._waiting.proposals[index] = term, done
        self._go_on()

    def change(self, change: Change, done: Done[Result | None]) -> None:
        """A step of membership; `done(None)` when it is committed."""
        try:
            self._must_run()
            index, term = self.raft.propose_change(change)
        except ProposalRefusedError as error:
            done(error)
            return
        self._waiting.proposals[index] = term, done
        self._go_on()

    def read(self, done: Callable[[Exception | None], None]) -> None:
        """`done(None)` when the state machine holds everything that was committed when this was called."""
        try:
            self._must_run()
            self._waiting.reads[self.raft.read()] = done
        except ProposalRefusedError as error:
            done(error)
            return
        self._go_on()

    def transfer_leadership(self, target: NodeId) -> None:
        """ProposalRefusedError. Whether it came to be shows in who leads."""
        self.raft.transfer_leadership(target)
        self._go_on()

    def receive(self, message: Message) -> None:
        """From another controller. What is refused is counted and logged; it harms nobody."""
        if self.failed is not None or self._stopped:
            return
        try:
            self.raft.step(message)
        except MessageRefusedError as error:
            kind = type(error).__name__
            self.refused[kind] += 1
            if self.refused[kind] in (1, 10, 100) or self.refused[kind] % 1000 == 0:
                _log.warning("refused a message (%d of this kind): %s", self.refused[kind], error)
        self._go_on()

    def tick(self) -> None:
        """Time passes."""
        if self.failed is not None or self._stopped:
            return
        self.raft.tick()
        if self._retry is not None:
            retry, self._retry = self._retry, None
            retry()
        self._go_on()

    def stop(self, done: Callable[[], None]) -> None:
        """Ends the log in good order, then calls `done`. Takes nothing any more."""
        assert self._when_stopped is None, "stopped twice"
        self._when_stopped = done
        if self.failed is not None:
            self._disk.close()
            done()
            return
        self._go_on()

    def _must_run(self) -> None:
        if self.failed is not None:
            raise OverloadedError(self.failed)
        if self.full is not None:
            raise OverloadedError(self.full)
        if self._when_stopped is not None:
            raise OverloadedError("the controller is stopping: ask another one")

    # --- Persist, send, apply ---

    def _go_on(self) -> None:
        """Does what the core has ready, until the disk has to work or nothing is left."""
        if self.failed is not None or self._stopped:
            return
        if self._busy:
            self._transport.send(self.raft.early())
            return
        while not self._busy and self.failed is None and (ready := self.raft.ready()):
            self._transport.send(ready.early)
            if ready.must_persist:
                self._persist(ready)
            else:
                self._persisted(ready)
        if self._waiting.proposals and self.raft.role is not Role.LEADER and self.failed is None:
            self._give_up("this controller doesn't lead any more")
        if not self._busy and self._storage.snapshot_due and self.full is None:
            self._save_snapshot()
        if not self._busy and self._when_stopped is not None:
            self._close()

    def _persist(self, ready: Ready) -> None:
        def work() -> None:
            self._storage.persist(ready.hard_state, ready.snapshot, ready.entries)

        def then(error: Exception | None) -> None:
            if isinstance(error, StorageFullError):
                self._wait_for_room(error, lambda: self._persist(ready))
                return
            self._busy = False
            self.full = None
            if error is not None:
                self._fail(error)
                return
            self._persisted(ready)
            self._go_on()

        self._busy = True
        self._disk.run(work, then)

    def _wait_for_room(self, error: StorageFullError, again: Callable[[], None]) -> None:
        """The Ready stays under way: nothing that depends on it leaves before there is room."""
        if self.full is None:
            _log.error("%s", error)
        self.full = str(error)
        self._retry = again
        self._give_up(self.full)  # what waits is written when there is room, but nobody knows when
        if self._when_stopped is not None:
            self._retry = None
            self._close()

    def _persisted(self, ready: Ready) -> None:
        self.raft.advance(ready)
        self._transport.send(ready.late)
        if ready.snapshot is not None:
            self._machine.restore(ready.snapshot.data)
            self.applied = ready.snapshot.meta.index
        for entry in ready.committed:
            if self.failed is None:
                self._apply(entry)
        for read in ready.reads:
            self._take_read(read)
        self._answer_reads()

    def _apply(self, entry: Entry) -> None:
        assert entry.index == self.applied + 1, "entries are applied in order, each once"
        result: Result | Exception | None = None
        if entry.kind is EntryKind.COMMAND:
            try:
                result = self._machine.apply(entry.index, entry.data)
            except Exception as error:
                self._fail(error)  # to go on would be to make another state than the others
                return
        self.applied = entry.index
        term, done = self._waiting.proposals.pop(entry.index, (0, None))
        if done is None:
            return
        if term != entry.term:
            result = OutcomeUnknownError("another leader's entry took its place: ask again")
        _guarded(lambda: done(result))  # type: ignore[arg-type] # None is a change's result

    def _take_read(self, read: ReadState) -> None:
        done = self._waiting.reads.pop(read.read_id, None)
        if done is None:
            return
        if read.index is None:
            _guarded(lambda: done(OutcomeUnknownError("the read was not confirmed: ask again")))
        else:
            self._waiting.confirmed.append((read.index, done))

    def _answer_reads(self) -> None:
        due = [done for index, done in self._waiting.confirmed if index <= self.applied]
        if not due:
            return
        self._waiting.confirmed = [item for item in self._waiting.confirmed if item[0] > self.applied]
        for done in due:
            _guarded(lambda: done(None))  # noqa: B023 - called at once

    def _save_snapshot(self) -> None:
        # The state stands still while the disk works. Making the bytes of a large one takes seconds, which
        # the event loop has better uses for.
        index, term, configuration = self.raft.snapshot_point()
        made: list[Snapshot] = []

        def work() -> None:
            made.append(make(index, term, configuration, self._machine.snapshot()))
            self._storage.save_snapshot(made[0])

        def then(error: Exception | None) -> None:
            self._busy = False
            if error is None:
                self.raft.compacted(made[0])
            elif isinstance(error, StorageFullError):
                self.full, self._retry = str(error), self._look_for_room
                _log.error("no snapshot of the metadata: %s", error)
            else:
                self._fail(error)
                return
            self._go_on()

        self._busy = True
        self._disk.run(work, then)

    def _look_for_room(self) -> None:
        self.full = None  # proposals are refused while it is set: nothing would be written ever again

    def _close(self) -> None:
        self._busy = True
        commit = self.raft.log.commit

        def then(error: Exception | None) -> None:
            if error is not None:
                _log.error("the log was not ended in good order: %s", error)
            self._stopped = True
            self._give_up("the controller stopped")
            self._disk.close()
            assert self._when_stopped is not None
            self._when_stopped()

        self._disk.run(lambda: self._storage.close(commit), then)

    def _fail(self, error: Exception) -> None:
        """Whatever the disk said, it isn't tried again: nothing is sent or applied from here on."""
        self.failed = str(error)
        _log.critical("the controller has to end: %s", error)
        self._give_up(self.failed)
        self._on_fatal(error)
        if self._when_stopped is not None:
            self._when_stopped()

    def _give_up(self, why: str) -> None:
        waiting, self._waiting = self._waiting, _Waiting()
        for _, done in waiting.proposals.values():
            _guarded(lambda: done(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once
        if self.failed is None and not self._stopped:
            self._waiting.reads, self._waiting.confirmed = waiting.reads, waiting.confirmed
            return
        for read in [*waiting.reads.values(), *(done for _, done in waiting.confirmed)]:
            _guarded(lambda: read(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once


def _guarded(call: Callable[[], None]) -> None:
    """What others do with an outcome must not keep the rest from theirs."""
    try:
        call()
    except Exception:
        _log.exception("an outcome could not be used")
