"""What a group's machine wants done: answers to send, and what is to be stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_requests import JoinAnswer, SyncAnswer
from tank_node.coordinators.machine.iggy_requests import IggyAnswer
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue


@dataclass(slots=True, frozen=True)
class Answer:
    """The answer to a request that waits."""

    token: object
    """What came with the request."""
    answer: JoinAnswer | SyncAnswer | ConsumerHeartbeatAnswer | IggyAnswer


@dataclass(slots=True, frozen=True)
class Store:
    """The group's image is to be appended to its partition, in the order of the changes. The machine hears by
    `ClassicGroup.stored` what became of it: once, even where it is too late for the change to matter."""

    change: int
    """Its number: greater than that of each earlier change."""
    image: GroupMetadataValue


@dataclass(slots=True, frozen=True)
class StoreRecords:
    """As `Store`, for a machine that makes its own records: they are appended together."""

    change: int
    records: Sequence[StoredRecord]
    if_lost: Sequence[StoredRecord] = ()
    """Records to append with the next change of the group, if this one is not stored."""


Action = Answer | Store | StoreRecords


class Actions:
    """The actions that have come together since they were taken last."""

    def __init__(self) -> None:
        self._found: list[Action] = []
        self._unstamped: list[GroupMetadataValue] = []
        self._changes = 0

    def answer(self, token: object | None, answer: JoinAnswer | SyncAnswer) -> None:
        """A request is answered; without a token none waits."""
        if token is not None:
            self._found.append(Answer(token, answer))

    def store(self, image: GroupMetadataValue, *, is_whole: bool) -> int:
        """The image is to be stored; returns the change's number. One that is not whole, a generation without
        its assignments, gets no time: so a coordinator that reads it tells them apart."""
        self._changes += 1
        self._found.append(Store(self._changes, image))
        if is_whole:
            self._unstamped.append(image)
        return self._changes

    def take(self, wall_ms: int) -> list[Action]:
        """The actions, in their order; `wall_ms` is the time for images."""
        found, self._found = self._found, []
        for image in self._unstamped:
            image.current_state_timestamp = wall_ms
        self._unstamped.clear()
        return found
