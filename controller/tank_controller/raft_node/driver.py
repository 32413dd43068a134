"""The shell around the Raft core: persist, then send, then apply, here and nowhere else.

Runs on an event loop's thread; the disk has a thread of its own. One Ready is under way at a time, and what
comes meanwhile gathers for the next (group commit). What promises nothing that the disk doesn't hold yet, a
leader's appends and heartbeats above all, leaves while the disk works: its own acknowledgement counts only
when the fsync has returned (`Raft.advance`).
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from tank_controller.raft.core import Raft
from tank_controller.raft.errors import MessageRefusedError, OverloadedError, ProposalRefusedError
from tank_controller.raft.membership import Change
from tank_controller.raft.messages import (
    Entry,
    EntryKind,
    Message,
    NodeId,
    Ready,
    Snapshot,
)
from tank_controller.raft.state import Role
from tank_controller.raft_node.disk_thread import Disk, DiskWork, Storage
from tank_controller.raft_node.figures import RaftFigures
from tank_controller.raft_node.replay import StorageFullError
from tank_controller.raft_node.snapshot import SnapshotMaking
from tank_controller.raft_node.waiting import Done, ReadDone, Result, Waiting

ResultOut = TypeVar("ResultOut", covariant=True)

HANGING_ELECTIONS = 4
"""For so many election timeouts a disk may work on one thing before another controller had better lead: an
fsync on a busy machine takes seconds now and then, and who leads next knows no broker yet."""
SNAPSHOT_AGAIN_TICKS = 100
"""How long a full disk is left alone before a snapshot is written there again."""

_log = logging.getLogger("tank.raft")


class StateMachine(Protocol[ResultOut]):
    """What the log is for. All calls on the loop's thread."""

    def apply(self, index: int, data: bytes) -> ResultOut:
        """One committed command. Indexes rise, with gaps: some entries are Raft's own."""

    def snapshot(self) -> Iterator[bytes]:
        """All of it as it is now, in pieces, between which more may be applied. One such at a time."""

    def restore(self, data: bytes) -> None: ...


