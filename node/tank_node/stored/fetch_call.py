"""One read of a session, at the partition's leader wherever that is."""

from collections.abc import Callable
from dataclasses import replace

from tank_node.broker.broker import Broker
from tank_node.session import Session
from tank_node.stored.answers import read_fetched
from tank_node.stored.forwarded import ForwardedStored
from tank_node.stored.leader.read_wait import ReadWait
from tank_node.stored.leader_attempts import LeaderAttempts
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Fetched, Place, StoredWanted
from tank_node.stored.telling import tell
from tank_protos.generated.tank import FetchStoredRequest

_MOST_U32 = 2**32 - 1


class FetchCall:
    """One read, which may be repeated at another leader."""

    __slots__ = ("_broker", "_done", "_place", "_search", "_sender", "_until_ms", "_wanted")

    def __init__(
        self,
        broker: Broker,
        place: Place,
        wanted: StoredWanted,
        sender: Session,
        done: Callable[[Fetched], None],
    ) -> None:
        self._broker = broker
        self._place = place
        self._wanted = wanted
        self._sender = sender
        self._done = done
        self._until_ms = broker.tick.monotonic_ms + min(wanted.wait_ms, broker.limits.forwarded_wait_ms)
        self._search = LeaderAttempts(broker, place, sender, self._read_here, self._send, self._give_up)

    def begin(self) -> None:
        """Reads at the leader."""
        self._search.attempt()

    def _now_wanted(self) -> StoredWanted:
        """What is wanted, with the rest of the wait."""
        if not self._wanted.wait_ms:
            return self._wanted
        return replace(self._wanted, wait_ms=max(self._until_ms - self._broker.tick.monotonic_ms, 0))

    def _read_here(self) -> None:
        ReadWait(self._broker, self._place, self._now_wanted(), self._sender, self._told).begin()

    def _send(self, leader: int) -> bool:
        """Asks another broker."""
        broker, search = self._broker, self._search
        wanted = self._now_wanted()
        most_bytes = broker.limits.iggy_poll_bytes
        request = FetchStoredRequest(
            topic_id=self._place[0],
            partition=self._place[1],
            strategy=wanted.strategy,
            value=wanted.value,
            count=min(wanted.count, _MOST_U32),
            max_bytes=min(wanted.max_bytes or most_bytes, most_bytes),
            wait_ms=wanted.wait_ms,
        )
        tried = search.leadership()
        forwarded = ForwardedStored(
            request,
            broker.tick.monotonic_ms + wanted.wait_ms + broker.limits.forwarded_answer_ms,
            read_fetched,
            self._told,
            lambda sent: search.again(),  # a read does no harm twice
            lambda: search.leadership() == tried,
        )
        return broker.forwarding.send(leader, forwarded, self._sender)

    def _told(self, found: Fetched) -> None:
        if self._search.is_passing(found.outcome):
            self._search.again()
        else:
            self._end(found)

    def _give_up(self, outcome: StoredOutcome) -> None:
        self._end(Fetched(outcome))

    def _end(self, found: Fetched) -> None:
        tell(self._broker, self._sender, self._done, found)
