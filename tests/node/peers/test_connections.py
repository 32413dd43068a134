"""When this broker dials another one, dials again, and hangs up: the test plays the dialer and the clock."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView
from tank_node.dialer import Dialer
from tank_node.peers.connections import PeerConnections
from tank_node.peers.identity import PeerIdentity
from tank_node.peers.outbound import PushSession
from tank_node.purpose import Purpose
from tank_node.replication.stream import ReplicationStream
from tank_node.session import Session
from tank_protos.generated.tank import PushAnswer, ReplicaIdRequest
from tests.support.nodes.bench_node import BenchNode

LIVE, CATCH_UP = Purpose.LIVE, Purpose.CATCH_UP
OTHER, THIRD = 2, 3
STEP_MS = 50
SILENCE_MS = 6_000
FROZEN_MS = 1_000
"""As the limits have them."""


class NotingDialer(Dialer):
    """Remembers what it is to do; an attempt stays open until the test ends it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.refuses = False
        self.ends_late = False
        """Whether what is hung up ends later: the test closes it."""
        self.dialed_ms: list[int] = []
        self.addresses: list[tuple[str, int]] = []
        self.hung_up: list[Session] = []

    def dial(self, host: str, port: int, session: Session) -> None:
        self.dialed_ms.append(self._now_ms())
        self.addresses.append((host, port))
        if self.refuses:
            session.close()

    def hang_up(self, session: Session) -> None:
        self.hung_up.append(session)
        if not self.ends_late:
            session.close()


class Owner:
    """A broker whose connections carry pushes of no partition."""

    def __init__(
        self,
        node: BenchNode,
        *,
        to_fenced: bool = True,
        first_pause_ms: int = 100,
        dials_on_news: bool = True,
    ) -> None:
        self.node = node
        self.view = node.controller.view
        for broker_id in (OTHER, THIRD):
            self.view.brokers[broker_id] = BrokerView(broker_id, 40 + broker_id, f"b{broker_id}", 11011, "")
        node.pass_ms(0)
        self.wanted: set[tuple[int, Purpose]] = set()
        self.dialer = NotingDialer(node.clock.monotonic_ms)
        self.connections: PeerConnections[PushSession] = PeerConnections(
            node.broker,
            self.dialer,
            self._make,
            wants=lambda broker_id, purpose: (broker_id, purpose) in self.wanted,
            to_fenced=to_fenced,
            first_pause_ms=first_pause_ms,
            dials_on_news=dials_on_news,
        )

    def _make(self, identity: PeerIdentity) -> PushSession:
        now_ms = self.node.clock.monotonic_ms
        stream = ReplicationStream(
            identity.peer, now_ms=now_ms(), window_bytes=1 << 20, far_bytes=1 << 20, heartbeat_ms=500
        )
        return PushSession(
            identity, stream, now_ms=now_ms, opened=lambda session: None, ended=self.connections.ended
        )

    def want(self, broker_id: int = OTHER, purpose: Purpose = LIVE) -> PushSession:
        """From now on, dialed at once."""
        self.wanted.add((broker_id, purpose))
        self.connections.dial(broker_id, purpose)
        return self.there(broker_id, purpose)

    def there(self, broker_id: int = OTHER, purpose: Purpose = LIVE) -> PushSession:
        connection = self.connections.to(broker_id, purpose)
        assert connection is not None
        return connection

    def opened(self, broker_id: int = OTHER, purpose: Purpose = LIVE) -> PushSession:
        """The other broker has answered the opening."""
        connection = self.want(broker_id, purpose)
        own = connection.identity
        answer = ReplicaIdRequest(
            own.peer, own.cluster_id, own.peer_epoch, own.own_id, own.purpose, own.key
        ).encode()
        connection.frame(ReplicaIdRequest.ID, memoryview(b"".join(answer)))
        return connection

    def change(self, **fields: object) -> None:
        """What the view says of the other broker."""
        for name, value in fields.items():
            setattr(self.view.brokers[OTHER], name, value)
        for listener in self.node.controller.tell_brokers:
            listener()

    def late_tick(self, late_ms: int) -> bool:
        """Whether that is taken for a process that stood still."""
        self.node.pass_ms(late_ms)
        self.connections.tick()
        return self.connections.stood_still

    def run(self, ms: int) -> None:
        for _ in range(0, ms, STEP_MS):
            self.late_tick(STEP_MS)

    @property
    def pauses(self) -> list[int]:
        return [after - before for before, after in pairwise(self.dialer.dialed_ms)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path) as node:
        yield node


