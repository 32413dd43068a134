"""Which brokers live: silence, broken streams, new leaders."""

from tank_controller import limits
from tank_controller.leader.brokers.liveness import BrokerLiveness, Loss
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster

TIMEOUT_MS = 6000
GRACE_MS = 300
ARRIVALS_END_MS = TIMEOUT_MS // limits.ARRIVALS_IN_A_SESSION


class Watched:
    """A cluster, and a leader that watches it."""

    def __init__(self, *brokers: int) -> None:
        self.cluster = Cluster(*brokers)
        self.sessions = BrokerLiveness(TIMEOUT_MS, GRACE_MS)
        self.sessions.lead(0)

    def connect(self, broker_id: int, now_ms: int = 0) -> None:
        self.sessions.connected(broker_id, self.cluster.epoch(broker_id), now_ms)

    def hear(self, broker_id: int, now_ms: int, seen_index: int = 0) -> None:
        self.sessions.heard(broker_id, self.cluster.epoch(broker_id), seen_index, now_ms)

    def lose(self, broker_id: int, now_ms: int) -> None:
        self.sessions.broken(broker_id, self.cluster.epoch(broker_id), now_ms)

    def tick(self, now_ms: int) -> list[str]:
        """What is done: "fence 1", "unfence 2"."""
        done = []
        for command in self.sessions.tick(self.cluster.state, now_ms):
            self.cluster.do(command)
            kind = command.WhichOneof("command")
            change = command.fence_broker if kind == "fence_broker" else command.unfence_broker
            done.append(f"{(kind or '').removesuffix('_broker')} {change.broker_id}")
        return done


def test_a_broker_that_is_silent_for_the_session_timeout_is_fenced() -> None:
    watched = Watched(1, 2)
    watched.connect(1)
    watched.connect(2)
    watched.hear(2, 5000)
    assert watched.tick(TIMEOUT_MS - 1) == []
    assert watched.tick(TIMEOUT_MS) == ["fence 1"]
    assert watched.tick(TIMEOUT_MS) == [], "it is fenced already"
    assert watched.tick(5000 + TIMEOUT_MS) == ["fence 2"]


def test_a_broken_stream_is_a_hint_the_broker_is_fenced_after_a_short_grace() -> None:
    watched = Watched(1)
    watched.connect(1)
    watched.lose(1, 1000)
    assert watched.tick(1000 + GRACE_MS - 1) == []
    assert watched.tick(1000 + GRACE_MS) == ["fence 1"]


def test_why_a_broker_is_fenced() -> None:
    watched = Watched(1, 2)
    watched.connect(1)
    watched.connect(2)
    watched.lose(1, 1000)
    assert watched.sessions.loss(1) is Loss.STREAM_BROKE
    assert watched.sessions.loss(2) is Loss.SILENT
    watched.connect(1, 1100)
    assert watched.sessions.loss(1) is Loss.SILENT, "it came back, and is silent now"
    watched.sessions.lead(2000)
    watched.connect(2, 2100)
    assert watched.sessions.loss(1) is Loss.STAYED_AWAY
    assert watched.sessions.loss(2) is Loss.SILENT


def test_a_broker_that_connects_again_within_the_grace_is_not_fenced() -> None:
    watched = Watched(1)
    watched.connect(1)
    watched.lose(1, 1000)
    watched.connect(1, 1200)
    assert watched.tick(1200 + TIMEOUT_MS - 1) == []


def test_a_broken_stream_gives_no_time_that_silence_has_used_up() -> None:
    watched = Watched(1)
    watched.connect(1)
    watched.lose(1, TIMEOUT_MS - 1)
    assert watched.tick(TIMEOUT_MS) == ["fence 1"]


def test_the_end_of_an_earlier_process_s_stream_says_nothing_about_the_present_one() -> None:
    watched = Watched(1)
    old = watched.cluster.epoch(1)
    watched.cluster.up(1)
    watched.connect(1)
    watched.sessions.broken(1, old, 100)
    watched.sessions.heard(1, old, 99, 100)
    assert watched.tick(TIMEOUT_MS - 1) == []
    assert watched.tick(TIMEOUT_MS) == ["fence 1"], "nor do its late heartbeats"


