"""One group of Iggy's clients: its coordinators, its log, brokers with members, and messages on their way."""

from dataclasses import dataclass, field

from tank_node.coordinators.iggy.iggy_group import IggyGroupMachine
from tank_node.coordinators.machine.group_actions import Answer, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer, IggyMemberName, Release
from tank_node.coordinators.records.group_records import read
from tank_node.coordinators.records.iggy_records import IggyRecord
from tank_node.peers.group_errors import error_code
from tank_node.peers.iggy.iggy_group_here import IggyGroupHere
from tank_node.peers.iggy.iggy_membership import IggyMembership
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import IggyGroupSaid, IggyGroupTold, IggyMemberTold
from tests.support.groups.known_iggys import KnownIggys

BORN = 7
GROUP = "iggy:g:7"


@dataclass
class BrokerSide:
    """One process of a broker."""

    broker: int
    epoch: int
    here: IggyGroupHere = field(default_factory=lambda: IggyGroupHere(BORN))
    sequence: int = 0
    outcomes: list[ErrorCode] = field(default_factory=list)

    def member(self, connection: int) -> IggyMembership | None:
        return self.here.members.get(connection)


@dataclass
class OnItsWay:
    """A message, and when it was sent; its answer comes back the same way."""

    side: BrokerSide
    said: BrokerSaid
    group: IggyGroupSaid
    sent_ms: int
    coordinator: int
    """Which of the coordinators gets it."""