@pytest.fixture
def owner(node: BenchNode) -> Owner:
    return Owner(node)


# --- dialing ---------------------------------------------------------------------------------------


def test_a_broker_is_dialed_at_its_address_and_as_its_present_process(owner: Owner) -> None:
    identity = owner.want().identity
    assert owner.dialer.addresses == [("b2", 11011)]
    assert (identity.peer, identity.peer_epoch, identity.own_epoch) == (OTHER, 42, 1)
    assert (identity.purpose, identity.cluster_id) == (LIVE, "test-cluster")


def test_a_broker_is_not_dialed_twice_for_one_purpose(owner: Owner) -> None:
    first = owner.want()
    owner.connections.dial(OTHER, LIVE)
    owner.run(1000)
    assert owner.there() is first
    owner.want(OTHER, CATCH_UP)
    owner.want(THIRD, LIVE)
    assert owner.dialer.addresses == [("b2", 11011), ("b2", 11011), ("b3", 11011)]
    assert owner.connections.all() == [first, owner.there(OTHER, CATCH_UP), owner.there(THIRD, LIVE)]


def test_what_ended_is_dialed_again_while_it_is_wanted(owner: Owner) -> None:
    owner.opened().close()
    assert owner.connections.to(OTHER, LIVE) is None
    owner.run(200)
    assert len(owner.dialer.dialed_ms) == 2
    owner.there().close()
    owner.wanted.clear()
    owner.run(5000)
    assert len(owner.dialer.dialed_ms) == 2
    owner.connections.dial(OTHER, LIVE)
    assert len(owner.dialer.dialed_ms) == 3, "its owner may ask all the same"


def test_a_broker_outside_of_the_view_is_dialed_when_it_is_there(owner: Owner) -> None:
    known = owner.view.brokers.pop(OTHER)
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(1000)
    assert not owner.dialer.dialed_ms
    owner.view.brokers[OTHER] = known
    owner.run(STEP_MS)
    assert len(owner.dialer.dialed_ms) == 1


def test_no_broker_is_dialed_before_this_one_is_registered(owner: Owner) -> None:
    owner.node.controller.broker_epoch = 0
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(1000)
    assert not owner.dialer.dialed_ms
    owner.node.controller.broker_epoch = 7
    owner.run(STEP_MS)
    assert owner.there().identity.own_epoch == 7


@pytest.mark.parametrize("to_fenced", [True, False])
def test_fenced_brokers_are_connected_where_the_owner_wants_that(node: BenchNode, to_fenced: bool) -> None:
    owner = Owner(node, to_fenced=to_fenced)
    connection = owner.opened()
    owner.change(fenced=True)
    owner.run(STEP_MS)
    assert connection.closed is not to_fenced
    owner.run(1000)
    assert len(owner.dialer.dialed_ms) == 1
    assert (owner.connections.to(OTHER, LIVE) is connection) is to_fenced


def test_pauses_double_and_are_bounded(owner: Owner) -> None:
    owner.dialer.refuses = True
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(10_000)
    assert owner.pauses[:7] == [100, 200, 400, 800, 1600, 2000, 2000]


@pytest.mark.parametrize(("first_pause_ms", "pauses"), [(100, [100, 200, 400]), (0, [50, 100, 200])])
def test_after_a_connection_that_was_open_pauses_begin_anew(
    node: BenchNode, first_pause_ms: int, pauses: list[int]
) -> None:
    owner = Owner(node, first_pause_ms=first_pause_ms)
    owner.dialer.refuses = True
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(4000)
    owner.dialer.refuses = False
    owner.run(2000)
    connection = owner.opened()
    owner.dialer.dialed_ms[:] = [node.clock.monotonic_ms()]
    owner.dialer.refuses = True
    connection.close()
    owner.run(1000)
    assert owner.pauses[:3] == pauses, "without a pause the next tick dials"


