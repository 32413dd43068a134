"""Fetch sessions: the partitions that a client fetches again and again, so that its requests and the answers
name only those that changed.

A session belongs to the broker and not to a connection. A client that loses one, or gets none, fetches
without.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.kafka.errors import KafkaError
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
"""The session id of a request, or an answer, without a session."""
FIRST_EPOCH: Final = 0
"""The epoch of a request that opens a session."""
LAST_EPOCH: Final = -1
"""The epoch of a request that ends its session, or does without."""
NEVER_TOLD: Final = -1
_MOST: Final = 2**31 - 1
_SPREAD: Final = 2_654_435_761
"""An odd number near 2^32 divided by the golden ratio: its multiples are spread evenly over the ids."""

EntryKey: TypeAlias = tuple[str, bytes, int]
"""The topic's name or its id, the other one empty or zero, and the partition's number."""


class SessionEntry:
    """A partition of a session: what the client wants of it, and what it was told last."""

    __slots__ = ("told_mark", "told_start", "topic", "topic_id", "wanted")

    def __init__(self, topic: str, topic_id: bytes, wanted: FetchPartition) -> None:
        self.topic = topic
        """The topic's name; empty in a session that names topics by their ids."""
        self.topic_id = topic_id
        self.wanted = wanted
        self.told_mark = NEVER_TOLD
        """The high-water mark in the last answer that named the partition; NEVER_TOLD also after an error."""
        self.told_start = NEVER_TOLD
        """The log's start, likewise."""

    @property
    def key(self) -> EntryKey:
        return self.topic, self.topic_id, self.wanted.partition


class FetchSession:
    """One session."""

    __slots__ = ("entries", "epoch", "session_id", "used_ms", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        """The epoch that the next request must have."""
        self.uses_ids = uses_ids
        """Whether its requests name topics by their ids."""
        self.entries: dict[EntryKey, SessionEntry] = {}
        """In the order in which they are read: those that had records last come last, so that each has its
        turn when an answer is full."""
        self.used_ms = 0

    def next_epoch(self) -> None:
        """Goes on to the epoch of the next request."""
        self.epoch = self.epoch + 1 if self.epoch < _MOST else 1

    def take(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]) -> None:
        """Adds, changes and removes partitions as a request asks."""
        entries = self.entries
        for topic in topics:
            for wanted in topic.partitions:
                key = (topic.topic, topic.topic_id, wanted.partition)
                entry = entries.get(key)
                if entry is None:
                    entries[key] = SessionEntry(topic.topic, topic.topic_id, wanted)
                else:
                    entry.wanted = wanted
        for gone in forgotten:
            for number in gone.partitions:
                entries.pop((gone.topic, gone.topic_id, number), None)

    def to_end(self, entry: SessionEntry) -> None:
        """Makes this partition the last one to be read next time."""
        key = entry.key
        if self.entries.get(key) is entry:
            del self.entries[key]
            self.entries[key] = entry


class FetchSessions:
    """All fetch sessions of a broker, within `Limits.fetch_sessions` and `Limits.fetch_session_entries`."""

    __slots__ = ("_by_id", "_entries", "_last_id", "_limits", "_metrics")

    def __init__(self, limits: Limits, metrics: Metrics, started_ms: int) -> None:
        """started_ms: when the broker's process started. Its ids begin at a place that follows from it, so
        that hardly any is one that an earlier process has given out."""
        self._limits = limits
        self._metrics = metrics
        self._last_id = started_ms * _SPREAD % _MOST
        self._by_id: dict[int, FetchSession] = {}
        """The one that was not used for the longest time comes first."""
        self._entries = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def entries(self) -> int:
        """Number of partitions in all sessions."""
        return self._entries

    def find(self, session_id: int, epoch: int, *, uses_ids: bool) -> "FetchSession | KafkaError":
        """Returns the session whose next request this is, or the error for the client."""
        session = self._by_id.get(session_id)
        if session is None:
            return KafkaError.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return KafkaError.INVALID_FETCH_SESSION_EPOCH
        if session.uses_ids != uses_ids:
            return KafkaError.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def go_on(
        self,
        session: FetchSession,
        topics: Iterable[FetchTopic],
        forgotten: Iterable[ForgottenTopic],
        now_ms: int,
    ) -> bool:
        """Takes a session's next request. Returns False when the session is ended, because it has grown
        beyond the limit."""
        before = len(session.entries)
        session.take(topics, forgotten)
        self._entries += len(session.entries) - before
        if self._entries > self._limits.fetch_session_entries:
            self.end(session.session_id)
            self._metrics.refused["fetch_session_entries"] += 1
            return False
        session.next_epoch()
        self._use(session, now_ms)
        return True

    def make(self, entries: Iterable[SessionEntry], *, uses_ids: bool, now_ms: int) -> FetchSession | None:
        """Makes a session of these partitions; None when there is no room, or no partition."""
        session = FetchSession(self._next_id(), uses_ids)
        for entry in entries:
            session.entries[entry.key] = entry
        count = len(session.entries)
        limits = self._limits
        if not count or count > limits.fetch_session_entries:
            return None
        while (
            len(self._by_id) >= limits.fetch_sessions or self._entries + count > limits.fetch_session_entries
        ):
            if not self._end_oldest(now_ms):
                self._metrics.refused["too_many_fetch_sessions"] += 1
                return None
        self._by_id[session.session_id] = session
        self._entries += count
        self._use(session, now_ms)
        return session

    def end(self, session_id: int) -> None:
        """Ends a session; does nothing when there is none with this id."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self._entries -= len(session.entries)
            self._metrics.fetch_sessions = len(self._by_id)

    def _end_oldest(self, now_ms: int) -> bool:
        """Ends the session that was not used for the longest time, if that is long enough."""
        oldest = next(iter(self._by_id.values()), None)
        if oldest is None or now_ms - oldest.used_ms < self._limits.fetch_session_unused_ms:
            return False
        self.end(oldest.session_id)
        return True

    def _use(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        del self._by_id[session.session_id]
        self._by_id[session.session_id] = session
        self._metrics.fetch_sessions = len(self._by_id)

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % _MOST + 1
            if self._last_id not in self._by_id:
                return self._last_id


def sessions_of(broker: Broker) -> FetchSessions:
    """Returns the fetch sessions of the broker's clients."""
    return shared(broker, FetchSessions, _new_sessions)


def _new_sessions(broker: Broker) -> FetchSessions:
    return FetchSessions(broker.limits, broker.metrics, broker.started_ms)
