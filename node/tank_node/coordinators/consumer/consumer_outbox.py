"""What a group of the consumer protocol wants stored, and the answers that wait for it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_actions import Action, Answer, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer, SyncAnswer
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.records.consumer_records import Key

AnyAnswer = ConsumerHeartbeatAnswer | JoinAnswer | SyncAnswer


@dataclass(slots=True)
class _Waiting:
    token: object
    answer: AnyAnswer
    change: int
    """The last change that was made when it was answered; 0: that is not known yet."""


class Outbox:
    """The machine's way out.

    A record says what is so when it is made, so one that was lost is simply written again, as it is then. An
    answer waits until everything that was changed before it is stored: so no member hears of what a later
    coordinator would not know. When a change is lost, all who wait are refused, and ask again.
    """

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        """The keys under which there may be records in the log."""
        self.version = 1
        """A number that rises when anything is marked."""
        self._marked: dict[Key, None] = {}
        self._on_their_way: dict[int, tuple[Key, ...]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._ready: list[Action] = []
        self._changes = 0
        self._is_held = False
        """Whether what was lost waits for the next event: the log may refuse it for long."""

    def mark(self, *keys: Key) -> None:
        """What is stored under these keys is not so any more."""
        self.version += 1
        for key in keys:
            self._marked[key] = None

    def answer(self, token: object, answer: AnyAnswer) -> None:
        """Answers a request, when all is stored that was marked so far."""
        self._is_held = False
        if not self._marked and not self._on_their_way:
            self._ready.append(Answer(token, answer))
        else:
            self._waiting.append(_Waiting(token, answer, 0))

    def refuse(self, token: object, answer: AnyAnswer) -> None:
        """Answers a request at once, which changed nothing."""
        self._ready.append(Answer(token, answer))

    def release(self) -> None:
        """What was lost may be written again."""
        self._is_held = False

    def take(self, record: Callable[[Key], StoredRecord]) -> list[Action]:
        """What is to be done. record: makes the record of a key, as it is now."""
        if self._marked and not self._is_held:
            keys = tuple(self._marked)
            records = [record(key) for key in keys]  # before anything changes: what fails is tried again
            self._changes += 1
            self._marked = {}
            self._on_their_way[self._changes] = keys
            for key, (_, value) in zip(keys, records, strict=True):
                (self.keys.discard if value is None else self.keys.add)(key)
            self._ready.append(StoreRecords(self._changes, records))
        for waiting in self._waiting:
            waiting.change = waiting.change or self._changes
        found, self._ready = self._ready, []
        return found

    def end(self, tombstones: Sequence[StoredRecord], successor: StoredRecord) -> None:
        """The group gets another machine: everything of this one is deleted, and the successor's record is
        stored with that. Answers wait for it as for any change."""
        self._marked.clear()
        self._changes += 1
        self._on_their_way[self._changes] = ()
        self._ready.append(StoreRecords(self._changes, [*tombstones, successor], tombstones))

    def stored(self, change: int, error: GroupError) -> bool:
        """A change is stored, or lost; returns whether it was lost."""
        keys = self._on_their_way.pop(change, ())
        if not error:
            while self._waiting and 0 < self._waiting[0].change <= change:
                waiting = self._waiting.popleft()
                self._ready.append(Answer(waiting.token, waiting.answer))
            return False
        self.mark(*keys)
        self._is_held = True
        while self._waiting:
            waiting = self._waiting.popleft()
            self._ready.append(Answer(waiting.token, refused(waiting.answer, error)))
        return True


def refused(answer: AnyAnswer, error: GroupError) -> AnyAnswer:
    """The refusal in place of this answer."""
    if isinstance(answer, ConsumerHeartbeatAnswer):
        return ConsumerHeartbeatAnswer(error)
    if isinstance(answer, JoinAnswer):
        return JoinAnswer(error, answer.member_id)
    return SyncAnswer(error)
