"""What the node asked of the controller and has no answer to: numbered, bounded, in its order. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tank_node.cluster.requests import Answered, Proposed
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

MAX_PENDING = 16_384
"""Proposals and questions without an answer."""
PENDING_MS = 30_000
"""After so long without a controller that answers, whoever asked is told so."""
LEADERLESS_MS = 2000
"""After so long without one that is heard no controller leads: elections take a fraction of it. What a client
asks then is answered at once, so that its error says why, and not that nothing answered."""
NOT_REPEATED = frozenset({"commit_positions"})
"""Commands that have failed when their stream ends, and are not taken without one: whoever asked may have
gone to another broker meanwhile, and a repeat could put an older position in the place of a newer one."""


@dataclass(slots=True)
class Pending:
    """One of them."""

    message: pb.BrokerUp
    deadline_ms: int
    proposed: Proposed | None = None
    answered: Answered | None = None
    of_client: bool = False
    """A client waits for it, and can ask again; what the broker itself asks waits for a leader."""
    sent: bool = False
    """A controller may have read it, and may carry it out."""
    answer: pb.QueryAnswer = field(default_factory=pb.QueryAnswer)
    """The parts so far."""

    @property
    def is_repeated(self) -> bool:
        """Whether the next stream brings it again."""
        return self.message.proposal.command.WhichOneof("command") not in NOT_REPEATED

    def fail(self, error: ErrorCode, message: str) -> None:
        """Tells whoever asked."""
        if self.proposed is not None:
            self.proposed(pb.ProposalOutcome(error=error, message=message))
        if self.answered is not None:
            self.answered(pb.QueryAnswer(error=error, message=message))


class PendingRequests:
    """One session's. Times in ms of a clock that never goes back."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        """By request id, in the order of asking."""
        self._last_request = 0

    def take(self, pending: Pending, *, connected: bool, silence_ms: int = 0) -> bool:
        """Gives it its number and keeps it; False: whoever asked was told that it failed. `connected`: it is
        sent now. `silence_ms`: for how long no controller that leads was heard."""
        if len(self._pending) >= MAX_PENDING:
            pending.fail(ErrorCode.OVERLOADED, "too much waits for the controller: ask again")
            return False
        if pending.of_client and not connected and silence_ms > LEADERLESS_MS:
            pending.fail(ErrorCode.TIMED_OUT, _NO_LEADER)
            return False
        if not connected and not pending.is_repeated:
            pending.fail(ErrorCode.TIMED_OUT, _NO_LINE)
            return False
        self._last_request += 1
        pending.sent = connected
        message = pending.message
        if message.WhichOneof("message") == "proposal":
            message.proposal.request_id = self._last_request
        else:
            message.query.request_id = self._last_request
        self._pending[self._last_request] = pending
        return True

    def again(self) -> Iterator[pb.BrokerUp]:
        """All of them, for a new stream; parts of an answer that came by the last one count no more."""
        for pending in self._pending.values():
            pending.answer.Clear()
            pending.sent = True
            yield pending.message

    def line_ended(self) -> None:
        """What is not to be repeated has failed, or nobody will know."""
        ended = [number for number, pending in self._pending.items() if not pending.is_repeated]
        for number in ended:
            self._pending.pop(number).fail(ErrorCode.TIMED_OUT, _NO_LINE)

    def tick(self, now_ms: int, silence_ms: int = 0) -> None:
        """Ends those that waited too long, and what clients ask while no controller leads. What was sent
        waits on: it may have been carried out, and the next leader says so."""
        if silence_ms > LEADERLESS_MS:
            unsent = [n for n, pending in self._pending.items() if pending.of_client and not pending.sent]
            for number in unsent:
                self._pending.pop(number).fail(ErrorCode.TIMED_OUT, _NO_LEADER)
        while self._pending and (first := next(iter(self._pending.items())))[1].deadline_ms <= now_ms:
            del self._pending[first[0]]
            first[1].fail(ErrorCode.TIMED_OUT, "no controller that leads answered: ask again")

    def on_outcome(self, outcome: pb.ProposalOutcome) -> None:
        """Of a proposal; one that comes twice is told once."""
        pending = self._pending.pop(outcome.request_id, None)
        if pending is not None and pending.proposed is not None:
            pending.proposed(outcome)

    def on_answer(self, answer: pb.QueryAnswer) -> None:
        """To a question, or a part of it."""
        pending = self._pending.get(answer.request_id)
        if pending is None or pending.answered is None:
            return
        pending.answer.MergeFrom(answer)
        if not answer.more:
            del self._pending[answer.request_id]
            pending.answered(pending.answer)


_NO_LINE = "the line to the controller is broken: ask again"
_NO_LEADER = (
    "no controller leads, and this needs one: it goes on when a majority of the controllers runs and is "
    "connected; `tank cluster status` names those that are away"
)
