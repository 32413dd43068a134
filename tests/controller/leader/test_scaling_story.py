"""Pods that are scaled, rolled, killed and brought back in any order, as a StatefulSet does it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import Governed
from tests.support.examples import examples

pytestmark = pytest.mark.thorough

FACTOR = 3
MOST = 6


@dataclass
class StatefulSet:
    """Brokers' pods, by broker id, all at a time (`podManagementPolicy: Parallel`)."""

    wanted: int = FACTOR
    grace_steps: int = 30
    world: Governed = field(default_factory=lambda: Governed(Cluster(1, 2, 3)))
    running: set[int] = field(default_factory=lambda: {1, 2, 3})
    stopping: dict[int, int] = field(default_factory=dict)
    """How many steps a pod's preStop may yet take."""

    def step(self) -> None:
        """Half a second."""
        state = self.world.cluster.state
        self.world.scaling.wanted = self.wanted
        for broker_id in range(1, MOST + 1):
            if broker_id <= self.wanted and broker_id not in self.running and broker_id not in self.stopping:
                self.world.cluster.up(broker_id)
                self.running.add(broker_id)
            if broker_id > self.wanted and broker_id in self.running:
                self.stop(broker_id)
        for broker_id in sorted(self.stopping):
            self.stopping[broker_id] -= 1
            if self.world.scaling.judge(state, broker_id, None, self.world.now_ms).may_stop:
                self._end_in_order(broker_id)
            elif self.stopping[broker_id] <= 0:
                self._end(broker_id)
        self.world.step()

    def stop(self, broker_id: int) -> None:
        if broker_id in self.running:
            self.running.remove(broker_id)
            self.stopping[broker_id] = self.grace_steps

    def kill(self, broker_id: int) -> None:
        if broker_id in self.running:
            self.running.remove(broker_id)
            self.world.cluster.fence(broker_id)

    def _end_in_order(self, broker_id: int) -> None:
        """Nobody's writes are refused for it."""
        state = self.world.cluster.state
        before = self._below_min_insync()
        leaves = broker_id > self.wanted and state.brokers[broker_id].scaled_down
        # When all are taken down, each keeps its replicas: no broker stays to take them over.
        assert self.wanted == 0 or not leaves or not state.held_by(broker_id), "it left with something"
        self.world.cluster.set_broker(broker_id, shutting_down=True)
        self._end(broker_id)
        assert self.wanted == 0 or self._below_min_insync() == before

    def _below_min_insync(self) -> int:
        """Partitions that take no messages, of those that could do without a replica."""
        topics = self.world.cluster.state.topics.values()
        spare = [topic for topic in topics if topic.replication_factor > topic.min_insync]
        return sum(len(each.in_sync) < topic.min_insync for topic in spare for each in topic.partitions)

    def _end(self, broker_id: int) -> None:
        del self.stopping[broker_id]
        if broker_id in self.world.cluster.state.brokers:
            self.world.cluster.fence(broker_id)


Step = Callable[[StatefulSet], None]


def time_passes(steps: int) -> Step:
    def run(pods: StatefulSet) -> None:
        for _ in range(steps):
            pods.step()

    return run


def scale(wanted: int) -> Step:
    return lambda pods: setattr(pods, "wanted", wanted)


def restart(broker_id: int) -> Step:
    return lambda pods: pods.stop(broker_id)


def kill(broker_id: int) -> Step:
    return lambda pods: pods.kill(broker_id)


brokers = st.integers(1, MOST)
stories = st.lists(
    st.one_of(
        st.integers(1, 40).map(time_passes),
        st.integers(0, MOST).map(scale),
        brokers.map(restart),
        brokers.map(kill),
    ),
    max_size=12,
)


@given(stories, st.integers(FACTOR, MOST))
@settings(examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example([scale(5), time_passes(1), time_passes(1)], 3)  # a move is worked out as it goes down again
@example([scale(5), time_passes(1), scale(0), time_passes(1)], 3)  # one that goes has the last messages
@example(
    [scale(4), time_passes(1), scale(1), time_passes(1), scale(0), time_passes(1)], 3
)  # one that is to go holds replicas when all are taken down
def test_whatever_was_scaled_rolled_and_killed_those_wanted_hold_all_in_the_end(
    story: list[Step], wanted: int
) -> None:
    pods = StatefulSet()
    pods.world.cluster.topic("wide", partitions=6, factor=FACTOR)
    pods.world.cluster.topic("narrow", partitions=2, factor=2)
    pods.world.cluster.topic("single", partitions=2, factor=1)
    for step in [*story, scale(wanted), time_passes(60)]:
        step(pods)
    for _ in range(400):
        pods.step()
        if set(pods.world.cluster.state.brokers) == set(range(1, wanted + 1)) and not pods.stopping:
            break
    state = pods.world.cluster.state
    left = [each for each in state.brokers if each > wanted]
    assert all(state.brokers[each].scaled_down for each in left), "it stays without being told why"
    assert all(state.derived.leaderless & set(state.held_by(each)) for each in left)
    assert not any(state.brokers[each].draining for each in range(1, wanted + 1))
    for name in ("wide", "narrow"):
        topic = state.topic(name)
        assert topic is not None
        for partition in topic.partitions:
            if not partition.leader and set(partition.eligible) & set(left):
                continue  # who stopped last of all has the last messages, and is not wanted: it keeps them
            assert set(partition.replicas) <= set(range(1, wanted + 1))
            assert len(partition.in_sync) == topic.replication_factor