def test_a_new_leader_gives_every_broker_a_full_timeout() -> None:
    watched = Watched(1, 2)
    watched.connect(1)
    watched.sessions.lead(10_000)
    assert watched.tick(10_000 + TIMEOUT_MS - 1) == []
    assert watched.tick(10_000 + TIMEOUT_MS) == ["fence 1", "fence 2"]


def test_a_broker_that_does_not_come_to_a_new_leader_as_others_do_is_fenced_when_no_more_come() -> None:
    watched = Watched(1, 2, 3)
    watched.sessions.lead(10_000)
    assert watched.tick(13_000) == [], "none has come: this leader may be hard to reach"
    watched.connect(1, 13_000)
    assert watched.tick(13_000 + ARRIVALS_END_MS - 1) == []
    watched.connect(2, 13_000 + ARRIVALS_END_MS - 1)
    assert watched.tick(13_000 + 2 * ARRIVALS_END_MS - 2) == [], "the next may come, too"
    watched.hear(1, 13_000 + 2 * ARRIVALS_END_MS - 2)
    assert watched.tick(13_000 + 2 * ARRIVALS_END_MS - 1) == ["fence 3"]


def test_a_broker_that_came_to_a_new_leader_and_started_anew_has_a_full_timeout() -> None:
    watched = Watched(1, 2)
    watched.sessions.lead(10_000)
    for broker_id in (1, 2):
        watched.connect(broker_id, 10_000)
    watched.cluster.up(1)
    watched.hear(2, 12_000)
    assert watched.tick(10_000 + TIMEOUT_MS - 1) == []
    assert watched.tick(10_000 + TIMEOUT_MS) == ["fence 1"]


def test_a_stream_that_breaks_on_a_leader_that_never_had_it_is_no_hint() -> None:
    watched = Watched(1)
    watched.lose(1, 0)
    assert watched.tick(TIMEOUT_MS - 1) == []


def test_a_broker_is_unfenced_when_it_has_seen_its_registration() -> None:
    watched = Watched(1)
    watched.cluster.register(1)
    watched.connect(1)
    registered = watched.cluster.epoch(1)
    watched.hear(1, 10, registered - 1)
    assert watched.tick(10) == []
    watched.hear(1, 20, registered)
    assert watched.tick(20) == ["unfence 1"]


def test_a_broker_that_thaws_is_unfenced_when_it_has_seen_its_fencing() -> None:
    watched = Watched(1)
    watched.connect(1)
    watched.hear(1, 1, watched.cluster.state.index)
    assert watched.tick(1 + TIMEOUT_MS) == ["fence 1"]
    watched.hear(1, 8000, watched.cluster.state.index - 1)
    assert watched.tick(8000) == []
    watched.hear(1, 8100, watched.cluster.state.index)
    assert watched.tick(8100) == ["unfence 1"]


def test_a_broker_that_saw_its_registration_and_fell_silent_stays_fenced() -> None:
    watched = Watched(1)
    watched.cluster.register(1)
    watched.hear(1, 0, watched.cluster.epoch(1))
    assert watched.tick(TIMEOUT_MS) == []


def test_what_an_earlier_process_has_seen_does_not_unfence_the_present_one() -> None:
    watched = Watched(1)
    watched.hear(1, 0, 1000)
    watched.cluster.register(1)
    assert watched.tick(1) == []


def test_a_broker_that_shuts_down_is_not_unfenced() -> None:
    watched = Watched(1)
    watched.connect(1)
    watched.cluster.set_broker(1, shutting_down=True)
    watched.cluster.fence(1)
    watched.hear(1, 10, watched.cluster.state.index)
    assert watched.tick(10) == []


def test_so_many_are_fenced_at_a_time() -> None:
    brokers = range(1, limits.MAX_FENCES_PER_TICK + 3)
    watched = Watched(*brokers)
    assert len(watched.tick(TIMEOUT_MS)) == limits.MAX_FENCES_PER_TICK
    assert len(watched.tick(TIMEOUT_MS)) == 2


def test_a_broker_that_was_removed_is_forgotten() -> None:
    watched = Watched(1, 2)
    watched.connect(1)
    watched.connect(2)
    watched.cluster.fence(2)
    watched.cluster.do(pb.Command(remove_broker=pb.RemoveBroker(broker_id=2)))
    assert watched.tick(10) == []
    assert watched.sessions.known() == [1]
