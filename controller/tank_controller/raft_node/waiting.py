"""Who waits for what the Raft driver does: proposals for their entry, reads for their index."""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from tank_controller.raft.messages import Entry, ReadState

Result = TypeVar("Result")

_log = logging.getLogger("tank.raft")


class OutcomeUnknownError(Exception):
    """Leadership, or the process, ended before the outcome was known: it may be in the log or not.

    Commands are idempotent: ask the leader again.
    """


Done = Callable[[Result | Exception], None]
"""Gets what `apply` returned; or a ProposalRefusedError: nothing was done; or an OutcomeUnknownError."""
ReadDone = Callable[[Exception | None], None]


class Waiting(Generic[Result]):
    """Proposals and reads whose outcome isn't known yet."""

    def __init__(self) -> None:
        self.proposals: dict[int, tuple[int, Done[Result]]] = {}
        """By index: the term that its entry has. Bounded by the core's uncommitted bytes."""
        self.reads: dict[int, ReadDone] = {}
        """By read id, unconfirmed."""
        self._confirmed: list[tuple[int, ReadDone]] = []
        """(index, done): until that index is applied."""

    def applied(self, entry: Entry, result: Result | Exception | None) -> None:
        """Tells whoever proposed this entry; nobody, where another controller did."""
        term, done = self.proposals.pop(entry.index, (0, None))
        if done is None:
            return
        if term != entry.term:
            result = OutcomeUnknownError("another leader's entry took its place: ask again")
        _guarded(lambda: done(result))  # type: ignore[arg-type] # None is a change's result

    def confirmed(self, read: ReadState) -> None:
        """A read may be answered when its index is applied; or never."""
        done = self.reads.pop(read.read_id, None)
        if done is None:
            return
        if read.index is None:
            _guarded(lambda: done(OutcomeUnknownError("the read was not confirmed: ask again")))
        else:
            self._confirmed.append((read.index, done))

    def answer_reads(self, applied: int) -> None:
        """The state machine has come so far."""
        due = [done for index, done in self._confirmed if index <= applied]
        if not due:
            return
        self._confirmed = [item for item in self._confirmed if item[0] > applied]
        for done in due:
            _guarded(lambda: done(None))  # noqa: B023 - called at once

    def give_up_proposals(self, why: str) -> None:
        """Nobody knows whether they come to be."""
        proposals, self.proposals = self.proposals, {}
        for _, done in proposals.values():
            _guarded(lambda: done(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once

    def give_up(self, why: str) -> None:
        """The end: reads, too."""
        self.give_up_proposals(why)
        reads = [*self.reads.values(), *(done for _, done in self._confirmed)]
        self.reads, self._confirmed = {}, []
        for done in reads:
            _guarded(lambda: done(OutcomeUnknownError(f"{why}: ask again")))  # noqa: B023 - called at once


def _guarded(call: Callable[[], None]) -> None:
    """What others do with an outcome must not keep the rest from theirs."""
    try:
        call()
    except Exception:
        _log.exception("an outcome could not be used")
