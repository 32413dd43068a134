"""The broker's requests to the controllers that have no answer yet: numbered, bounded, in order. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tank_node.clock import Clock
from tank_node.cluster.view import ClusterView
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

Proposed = Callable[[pb.ProposalOutcome], None]
"""A callback that gets a command's outcome, once."""
Answered = Callable[[pb.QueryAnswer], None]
"""A callback that gets a query's whole answer, once."""

MAX_PENDING = 16_384
"""How many proposals and queries may be without an answer."""
PENDING_MS = 30_000
"""A request that no controller answers fails after this time."""
LEADERLESS_MS = 2000
"""When no leading controller was heard for this time, none leads: elections take a fraction of it. A client's
requests then fail at once, so that the client's error names the reason instead of a time limit."""
NOT_REPEATED = frozenset({"commit_positions"})
"""Commands that need an open stream, and fail when it ends: their client may have committed a newer position
through another broker meanwhile, which a repeat would replace with the older one."""


@dataclass(slots=True)
class Pending:
    """A request without an answer."""

    message: pb.BrokerUp
    deadline_ms: int
    proposed: Proposed | None
    answered: Answered | None
    of_client: bool
    """A client made the request, and can repeat it. The broker's own requests wait for a leader."""
    unsent_error: ErrorCode = ErrorCode.TIMED_OUT
    """The error when no controller was sent the request in time."""
    sent: bool = False
    """A controller may have read the request, and may carry it out."""
    answer: pb.QueryAnswer = field(default_factory=pb.QueryAnswer)
    """The parts of the answer that have come."""

    @property
    def is_repeated(self) -> bool:
        """Whether the request is sent again on the next stream."""
        return self.message.proposal.command.WhichOneof("command") not in NOT_REPEATED

    def fail_in_vain(self, message: str) -> None:
        """As `fail`, because no controller has answered in time."""
        self.fail(ErrorCode.TIMED_OUT if self.sent else self.unsent_error, message)

    def fail(self, error: ErrorCode, message: str) -> None:
        """Calls the request's callback with this error."""
        if self.proposed is not None:
            self.proposed(pb.ProposalOutcome(error=error, message=message))
        if self.answered is not None:
            self.answered(pb.QueryAnswer(error=error, message=message))


@dataclass(slots=True, frozen=True)
class Unseen:
    """A callback that waits until the view has an entry of the controllers' log."""

    index: int
    deadline_ms: int
    done: Callable[[], None]


