"""Members of Iggy's groups: they join, poll the partitions that they are given, store how far they came,
leave, and go without a word."""

from enum import Enum

from tank_node.coordinators.iggy.consumer_ids import group_consumer
from tank_protos.generated.iggy import (
    IggyConsumer,
    JoinConsumerGroupRequest,
    LeaveConsumerGroupRequest,
    PollMessagesRequest,
    StoreConsumerOffsetRequest,
)
from tank_protos.iggy.eras import B3
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import ConsumerKind, PollingKind
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_marks import MarkPlace
from tests.simulation.iggy.iggy_tenant import GROUP
from tests.simulation.iggy.iggy_visitor import STREAM, IggyVisitor
from tests.simulation.world.iggy_meant import IggyMeant
from tests.simulation.world.world import must
from tests.support.iggy.iggy_polls import read_poll

_NOBODY = IggyError.CONSUMER_GROUP_MEMBER_NOT_FOUND


class Shares(Enum):
    """What a member's request under way asks for."""

    JOIN = 0
    POLL = 1
    STORE = 2
    LEAVE = 3


class IggySharer(IggyVisitor):
    """One of them."""

    def __init__(self, ledger: IggyLedger, pause_us: int, name: str, topic: str, unrest: float) -> None:
        """unrest: how often it leaves, or goes without a word."""
        super().__init__(ledger, pause_us, name)
        self.unrest = unrest
        self.topic = topic
        self._commits_itself = self.world.random.random() < 0.4
        """It stores its offsets by requests of their own."""
        self._asks = Shares.JOIN
        self._is_member = False
        self._polled: tuple[int, int] | None = None
        """The partition and offset that it polled last, and has to store."""

    def logged_in(self) -> None:
        self._is_member = False
        self._polled = None

    def next_request(self) -> None:
        chance = self.world.random
        stream, topic, group = of_name(STREAM), of_name(self.topic), of_name(GROUP)
        who = IggyConsumer(ConsumerKind.GROUP, id=group)
        if not self._is_member:
            self._asks = Shares.JOIN
            self.ask(JoinConsumerGroupRequest(stream, topic, group=group), self.topic, GROUP)
        elif not self.is_settled and chance.random() < self.unrest:
            if chance.random() < 0.5:
                self.line.turn_away()
                return
            self._asks = Shares.LEAVE
            self.ask(LeaveConsumerGroupRequest(stream, topic, group=group), self.topic, GROUP)
        elif self._polled is not None:
            self._asks = Shares.STORE
            number, offset = self._polled
            self.ask(StoreConsumerOffsetRequest(who, stream, topic, 1, number, offset), self.topic, GROUP)
        else:
            self._asks = Shares.POLL
            auto = int(not self._commits_itself)
            count = chance.choice((1, 5, 50))
            poll = PollMessagesRequest(who, stream, topic, 0, 0, PollingKind.NEXT, 0, count, auto)
            self.ask(poll, self.topic, GROUP)

    def taken(self, meant: IggyMeant) -> None:
        if self._asks is Shares.STORE and meant.born and self._polled is not None:
            number, offset = self._polled
            place = MarkPlace(group_consumer(meant.born), meant.topic_id, number)
            self.ledger.marks.explicit[place].add(offset + 1)

    def took(self, payload: memoryview) -> None:
        match self._asks:
            case Shares.JOIN:
                self._is_member = True
                self.world.counts["iggy joins"] += 1
            case Shares.LEAVE:
                self._is_member = False
            case Shares.STORE:
                self._polled = None
            case Shares.POLL:
                self._took_messages(payload)

    def _took_messages(self, payload: memoryview) -> None:
        polled = read_poll(B3, bytes(payload))
        key = self.meant.topic_id, polled.partition
        books = self.ledger.books.of(key)
        if books.may_show_changed_bytes:
            return
        number = 0
        for offset, shown in polled.messages:
            must(offset + 1 > number, "%s gets %s behind %s", self.name, offset + 1, number)
            expected = books.next_from(number + 1) if number else offset + 1
            counts = self.ledger.books.read(key, offset + 1, shown)
            must(not counts or offset + 1 == expected or books.waits or shown in books.before,
                 "%s gets %s of %s behind %s", self.name, offset + 1, key, number)  # fmt: skip
            number = offset + 1
            self.world.counts["iggy messages read by groups"] += 1
        if number and self._commits_itself:
            self._polled = polled.partition, number - 1

    def refused(self, error: IggyError) -> None:
        self._polled = None
        if error is not IggyError.DISCONNECTED:  # it is no member any more, or the group is another one
            self._is_member = False
