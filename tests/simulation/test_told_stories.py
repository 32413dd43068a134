"""Stories that are told, not left to chance: losses that the simulator's seeds have found."""

import pytest

from tank_controller.state_parts import PartitionState
from tests.simulation.brokers import BrokerMachine
from tests.simulation.cluster_story import ClusterStory
from tests.simulation.ingredients import Wanted
from tests.simulation.network import Weather
from tests.simulation.story import listening
from tests.simulation.world import SECOND

BROKERS_OF_THREE = 1
"""A seed whose cluster has three brokers."""


class ToldStory(ClusterStory):
    """Three brokers to which nothing happens but what is told; one topic with its clients. All that must hold
    is looked at after every event."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(BROKERS_OF_THREE)
        assert len(self.brokers) == 3
        self.network.weather = Weather()
        self.among = frozenset()
        self.wanted = Wanted("told", 1, 3, settings)
        self._wanted[:] = [self.wanted]
        for node in self.cluster.nodes.values():
            node.start()
        self.go_on(3 * SECOND)
        for broker in self.brokers.values():
            broker.start()
        self.go_on(SECOND)
        self._create(self.wanted)
        self.go_on(2 * SECOND)
        assert self.wanted.topic_id

    def go_on(self, time_us: int) -> None:
        """For so long."""
        self.world.run_until(self.world.now + time_us)

    @property
    def placed(self) -> PartitionState:
        """Of the partition, as the leading controller has it."""
        state = self._state()
        assert state is not None
        return state.topics[self.wanted.topic_id].partitions[0]


def lose_power(broker: BrokerMachine) -> None:
    """All that was not synced is lost, to the last byte."""
    for path, file in broker.disk.names.items():
        if file is not None:
            broker.disk.overwrite(path, bytes(file.durable))
    broker.end(True)


@pytest.mark.parametrize("starts", [1, 2])
def test_a_lost_tail_stays_unsure_however_often_the_process_starts_before_anybody_hears_of_it(
    starts: int,
) -> None:
    story = ToldStory({"flush": "replicated", "min.insync.replicas": "2"})
    with listening(story.world):
        leader = story.brokers[story.placed.leader]
        follower, away = (each for each in story.brokers.values() if each is not leader)
        away.end(False)
        story.go_on(4 * SECOND)
        assert set(story.placed.in_sync) == {leader.broker_id, follower.broker_id}
        lose_power(follower)
        for _ in range(starts):
            follower.start()
            follower.end(False)  # nobody has heard of it yet
        leader.end(False)
        follower.start()
        story.go_on(3 * SECOND)
        assert story.placed.leader == 0, "it has lost what was acknowledged, and says so"
        leader.start()
        story.go_on(3 * SECOND)
        assert story.placed.leader == leader.broker_id
        away.start()
        story.go_on(5 * SECOND)
        assert sorted(story.placed.in_sync) == sorted(story.placed.replicas)
        assert story.placed.lossy_elections == 0
        story.books.check_acknowledged()
