"""The members of one Iggy group that are connected to one broker, and what their coordinator said. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tank_node.coordinators.iggy.iggy_members import SILENCE_MS
from tank_node.coordinators.machine.iggy_requests import IggyMemberName
from tank_node.peers.iggy.iggy_membership import IggyMembership
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    IggyGroupSaid,
    IggyGroupTold,
    IggyMemberSaid,
    IggyPartitionReleased,
)

Settled = Callable[[ErrorCode], None]
_PASSING: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOADING,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.TIMED_OUT,
        ErrorCode.FENCED_MEMBER_EPOCH,
    )
)
"""Refusals that another message may not meet: members stay, and poll by what they heard for as long as they
may."""
SETTLES_MS: Final = 5_000
"""How long a join or a leave waits for the coordinator."""


class _Wait:
    """A join or a leave that is not answered."""

    __slots__ = ("connection", "done", "joins", "sequence", "until_ms")

    def __init__(self, connection: int, sequence: int, until_ms: int, done: Settled, *, joins: bool) -> None:
        self.connection = connection
        self.sequence = sequence
        """That of the first message that says it."""
        self.until_ms = until_ms
        self.done = done
        self.joins = joins


class IggyGroupHere:
    """One group at one broker. Times are monotonic."""

    __slots__ = ("_applied", "_heard_ms", "_left_ms", "_waits", "born", "members")

    def __init__(self, born: int) -> None:
        self.born = born
        self.members: dict[int, IggyMembership] = {}
        """By connection."""
        self._waits: list[_Wait] = []
        self._applied = 0
        """The sequence of the message whose answer was taken last: earlier ones mean nothing any more."""
        self._heard_ms = -SILENCE_MS
        """When that message was sent."""
        self._left_ms = 0
        """Since when it has no members; the coordinator is told for a while still."""

    def add(self, name: IggyMemberName, sequence: int, now_ms: int, done: Settled) -> None:
        """A connection joins, or joins again. sequence: that of the next message."""
        if name.connection not in self.members:
            self.members[name.connection] = IggyMembership(name, sequence)
        wait = _Wait(name.connection, sequence, now_ms + SETTLES_MS, done, joins=True)
        self._waits.append(wait)

    def remove(self, connection: int, sequence: int, now_ms: int, done: Settled) -> None:
        """A member leaves."""
        del self.members[connection]
        if not self.members:
            self._left_ms = now_ms
        self._waits.append(_Wait(connection, sequence, now_ms + SETTLES_MS, done, joins=False))

    def is_over(self, now_ms: int) -> bool:
        """Whether nothing has to be said about the group any more: who left is out by silence, at the
        latest."""
        return not self.members and not self._waits and now_ms - self._left_ms > SILENCE_MS

    def is_current(self, now_ms: int) -> bool:
        """Whether what the coordinator said last counts still: it gives partitions of silent brokers away."""
        return now_ms - self._heard_ms < SILENCE_MS

    def said(self) -> IggyGroupSaid:
        """What is said to the coordinator."""
        members = self.members.values()
        return IggyGroupSaid(
            self.born,
            max((each.generation for each in members), default=0),
            [
                IggyMemberSaid(each.name.connection, each.name.client_id, int(each.name.is_sticky))
                for each in members
            ],
            [IggyPartitionReleased(connection, number) for connection, number in self._released()],
        )

    @property
    def waits(self) -> bool:
        """Whether a join or a leave is not answered."""
        return bool(self._waits)

    @property
    def has_released(self) -> bool:
        """Whether a member has done with a partition that it is to give up."""
        return any(self._released())

    def has_released_since(self, said: IggyGroupSaid) -> bool:
        """Whether a member has done with a partition that this word about the group does not give up yet."""
        given_up = {(each.connection, each.partition) for each in said.released}
        return any(each not in given_up for each in self._released())

    def _released(self) -> Iterator[tuple[int, int]]:
        """(connection, partition) of what members are to give up and have done with."""
        for each in self.members.values():
            for number in each.released():
                yield each.name.connection, number

    def hear(
        self, told: IggyGroupTold, said: Sequence[int], sequence: int, sent_ms: int
    ) -> list[tuple[Settled, ErrorCode]]:
        """The coordinator has answered a message. said: the connections that the message named. Returns who
        has an answer now, and which: not while something is to be given up at once, which may be for those
        that wait."""
        if sequence <= self._applied or told.error in _PASSING:
            return []
        self._applied = sequence
        if told.error:
            self._drop(said, sequence)
            return self._settled(sequence, ErrorCode(told.error))
        self._heard_ms = sent_ms
        found = set()
        for each in told.members:
            found.add(each.connection)
            member = self.members.get(each.connection)
            if member is not None and member.first_sequence <= sequence:
                member.hear(told.generation, each.partitions, each.draining)
        self._drop([connection for connection in said if connection not in found], sequence)
        return [] if self.has_released else self._settled(sequence, ErrorCode.GROUP_FULL)

    def _drop(self, connections: Iterable[int], sequence: int) -> None:
        """Those that a message named are no members."""
        for connection in connections:
            member = self.members.get(connection)
            if member is not None and member.first_sequence <= sequence:
                del self.members[connection]

    def _settled(self, sequence: int, refusal: ErrorCode) -> list[tuple[Settled, ErrorCode]]:
        """Who waits for no later message than this one. refusal: the answer to joins that failed."""
        settled = [wait for wait in self._waits if wait.sequence <= sequence]
        self._waits = [wait for wait in self._waits if wait.sequence > sequence]
        return [(wait.done, self._outcome(wait, refusal)) for wait in settled]

    def _outcome(self, wait: _Wait, refusal: ErrorCode) -> ErrorCode:
        member = self.members.get(wait.connection)
        if not wait.joins or (member is not None and member.is_member):
            return ErrorCode.NONE
        return refusal

    def expire(self, now_ms: int) -> list[tuple[Settled, ErrorCode]]:
        """Who has waited for too long, and what is answered. A connection that the coordinator never took is
        no member."""
        late = [wait for wait in self._waits if wait.until_ms <= now_ms]
        if not late:
            return []
        self._waits = [wait for wait in self._waits if wait.until_ms > now_ms]
        answers = [(wait.done, self._outcome(wait, ErrorCode.COORDINATOR_NOT_AVAILABLE)) for wait in late]
        for wait in late:
            member = self.members.get(wait.connection)
            if member is not None and not member.is_member:
                del self.members[wait.connection]
        return answers
