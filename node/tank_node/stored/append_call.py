"""One append of a session, at the partition's leader wherever that is."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.session import Session
from tank_node.stored.answers import read_appended
from tank_node.stored.append_lines import AppendLines, LineKey
from tank_node.stored.forwarded import ForwardedStored
from tank_node.stored.leader.appending import append_stored
from tank_node.stored.leader_attempts import LeaderAttempts
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import leads
from tank_node.stored.results import Appended, Place
from tank_node.stored.telling import tell
from tank_protos.generated.tank import AppendStoredRequest


class AppendCall:
    """One append. It is sent once at most: what a leader may have got is never sent again, and what none has
    taken is tried again.

    Invariants: an append in a line has its own copy of the batch; one that is staged here is in none.
    """

    __slots__ = (
        "_batch", "_batch_format", "_broker", "_done", "_is_in_line", "_is_told", "_lines", "_search",
        "_timeout_ms", "held_bytes", "is_under_way", "key",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        lines: AppendLines,
        key: LineKey,
        batch: tuple[int, memoryview],
        done: Callable[[Appended], None],
        timeout_ms: int,
    ) -> None:
        """batch: its format and its bytes, which stay valid until the end of the tick."""
        self._broker = broker
        self._lines = lines
        self.key = key
        self._batch_format, self._batch = batch
        self._done = done
        self._timeout_ms = timeout_ms or broker.limits.ack_timeout_ms
        self._search: LeaderAttempts | None = None
        self._is_in_line = False
        self._is_told = False
        """Whether this broker's partition has told a result."""
        self.held_bytes = 0
        """The bytes of the copy; 0: there is none."""
        self.is_under_way = False
        """Whether it was tried: it waits for a leader, or for an answer."""

    @property
    def _place(self) -> Place:
        return self.key[1]

    def begin(self, sender: Session) -> None:
        """Appends here if this broker leads and no earlier append waits; else joins the line."""
        search = self._search = LeaderAttempts(
            self._broker, self._place, sender, self._append_here, self._send, self._give_up
        )
        if not self._lines.has(self.key) and leads(self._broker, self._place):
            self.is_under_way = True
            search.attempt()
        elif self._lines.held_bytes >= self._broker.limits.stored_held_bytes:
            self._broker.metrics.refused["stored_full"] += 1
            self._end(Appended(StoredOutcome.NO_LEADER))
        else:
            self._join()
            self._lines.go_on(self.key)

    def attempt(self) -> None:
        """Tries the append, which is the first of its line."""
        assert self._search is not None, "it has begun"
        self.is_under_way = True
        self._search.attempt()

    def _join(self) -> bool:
        """Joins the line, with a copy of the batch. Returns whether it is the first one there."""
        if not self.held_bytes:
            self._batch = memoryview(bytearray(self._batch))
            self.held_bytes = len(self._batch)
        assert self._search is not None, "it has begun"
        self._search.begin_wait()
        self._is_in_line = True
        return self._lines.join(self)

    # --- here ------------------------------------------------------------------------------------

    def _append_here(self) -> None:
        self._is_told = False
        append_stored(
            self._broker, self._place, self._batch, self._batch_format, self._told_here, self._timeout_ms
        )
        if not self._is_told and self._is_in_line:  # it is staged, in the order of the line
            self._is_in_line = False
            self._lines.leave(self)

    def _told_here(self, result: Appended) -> None:
        self._is_told = True
        search = self._search
        assert search is not None, "it has begun"
        if not search.is_passing(result.outcome):
            self._end(result)
        elif self._is_in_line or self._join():
            search.again()
        else:
            # It was staged, and dropped with those before it, of which one is the first of the line now.
            self.is_under_way = False

    # --- elsewhere -------------------------------------------------------------------------------

    def _send(self, leader: int) -> bool:
        """Sends the append to another broker."""
        search = self._search
        assert search is not None, "it has begun"
        broker = self._broker
        topic_id, number = self._place
        request = AppendStoredRequest(
            topic_id=topic_id,
            partition=number,
            format=self._batch_format,
            timeout_ms=self._timeout_ms,
            batch=self._batch,
        )
        epoch = search.leadership()
        forwarded = ForwardedStored(
            request,
            broker.tick.monotonic_ms + self._timeout_ms + broker.limits.forwarded_answer_ms,
            read_appended,
            self._answered,
            self._not_answered,
            lambda: search.leadership() == epoch,
        )
        return broker.forwarding.send(leader, forwarded, search.sender)

    def _answered(self, result: Appended) -> None:
        assert self._search is not None, "it has begun"
        if self._search.is_passing(result.outcome):
            self._search.again()
        else:
            self._end(result)

    def _not_answered(self, sent: bool) -> None:
        assert self._search is not None, "it has begun"
        if sent:
            self._end(Appended(StoredOutcome.MAYBE_STORED))
        else:
            self._search.again()

    # --- its end ---------------------------------------------------------------------------------

    def _give_up(self, outcome: StoredOutcome) -> None:
        self._end(Appended(outcome))

    def _end(self, result: Appended) -> None:
        assert self._search is not None, "it has begun"
        tell(self._broker, self._search.sender, self._done, result)
        if self._is_in_line:  # later ones are tried behind the answer to this one
            self._is_in_line = False
            self._lines.leave(self)