def test_a_change_of_brokers_is_dialed_at_once(owner: Owner) -> None:
    owner.dialer.refuses = True
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(4000)
    attempts = len(owner.dialer.dialed_ms)
    owner.run(STEP_MS)
    assert len(owner.dialer.dialed_ms) == attempts, "a pause is under way"
    owner.change(host="elsewhere")
    owner.run(STEP_MS)
    assert owner.dialer.addresses[attempts:] == [("elsewhere", 11011)]


def test_where_news_end_no_pause_a_change_of_brokers_is_no_reason_to_dial(node: BenchNode) -> None:
    owner = Owner(node, dials_on_news=False)
    owner.dialer.refuses = True
    owner.wanted.add((OTHER, LIVE))
    owner.connections.dial(OTHER, LIVE)
    owner.run(4000)
    attempts = len(owner.dialer.dialed_ms)
    for _ in range(10):
        owner.change(host="elsewhere")
        owner.run(STEP_MS)
    assert len(owner.dialer.dialed_ms) <= attempts + 1


# --- dead connections ------------------------------------------------------------------------------


def test_an_attempt_without_an_answer_is_given_up(owner: Owner) -> None:
    attempt = owner.want()
    owner.run(SILENCE_MS - STEP_MS)
    assert not attempt.closed
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [attempt]


def test_a_broker_that_owes_an_answer_too_long_is_hung_up_and_dialed_again(owner: Owner) -> None:
    connection = owner.opened()
    owner.run(2 * SILENCE_MS)
    assert not connection.closed, "it owes none"
    connection.beat()  # a heartbeat, which is answered
    owner.run(SILENCE_MS - STEP_MS)
    assert not connection.closed
    connection.frame(PushAnswer.ID, memoryview(b"".join(PushAnswer(1, 0, []).encode())))
    owner.run(SILENCE_MS)
    assert not connection.closed
    connection.beat()
    owner.run(SILENCE_MS)
    assert owner.dialer.hung_up == [connection]
    owner.run(200)
    assert owner.there() is not connection


def test_a_later_process_of_the_other_broker_is_connected_anew(owner: Owner) -> None:
    connection = owner.opened()
    owner.change(epoch=77)
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [connection]
    owner.run(200)
    assert owner.there().identity.peer_epoch == 77


def test_a_broker_that_left_the_cluster_is_hung_up(owner: Owner) -> None:
    connection = owner.opened()
    del owner.view.brokers[OTHER]
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [connection]


def test_a_new_registration_of_this_broker_makes_its_connections_anew(owner: Owner) -> None:
    connection = owner.opened()
    owner.node.controller.broker_epoch = 99
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [connection]
    owner.run(200)
    assert owner.there().identity.own_epoch == 99


def test_a_connection_that_is_done_ends(owner: Owner) -> None:
    waiting = owner.want(OTHER, CATCH_UP)
    owner.run(500)
    assert not waiting.closed, "before it is open it is not done"
    done = owner.opened(OTHER, CATCH_UP)
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [done]


# --- a process that stood still --------------------------------------------------------------------


def test_a_process_that_stood_still_reads_before_it_hangs_up(owner: Owner) -> None:
    attempt, connection = owner.want(THIRD), owner.opened()
    owner.run(500)
    connection.beat()
    assert owner.late_tick(2 * SILENCE_MS)
    assert not owner.dialer.hung_up
    connection.frame(PushAnswer.ID, memoryview(b"".join(PushAnswer(1, 0, []).encode())))
    assert not owner.late_tick(STEP_MS)
    assert owner.dialer.hung_up == [attempt], "the other one has answered meanwhile"


def test_one_that_stood_still_hangs_up_in_the_next_tick_what_is_replaced(owner: Owner) -> None:
    connection = owner.opened()
    owner.change(epoch=77)
    assert owner.late_tick(FROZEN_MS)
    assert not connection.closed
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [connection]