class Transport(Protocol):
    """The way to the other controllers."""

    def send(self, messages: Sequence[Message]) -> None:
        """May lose, delay, repeat and reorder them; must not wait."""


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
        self.figures = RaftFigures()
        self.applied = 0
        """The state machine holds everything up to here, and nothing behind it."""
        self._storage = storage
        self._transport = transport
        self._machine = machine
        self._disk = DiskWork(disk, self._on_full)
        """While it works, the core's next Ready and the state machine stand still."""
        self._on_fatal = on_fatal
        self._waiting: Waiting[Result] = Waiting()
        self._making: SnapshotMaking | None = None
        """A snapshot that isn't on the disk yet."""
        self._no_snapshot_ticks = 0
        """So long no snapshot is tried: the last one found no room."""
        self._when_stopped: Callable[[], None] | None = None
        self._stopped = False
        self._going = self._again = False
        """Whether `_go_on` is under way, and whether there may be more for it to do."""

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
    def full(self) -> str | None:
        """Why nothing can be written at the moment; tried again at each tick."""
        return self._disk.full

    @property
    def hangs(self) -> bool:
        """Its disk has been at one thing for so long that nobody should wait for it."""
        patience = self.raft.settings.election_ticks * HANGING_ELECTIONS
        return self.full is None and self._disk.busy_ticks >= patience

    @property
    def trouble(self) -> str | None:
        """Why nothing can be changed here at the moment, or any more; None: all is well."""
        hanging = "its disk has not finished a write for too long: check it" if self.hangs else None
        return self.failed or self.full or hanging

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

    @property
    def snapshot_index(self) -> int:
        """The last entry in the newest snapshot; 0 before the first."""
        return 0 if self.raft.snapshot is None else self.raft.snapshot.meta.index

    # --- What others ask for ---

    def propose(self, data: bytes, done: Done[Result]) -> None:
        """`done` is called when the entry is durable at a majority and applied here; or with an error."""
        try:
            self._must_run()
            index, term = self.raft.propose(data)
        except ProposalRefusedError as error:
            self.figures.refused_proposals[type(error).__name__] += 1
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
            self.figures.refused_proposals[type(error).__name__] += 1
            done(error)
            return
        self._waiting.proposals[index] = term, done
        self._go_on()

    def read(self, done: ReadDone) -> None:
        """`done(None)` when the state machine holds everything that was committed when this was called."""
        try:
            self._must_run()
            self._waiting.reads[self.raft.read()] = done
        except ProposalRefusedError as error:
            self.figures.refused_proposals[type(error).__name__] += 1
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
            refused, kind = self.figures.refused_messages, type(error).__name__
            refused[kind] += 1
            if refused[kind] in (1, 10, 100) or refused[kind] % 1000 == 0:
                _log.warning("refused a message (%d of this kind): %s", refused[kind], error)
        self._go_on()

    def tick(self) -> None:
        """Time passes."""
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
        """A leader whose disk is full, or hangs, decides nothing: others have to, failover waits for it."""
        no_room = self.full is not None and self._disk.busy_ticks >= self.raft.settings.election_ticks
        if not no_room and not self.hangs:
            return
        if self.raft.role is not Role.LEADER:
            self._waiting.give_up_proposals("this controller doesn't lead any more")
        elif self.raft.transfer_target is None and (heirs := self.heirs()):
            _log.error("hands leadership over to %s: the disk has not done its work for too long", heirs[0])
            with contextlib.suppress(ProposalRefusedError):
                self.raft.transfer_leadership(heirs[0])

    def heirs(self) -> list[NodeId]:
        """Voters that answer, who has most first; one whose disk is no better is silent once asked."""
        voters = self.raft.configuration.voters
        there = [(e.matched, node) for node, e in self.raft.progress.items() if e.active and node in voters]
        return [node for _, node in sorted(there, reverse=True)]

    def stop(self, done: Callable[[], None]) -> None:
        """Ends the log in good order, then calls `done`. Takes nothing any more."""
        assert self._when_stopped is None, "stopped twice"
        self._when_stopped = done
        if self.failed is not None:
            self._disk.close()
            done()
        elif self._disk.waits_for_room:
            self._stop_without_room()  # not by the next try: no tick may come any more
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

    def _go_on(self, persisted: Ready | None = None) -> None:
        """Does what the core has ready, until the disk has to work or nothing is left.

        Whoever is told of an outcome may ask for something at once: that waits until this Ready is applied.
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
        if self._waiting.proposals and self.raft.role is not Role.LEADER and self.failed is None:
            self._waiting.give_up_proposals("this controller doesn't lead any more")
        self._make_a_snapshot()
        if not self._disk.busy and self._when_stopped is not None:
            self._close(self.raft.log.commit)

    def _persist(self, ready: Ready) -> None:
        def work() -> None:
            self.figures.timed(lambda: self._storage.persist(ready.hard_state, ready.snapshot, ready.entries))

        def then(error: Exception | None) -> None:
            if error is not None:
                self._fail(error)
                return
            self._go_on(ready)

        # On a full disk the Ready stays under way: nothing that depends on it leaves before there is room.
        self._disk.run(work, then, waits_for_room=True)

    def _on_full(self, why: str) -> None:
        self._waiting.give_up_proposals(why)  # it is written when there is room, but nobody knows when
        if self._when_stopped is not None:
            self._stop_without_room()

    def _persisted(self, ready: Ready) -> None:
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
            self._fail(error)  # of a newer version: the state is that of before, and nothing follows on it
            return
        self.applied = snapshot.meta.index
        self._making = None

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
        self._waiting.applied(entry, result)

    def _make_a_snapshot(self) -> None:
        """A piece at each tick, so that brokers are answered meanwhile: a large one takes a minute."""
        if self._disk.busy or self._no_snapshot_ticks or self.failed is not None:
            return
        if self._making is None and self._storage.snapshot_due:
            point = self.raft.snapshot_point()
            assert point[0] == self.applied, "a snapshot is of the state after its entry"
            self._making = SnapshotMaking(point, self._machine.snapshot())
            self._making.go_on()
        if self._making is not None and self._making.whole:
            self._save_snapshot(self._making)

    def _save_snapshot(self, making: SnapshotMaking) -> None:
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
        """The Ready is not kept, and nobody was told of it: a start goes on from before it."""
        self._disk.forget_what_waits_for_room()
        self._close(0)  # what is committed may be in that Ready, in the place of what the disk has

    def _close(self, commit: int) -> None:
        """`commit`: the disk has what is committed up to there. Less than was written counts for nothing."""

        def then(error: Exception | None) -> None:
            if error is not None:
                _log.error("the log was not ended in good order: %s", error)
            self._stopped = True
            self._waiting.give_up("the controller stopped")
            self._disk.close()
            assert self._when_stopped is not None
            self._when_stopped()

        self._disk.run(lambda: self._storage.close(commit), then)

    def _fail(self, error: Exception) -> None:
        """Whatever the disk said, it isn't tried again: nothing is sent or applied from here on."""
        self.failed = str(error)
        _log.critical("the controller has to end: %s", error)
        self._waiting.give_up(self.failed)
        self._on_fatal(error)
        if self._when_stopped is not None:
            self._when_stopped()