class PendingRequests:
    """The requests of one process, over all its streams.

    Requests without an answer are sent again on the next stream, in order, because they are idempotent; those
    that commit positions (NOT_REPEATED) are not, and fail instead.
    """

    def __init__(self, view: ClusterView, clock: Clock, silence_ms: Callable[[], int]) -> None:
        """`silence_ms`: how long ago a controller that leads was heard."""
        self._view = view
        self._clock = clock
        self._silence_ms = silence_ms
        self._send: Callable[[pb.BrokerUp], None] | None = None
        """Sends to the controller that has accepted this process; None: there is none."""
        self._pending: dict[int, Pending] = {}
        """By request id, which is also the order of sending."""
        self._last_request = 0
        self._told_index = 0
        """The highest log index that an outcome named: committed, but perhaps not in the view yet."""
        self._unseen: list[Unseen] = []
        """Callbacks that wait for the view."""

    def propose(
        self,
        command: pb.Command,
        done: Proposed,
        *,
        validate_only: bool = False,
        of_client: bool = False,
        unsent_error: ErrorCode = ErrorCode.TIMED_OUT,
    ) -> None:
        """Proposes a command for the controllers' log; `done` gets its outcome, once. `of_client`: fails at
        once while no controller leads. `unsent_error`: the error when no controller was sent it; TIMED_OUT
        says that it may have been carried out."""
        seen_index = max(self._view.index, self._told_index)  # now, before others can be answered later
        command.now_ms = self._clock.now_ms()
        proposal = pb.BrokerProposal(command=command, validate_only=validate_only, seen_index=seen_index)
        message = pb.BrokerUp(proposal=proposal)
        self._ask(Pending(message, self._deadline_ms(), done, None, of_client, unsent_error))

    def change(self, command: pb.Command, done: Proposed) -> None:
        """Proposes a client's change; `done` gets its outcome once the view has the change, because the
        client's next request may rely on it. Fails at once while no controller leads, with NO_LEADER."""

        def answer(outcome: pb.ProposalOutcome) -> None:
            self.when_seen(0 if outcome.error else outcome.index, lambda: done(outcome))

        self.propose(command, answer, of_client=True, unsent_error=ErrorCode.NO_LEADER)

    def query(self, query: pb.BrokerQuery, done: Answered, *, of_client: bool = False) -> None:
        """Asks the controller that leads; `done` gets the whole answer, once. `of_client`: as in
        `propose`."""
        self._ask(Pending(pb.BrokerUp(query=query), self._deadline_ms(), None, done, of_client))

    def _deadline_ms(self) -> int:
        return self._clock.monotonic_ms() + PENDING_MS

    def _ask(self, pending: Pending) -> None:
        """Numbers a request, keeps it and sends it; or fails it, when no answer could come."""
        send = self._send
        if len(self._pending) >= MAX_PENDING:
            pending.fail(ErrorCode.OVERLOADED, "too many requests wait for the controller: try again")
            return
        if pending.of_client and send is None and self._silence_ms() > LEADERLESS_MS:
            pending.fail_in_vain(_NO_LEADER)
            return
        if send is None and not pending.is_repeated:
            pending.fail(ErrorCode.TIMED_OUT, _NO_LINE)
            return
        self._last_request += 1
        message = pending.message
        if message.WhichOneof("message") == "proposal":
            message.proposal.request_id = self._last_request
        else:
            message.query.request_id = self._last_request
        self._pending[self._last_request] = pending
        if send is not None:
            pending.sent = True
            send(message)

    def line_taken(self, send: Callable[[pb.BrokerUp], None]) -> None:
        """Sends all requests to the controller that has accepted this process, and drops the parts of answers
        that came on the last stream."""
        self._send = send
        for pending in list(self._pending.values()):
            pending.answer.Clear()
            pending.sent = True
            send(pending.message)

    def stop_sending(self) -> None:
        """Keeps further requests for the next stream, because this one is about to end."""
        self._send = None

    def line_ended(self) -> None:
        """Fails the requests that may not be repeated, because their stream has ended: their outcome stays
        unknown."""
        self._send = None
        ended = [number for number, pending in self._pending.items() if not pending.is_repeated]
        for number in ended:
            self._pending.pop(number).fail(ErrorCode.TIMED_OUT, _NO_LINE)

    def when_seen(self, index: int, done: Callable[[], None]) -> None:
        """Calls `done` when the view has this entry of the controllers' log: at once, or after the update
        with it. Calls it without the entry after PENDING_MS, or if too many wait: a view that is sent the
        whole state takes seconds."""
        if self._view.index >= index or len(self._unseen) >= MAX_PENDING:
            done()
        else:
            self._unseen.append(Unseen(index, self._deadline_ms(), done))

    def view_moved(self) -> None:
        """Calls those that waited for what the view has now."""
        self._call_unseen(lambda each: each.index <= self._view.index)

    def _call_unseen(self, is_due: Callable[[Unseen], bool]) -> None:
        if self._unseen:
            due = [each for each in self._unseen if is_due(each)]
            self._unseen = [each for each in self._unseen if not is_due(each)]
            for each in due:
                each.done()

    def tick(self) -> None:
        """Fails requests that waited too long, and while no controller leads those of clients that were never
        sent. A request that was sent waits on: it may have been carried out, which the next leader will
        say. Calls those that waited too long for the view."""
        now_ms = self._clock.monotonic_ms()
        if self._silence_ms() > LEADERLESS_MS:
            unsent = [n for n, pending in self._pending.items() if pending.of_client and not pending.sent]
            for number in unsent:
                self._pending.pop(number).fail_in_vain(_NO_LEADER)
        while self._pending and (first := next(iter(self._pending.items())))[1].deadline_ms <= now_ms:
            del self._pending[first[0]]
            first[1].fail_in_vain("no controller that leads answered: try again")
        self._call_unseen(lambda each: each.deadline_ms <= now_ms)

    def on_outcome(self, outcome: pb.ProposalOutcome) -> None:
        """Takes a proposal's outcome; one that comes twice is passed on once."""
        self._told_index = max(self._told_index, outcome.index)
        pending = self._pending.pop(outcome.request_id, None)
        if pending is not None and pending.proposed is not None:
            pending.proposed(outcome)

    def on_answer(self, answer: pb.QueryAnswer) -> None:
        """Takes a query's answer, or a part of it."""
        pending = self._pending.get(answer.request_id)
        if pending is None or pending.answered is None:
            return
        pending.answer.MergeFrom(answer)
        if not answer.more:
            del self._pending[answer.request_id]
            pending.answered(pending.answer)


_NO_LINE = "the broker's connection to the controller broke: try again"
_NO_LEADER = (
    "no controller leads, and this request needs one: try again when a majority of the controllers runs and "
    "is connected; `tank cluster status` names those that are away"
)
