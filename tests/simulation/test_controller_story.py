"""The story of controllers alone: what people in it don't do."""

from tests.simulation.controller_story import NOTICED_WITHIN_US, ControllerStory
from tests.simulation.controllers import Cluster
from tests.simulation.network import Weather
from tests.simulation.world import SECOND


def test_nobody_is_taken_away_before_the_leader_can_know_that_anothers_disk_is_lost() -> None:
    story = ControllerStory(0)
    story.removes = story.faults.active = True
    story.network.weather = Weather()
    cluster = story.cluster = Cluster(story.world, story.network, 3)
    for node in cluster.nodes.values():
        node.start()
    lost = cluster.nodes[3]
    assert story.world.run_until(10 * SECOND, lambda: cluster.may_be_emptied(lost))
    assert story._may_remove()
    assert story._empty(lost)
    assert not story._may_remove()
    story.world.run_until(story.world.now + NOTICED_WITHIN_US)
    assert story._may_remove()