def test_one_that_stood_still_dials_all_the_same(owner: Owner) -> None:
    owner.opened().close()
    assert owner.late_tick(FROZEN_MS)
    assert len(owner.dialer.dialed_ms) == 2


def test_one_whose_ticks_are_always_late_hangs_up_in_every_other(owner: Owner) -> None:
    assert owner.late_tick(FROZEN_MS)
    attempt = owner.want()
    assert not owner.late_tick(SILENCE_MS)
    assert owner.dialer.hung_up == [attempt]
    assert owner.late_tick(FROZEN_MS)


def test_a_tick_that_is_hardly_late_is_none_of_one_that_stood_still(owner: Owner) -> None:
    assert not owner.late_tick(FROZEN_MS - 1)


# --- a connection for what is to be sent now -------------------------------------------------------


def test_reaching_a_broker_dials_it_once(owner: Owner) -> None:
    first = owner.connections.reach(OTHER, LIVE)
    assert first is not None
    assert owner.connections.reach(OTHER, LIVE) is first
    assert len(owner.dialer.dialed_ms) == 1


def test_a_broker_that_cant_be_reached_says_so_until_the_pause_is_over(owner: Owner) -> None:
    owner.dialer.refuses = True
    assert owner.connections.reach(OTHER, LIVE) is None
    owner.dialer.refuses = False
    assert owner.connections.reach(OTHER, LIVE) is None
    assert len(owner.dialer.dialed_ms) == 1
    owner.run(100)
    assert owner.connections.reach(OTHER, LIVE) is not None


def test_reaching_a_later_process_makes_the_connection_anew(node: BenchNode) -> None:
    owner = Owner(node, first_pause_ms=0)
    old = owner.opened()
    owner.change(epoch=77)
    new = owner.connections.reach(OTHER, LIVE)
    assert owner.dialer.hung_up == [old]
    assert new is not None
    assert new.identity.peer_epoch == 77


def test_after_standing_still_a_silent_broker_is_reached_on_the_connection_that_is_there(
    owner: Owner,
) -> None:
    attempt = owner.want()
    owner.node.pass_ms(SILENCE_MS)
    assert owner.connections.reach(OTHER, LIVE) is attempt, "before the tick"
    owner.connections.tick()
    assert owner.connections.reach(OTHER, LIVE) is attempt, "and before what came is read"
    owner.run(STEP_MS)
    assert owner.dialer.hung_up == [attempt]


# --- ends ------------------------------------------------------------------------------------------


def test_closing_hangs_up_all(owner: Owner) -> None:
    owner.wanted.clear()
    all_of_them = [owner.opened(), owner.want(OTHER, CATCH_UP), owner.want(THIRD)]
    owner.connections.close()
    assert all(connection.closed for connection in all_of_them)
    assert len(owner.dialer.hung_up) == 3
    assert not owner.connections.all()
    owner.run(5000)
    assert len(owner.dialer.dialed_ms) == 3


def test_a_broker_that_is_let_go_loses_its_connections_and_its_pause_alone(owner: Owner) -> None:
    owner.dialer.refuses = True
    owner.wanted.add((OTHER, CATCH_UP))
    owner.connections.dial(OTHER, CATCH_UP)
    owner.dialer.refuses = False
    gone, stays = owner.opened(), owner.want(THIRD)
    owner.wanted.clear()
    owner.connections.let_go(OTHER)
    assert owner.dialer.hung_up == [gone]
    assert owner.connections.all() == [stays]
    owner.connections.dial(OTHER, CATCH_UP)
    assert owner.there(OTHER, CATCH_UP)


def test_the_late_end_of_a_connection_leaves_its_successor_alone(owner: Owner) -> None:
    owner.dialer.ends_late = True
    old = owner.opened()
    owner.connections.let_go(OTHER)
    new = owner.want()
    old.close()
    assert owner.there() is new
    owner.connections.hang_up(new)
    new.close()
    assert owner.connections.to(OTHER, LIVE) is None
