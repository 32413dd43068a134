"""The shell around the state machine of a controller that is alone: persist, then apply, then answer.

Runs on an event loop's thread; a thread of its own waits for the disk. While it does, proposals gather, and
the next fsync is for all of them (group commit). Raft's driver will stand here.
"""

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tank_controller import commands, limits
from tank_controller.cluster_state import ClusterState
from tank_controller.journal import Journal, Recovered
from tank_controller.journal_format import PUT_BACK, JournalDamagedError, JournalError
from tank_controller.outcome import Outcome, Rejected
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

MAX_WAITING_PROPOSALS = 4096
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""More are refused: whoever asks gets OVERLOADED, and asks again later."""

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""Of one write; far below what the journal takes in one frame."""

Done = Callable[[Outcome], None]

_log = logging.getLogger("tank.controller")


class JournalDriver:
    """Takes proposals, makes them durable, applies them in order. All calls from the event loop's thread."""

    def __init__(
        self,
        journal: Journal,
        post: Callable[[Callable[[], None]], object],
        on_delta: Callable[[pb.Delta], None],
    ) -> None:
        self.state = ClusterState()
        self.failed: str | None = None
        """Why nothing is taken any more."""
        self._journal = journal
        self._post = post
        self._on_delta = on_delta
        self._waiting: deque[tuple[bytes, Done]] = deque()
        self._waiting_bytes = 0
        self._busy = False
        self._when_stopped: Callable[[], None] | None = None
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")

    def open(self, *, may_be_new: bool) -> Recovered:
        """Reads the journal back into `state`, waiting for the disk. JournalError when it can't be done."""
        recovered = self._journal.open(may_be_new=may_be_new)
        if recovered.snapshot is not None:
            self.state = ClusterState.load(recovered.snapshot)
        for index, entry in recovered.entries:
            commands.apply(self.state, index, _command(index, entry))
        return recovered

    def propose(self, command: pb.Command, done: Done) -> None:
        """`done` gets the outcome when the entry is durable and applied; or a rejection, at once or later."""
        if (rejection := self._refuse(command)) is not None:
            done(self._rejected(rejection))
            return
        entry = command.SerializeToString()
        self._waiting.append((entry, done))
        self._waiting_bytes += len(entry)
        self._next()

    def stop(self, done: Callable[[], None]) -> None:
        """Answers what waits, ends the journal in good order, then calls `done`. Takes nothing any more."""
        assert self._when_stopped is None, "stopped twice"
        self._when_stopped = done
        self._next()

    def _refuse(self, command: pb.Command) -> Rejected | None:
        if self.failed is not None:
            return Rejected(ErrorCode.STORAGE, self.failed)
        if self._when_stopped is not None:
            return Rejected(ErrorCode.OVERLOADED, "the controller is stopping: ask again")
        if len(self._waiting) >= MAX_WAITING_PROPOSALS or self._waiting_bytes >= MAX_WAITING_BYTES:
            return Rejected(ErrorCode.OVERLOADED, "too many changes of metadata wait for the disk: ask again")
        if command.ByteSize() > limits.MAX_COMMAND_BYTES:
            message = f"a change has at most {limits.MAX_COMMAND_BYTES} bytes: send it in parts"
            return Rejected(ErrorCode.TOO_LARGE, message)
        if self._busy:
            return None  # what is under way may change the answer
        return commands.check(self.state, command)

    def _next(self) -> None:
        if self._busy:
            return
        if self._waiting:
            self._write()
        elif self._when_stopped is not None:
            self._run(self._journal.close, self._closed)

    def _write(self) -> None:
        batch: list[tuple[bytes, Done]] = []
        size = 0
        while self._waiting and size < MAX_BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0])
        self._waiting_bytes -= size
        entries = [entry for entry, _ in batch]

        def append() -> None:
            self._journal.append(entries)

        self._run(append, lambda error: self._written(batch, error))

    def _written(self, batch: list[tuple[bytes, Done]], error: Exception | None) -> None:
        if error is not None:
            _log.critical("metadata can't be written: %s", error)
            rejection = Rejected(ErrorCode.STORAGE, str(error))
            outcomes = [self._rejected(rejection) for _ in batch]
        else:
            outcomes = [self._apply(entry) for entry, _ in batch]
            if self._journal.snapshot_due:
                self._snapshot()
        for outcome, (_, done) in zip(outcomes, batch, strict=True):
            _guarded(lambda: done(outcome))  # noqa: B023 - called at once
        self._next()

    def _apply(self, entry: bytes) -> Outcome:
        outcome = commands.apply(self.state, self.state.index + 1, pb.Command.FromString(entry))
        _guarded(lambda: self._on_delta(outcome.delta))
        return outcome

    def _snapshot(self) -> None:
        # The state is still while this thread is busy: entries are applied between its works alone. Making
        # the bytes of a large one takes seconds, which the event loop has better uses for.
        state = self.state
        self._run(lambda: self._journal.snapshot(state.index, state.snapshot()), self._snapshot_written)

    def _snapshot_written(self, error: Exception | None) -> None:
        if error is not None:
            _log.error("no snapshot of the metadata: %s", error)
        self._next()

    def _closed(self, error: Exception | None) -> None:
        if error is not None:
            _log.error("the journal was not ended in good order: %s", error)
        self._disk.shutdown(wait=False)
        assert self._when_stopped is not None
        self._when_stopped()

    def _run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """Does the work in the disk's thread, and the rest here."""
        self._busy = True

        def finish(error: Exception | None) -> None:
            self._busy = False
            self.failed = self._journal.failed
            then(error)

        def in_thread() -> None:
            try:
                work()
            except Exception as error:
                failure = error
                self._post(lambda: finish(failure))
            else:
                self._post(lambda: finish(None))

        self._disk.submit(in_thread)

    def _rejected(self, rejection: Rejected) -> Outcome:
        return Outcome(pb.Delta(), rejection=rejection)


def _command(index: int, entry: bytes) -> pb.Command:
    """An entry read back. JournalError: to skip what a newer version wrote would be to make another state."""
    try:
        command = pb.Command.FromString(entry)
    except Exception as error:  # the runtimes of protobuf raise different types
        raise JournalDamagedError(f"entry {index} of the metadata is no command: {PUT_BACK}") from error
    if command.WhichOneof("command") is None:
        raise JournalError(
            f"entry {index} of the metadata was written by a newer version: start that one, or put the "
            "whole data folder back from a backup made before it ran"
        )
    return command


def _guarded(call: Callable[[], None]) -> None:
    """What others do with an outcome must not keep the rest from theirs."""
    try:
        call()
    except Exception:
        _log.exception("an answer about metadata could not be used")