class IggyWorld:
    """Brokers speak for members to a coordinator that may be replaced by the next one."""

    def __init__(self, partitions: int = 4) -> None:
        self.known = KnownIggys(partitions)
        self.now_ms = 1_000
        self.limits = GroupLimits()
        self.group = IggyGroupMachine(GROUP, self.known, self.limits)
        self.coordinator = 1
        self.stored: tuple[bytes, bytes | None] | None = None
        """The newest record of the group in the log."""
        self.unstored: list[StoreRecords] = []
        self.messages: list[OnItsWay] = []
        self.answers: list[tuple[OnItsWay, IggyAnswer]] = []
        self.sides = [BrokerSide(1, 101), BrokerSide(2, 102), BrokerSide(3, 103)]
        self._tokens: dict[int, OnItsWay] = {}
        self._count = 0

    # --- brokers -----------------------------------------------------------------------------------

    def join(self, side: BrokerSide, connection: int, *, is_sticky: bool = True) -> None:
        name = IggyMemberName(connection, connection + 1_000, is_sticky)
        side.here.add(name, side.sequence + 1, self.now_ms, side.outcomes.append)
        self.say(side)

    def leave(self, side: BrokerSide, connection: int) -> None:
        if connection in side.here.members:
            side.here.remove(connection, side.sequence + 1, self.now_ms, side.outcomes.append)
            self.say(side)

    def say(self, side: BrokerSide) -> None:
        """The broker sends what there is to say."""
        side.sequence += 1
        group = side.here.said()
        said = BrokerSaid(
            side.broker,
            side.epoch,
            side.sequence,
            [IggyMemberName(each.connection, each.client_id, bool(each.is_sticky)) for each in group.members],
            group.generation,
            [Release(each.connection, each.partition) for each in group.released],
        )
        self.messages.append(OnItsWay(side, said, group, self.now_ms, self.coordinator))

    def restart(self, side: BrokerSide) -> None:
        """The broker's process ends, with its connections; another one registers."""
        self.known.lost.add((side.broker, side.epoch))
        place = self.sides.index(side)
        self.sides[place] = BrokerSide(side.broker, side.epoch + 100)

    # --- the coordinator ---------------------------------------------------------------------------

    def deliver(self, message: OnItsWay) -> None:
        """A message arrives at the coordinator that it was sent to, if that is one still."""
        if message.coordinator != self.coordinator:
            self.answers.append((message, IggyAnswer(GroupError.NOT_COORDINATOR)))
            return
        self._count += 1
        self._tokens[self._count] = message
        self.group.take(self.now_ms, message.said, self._count)
        self._act()

    def _act(self) -> None:
        for action in self.group.take_actions(self.now_ms):
            if isinstance(action, Answer):
                assert isinstance(action.answer, IggyAnswer)
                assert isinstance(action.token, int)
                self.answers.append((self._tokens.pop(action.token), action.answer))
            else:
                assert isinstance(action, StoreRecords)
                self.unstored.append(action)

    def store(self) -> None:
        """The oldest change on its way is stored."""
        if self.unstored:
            action = self.unstored.pop(0)
            (self.stored,) = action.records
            self.group.stored(self.now_ms, action.change, GroupError.NONE)
            self._act()

    def fail(self, *, is_kept: bool) -> None:
        """The oldest change is not acknowledged; it may be in the log all the same."""
        if self.unstored:
            action = self.unstored.pop(0)
            if is_kept:
                (self.stored,) = action.records
            self.group.stored(self.now_ms, action.change, GroupError.NOT_AVAILABLE)
            self._act()

    def move(self, *, keeps_unstored: bool = False) -> None:
        """Another broker coordinates the group from now on, and reads what is stored."""
        if keeps_unstored and self.unstored:
            (self.stored,) = self.unstored[0].records
        self.unstored.clear()
        for message in self._tokens.values():
            self.answers.append((message, IggyAnswer(GroupError.NOT_COORDINATOR)))
        self._tokens.clear()
        self.coordinator += 1
        if self.stored is None:
            self.group = IggyGroupMachine(GROUP, self.known, self.limits)
            return
        record = read(*self.stored)
        assert isinstance(record, IggyRecord)
        assert record.value is not None
        self.group = IggyGroupMachine.from_image(GROUP, self.known, self.limits, record.value, self.now_ms)

    def hear(self, message: OnItsWay, answer: IggyAnswer) -> None:
        """An answer arrives at its broker."""
        members = [
            IggyMemberTold(each.connection, list(each.partitions), list(each.draining))
            for each in answer.members
        ]
        told = IggyGroupTold(error_code(answer.error), answer.generation, members)
        named = [each.connection for each in message.group.members]
        side = message.side
        for done, error in side.here.hear(told, named, message.said.sequence, message.sent_ms):
            done(error)

    def wait(self, ms: int) -> None:
        """Time passes; the coordinator looks when it wants to."""
        until_ms = self.now_ms + ms
        while True:
            due_ms = self.group.next_deadline_ms()
            if due_ms is None or due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.group.expire(self.now_ms)
            self._act()
        self.now_ms = until_ms
        for side in self.sides:
            for done, error in side.here.expire(self.now_ms):
                done(error)

    # --- all of it ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Everything that is on its way arrives, and all is stored."""
        while self.messages or self.answers or self.unstored:
            while self.messages:
                self.deliver(self.messages.pop(0))
            self.store()
            while self.answers:
                message, answer = self.answers.pop(0)
                self.hear(message, answer)
                if message.side.here.has_released and not answer.error:
                    self.say(message.side)

    def beat(self, ms: int = 1_000) -> None:
        """Time passes, and each broker that has members speaks."""
        self.wait(ms)
        for side in self.sides:
            if side.here.members:
                self.say(side)

    def pollers(self, partition: int) -> list[tuple[int, int, int]]:
        """Who may poll a partition now: broker, epoch, connection."""
        return [
            (side.broker, side.epoch, connection)
            for side in self.sides
            if side.here.is_current(self.now_ms)
            for connection, member in side.here.members.items()
            if partition in member.partitions
        ]

    def shares(self) -> dict[int, tuple[int, ...]]:
        """What each connection may poll."""
        return {
            connection: member.partitions
            for side in self.sides
            for connection, member in side.here.members.items()
        }
