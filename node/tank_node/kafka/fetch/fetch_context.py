"""How a Fetch stands to its client's fetch session."""

from typing import Final

from tank_node.kafka.errors import KafkaError
from tank_node.kafka.fetch.fetch_sessions import (
    FIRST_EPOCH,
    LAST_EPOCH,
    NEVER_TOLD,
    NO_SESSION,
    EntryKey,
    FetchSession,
    FetchSessions,
    SessionEntry,
)
from tank_node.kafka.fetch.partition_read import PartitionRead
from tank_protos.generated.kafka.fetch_request import FetchRequest

_SESSIONS_SINCE: Final = 7
_IDS_SINCE: Final = 13


class FetchContext:
    """One request and its session, if it has one."""

    __slots__ = ("_opens", "_sessions", "_uses_ids", "committed", "epoch", "error", "session")

    def __init__(self, sessions: FetchSessions, version: int, request: FetchRequest, now_ms: int) -> None:
        """Takes the request into its session. now_ms: a monotonic time."""
        self._sessions = sessions
        self._uses_ids = version >= _IDS_SINCE
        self.committed = request.isolation_level != 0
        """Whether the client reads committed data alone."""
        self.error = KafkaError.NONE
        """The error for the whole request."""
        self.session: FetchSession | None = None
        """The session that goes on. The answer then has only what has changed."""
        self.epoch = 0
        """The session's next epoch, as this request leaves it."""
        self._opens = request.session_epoch == FIRST_EPOCH and version >= _SESSIONS_SINCE
        """Whether the answer makes a session."""
        if request.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
            if request.session_id != NO_SESSION:
                sessions.end(request.session_id)
            return
        found = sessions.find(request.session_id, request.session_epoch, uses_ids=self._uses_ids)
        if isinstance(found, KafkaError):
            self.error = found
            return
        if not sessions.go_on(found, request.topics, request.forgotten_topics_data, now_ms):
            self.error = KafkaError.FETCH_SESSION_ID_NOT_FOUND
            return
        self.epoch = found.epoch
        if found.entries:
            self.session = found
        else:
            sessions.end(found.session_id)

    def targets(self, request: FetchRequest) -> list[PartitionRead]:
        """The partitions to read: those of the session that goes on, else those that the request names."""
        session = self.session
        if session is not None:
            return [
                PartitionRead(entry.topic, entry.topic_id, entry.wanted, entry)
                for entry in session.entries.values()
            ]
        return [
            PartitionRead(topic.topic, topic.topic_id, wanted, None)
            for topic in request.topics
            for wanted in topic.partitions
        ]

    @property
    def is_overtaken(self) -> bool:
        """Whether a later request of the session was answered while this one waited: the client has given
        this one up."""
        return self.session is not None and self.session.epoch != self.epoch

    def open_for(self, targets: list[PartitionRead], now_ms: int) -> int:
        """Returns the id of the session for the answer: of the one that goes on, or of a new one, if the
        request asks for it and there is room; else NO_SESSION."""
        if self.session is not None:
            return self.session.session_id
        if not self._opens:
            return NO_SESSION
        made: dict[EntryKey, SessionEntry] = {}
        for target in targets:
            entry = SessionEntry(target.topic, target.topic_id, target.wanted)
            made[entry.key] = target.entry = entry
        session = self._sessions.make(made.values(), uses_ids=self._uses_ids, now_ms=now_ms)
        return NO_SESSION if session is None else session.session_id

    def leaves_out(self, target: PartitionRead, mark: int, start: int) -> bool:
        """Whether a session's answer need not name this partition, whose mark and start of the log are these
        offsets: nothing has changed, or what has is not to be shown yet."""
        entry = target.entry
        if self.session is None or entry is None or not target.is_empty:
            return False
        return target.is_unsettled or (mark == entry.told_mark and start == entry.told_start)

    def told(self, target: PartitionRead, mark: int, start: int) -> None:
        """Notes that the answer names this partition."""
        entry = target.entry
        if entry is None:
            return
        failed = target.error or target.diverging is not None
        entry.told_mark = NEVER_TOLD if failed else mark
        entry.told_start = start
        if self.session is not None and target.length:
            self.session.to_end(entry)
