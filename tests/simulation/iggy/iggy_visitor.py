"""The base of Iggy's clients in the simulated world: connects anywhere, logs in, and asks one thing after
another."""

from typing import Final

from tank_protos.generated.iggy import LoginUserRequest
from tank_protos.iggy.errors import IggyError
from tank_protos.wire.message import Message
from tests.simulation.clients.client_lines import PATIENCE_US
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_wire import IggyWire
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.iggy_meant import IggyAsked, IggyMeant
from tests.simulation.world.iggy_services import ROOT_NAME, ROOT_PASSWORD
from tests.simulation.world.network import Network
from tests.simulation.world.serving import Addresses

STREAM: Final = "main"
SOFTWARE: Final = "0.9.0"
"""Of a client of era B3."""
NO_MEANT: Final = IggyMeant(0)
EXPECTED: Final = frozenset(
    {
        IggyError.FEATURE_UNAVAILABLE,
        IggyError.DISCONNECTED,
        IggyError.UNAUTHENTICATED,
        IggyError.INVALID_CREDENTIALS,
        IggyError.STREAM_NAME_NOT_FOUND,
        IggyError.STREAM_ID_NOT_FOUND,
        IggyError.STREAM_NAME_ALREADY_EXISTS,
        IggyError.TOPIC_NAME_NOT_FOUND,
        IggyError.TOPIC_ID_NOT_FOUND,
        IggyError.TOPIC_NAME_ALREADY_EXISTS,
        IggyError.INVALID_REPLICATION_FACTOR,
        IggyError.INVALID_PARTITIONS_COUNT,
        IggyError.PARTITION_NOT_FOUND,
        IggyError.NO_PARTITIONS,
        IggyError.INVALID_OFFSET,
        IggyError.CONSUMER_GROUP_ID_NOT_FOUND,
        IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
        IggyError.CONSUMER_GROUP_MEMBER_NOT_FOUND,
        IggyError.CANNOT_WRITE_FILE,
    }
)
"""What requests may end with where streams and topics come and go, brokers die and disks are full."""
_TURNS_AWAY: Final = frozenset({IggyError.DISCONNECTED, IggyError.CANNOT_WRITE_FILE})


class IggyVisitor:
    """One of them. It has one request under way."""

    shows_health = 3
    """So many good answers after the last fault show that the cluster serves it again."""

    def __init__(self, ledger: IggyLedger, pause_us: int, name: str) -> None:
        self.ledger = ledger
        self.world = ledger.world
        self.name = name
        self.active = True
        self.answered = 0
        """Requests that ended well."""
        self.is_settled = False
        """Whether the last fault is over."""
        self.line: IggyWire
        self.meant = NO_MEANT
        """What the request under way means to the broker that took it."""
        self._pause_us = pause_us
        self._is_in = False
        """Whether it has logged in on this connection."""
        self._waiting = False
        self._number = 0

    def open_line(
        self, network: Network, addresses: Addresses, brokers: dict[int, BrokerMachine]
    ) -> IggyWire:
        """Its way to the brokers."""
        self.line = IggyWire(network, addresses, brokers, self.name, self._heard, self._gone)
        return self.line

    def act(self) -> None:
        """The next request, when none is under way; again and again."""
        self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        if not self.active or self._waiting:
            return
        if not self.line.is_open:
            self.line.connect()
        elif self._is_in:
            self.next_request()
        else:
            login = LoginUserRequest(ROOT_NAME, ROOT_PASSWORD.decode(), SOFTWARE, "")
            self.ask(login)

    def ask(self, request: Message, topic: str = "", group: str = "", stream: str = STREAM) -> None:
        """Sends a request that names these."""
        self.line.tell(request, self._begin(topic, group, stream))

    def ask_bytes(self, code: int, payload: bytes, topic: str) -> None:
        """The same, with a payload that is made already."""
        self.line.tell_bytes(code, payload, self._begin(topic, "", STREAM))

    def _begin(self, topic: str, group: str, stream: str) -> IggyAsked:
        self._waiting = True
        self._number += 1
        number = self._number
        self.meant = NO_MEANT

        def told(meant: IggyMeant) -> None:
            if number == self._number and self._waiting:
                self.meant = meant
                self.taken(meant)

        def give_up() -> None:
            if self._waiting and self._number == number:
                self.line.turn_away()

        self.world.after(PATIENCE_US, None, give_up)
        return IggyAsked(stream, topic, group, told)

    def _heard(self, status: int, payload: memoryview) -> None:
        if not self._waiting:
            return
        self._waiting = False
        if not self._is_in:
            self._is_in = not status
            if status:
                self.line.turn_away()
            else:
                self.logged_in()
            return
        if not status:
            self.answered += 1
            self.took(payload)
            return
        error = IggyError(status)
        self.world.counts[f"iggy requests refused: {error.name.lower()}"] += 1
        if error not in EXPECTED:
            self.surprised(error)
        self.refused(error)
        if error in _TURNS_AWAY and self.world.chance(0.5):
            self.line.turn_away()

    @property
    def has_nothing(self) -> bool:
        """Whether what it is about is not there, and is not to be."""
        return False

    def surprised(self, error: IggyError) -> None:
        """An error that nothing in the story explains."""
        raise AssertionError(f"{self.name} is refused with {error.name}")

    def _gone(self) -> None:
        was_waiting, self._waiting = self._waiting, False
        was_in, self._is_in = self._is_in, False
        self.lost(was_waiting=was_waiting and was_in)

    # --- what each kind does ---

    def logged_in(self) -> None:
        """A new connection begins."""

    def next_request(self) -> None:
        """Asks something. None is under way, and the client is logged in."""
        raise NotImplementedError

    def taken(self, meant: IggyMeant) -> None:
        """A broker has taken the request, and does what is asked next."""

    def took(self, payload: memoryview) -> None:
        """The request ended well."""

    def refused(self, error: IggyError) -> None:
        """It ended with an error."""

    def lost(self, *, was_waiting: bool) -> None:
        """The connection is gone. was_waiting: with a request whose outcome nobody knows."""
