"""Leaders of partitions that a coordinator hears of no more."""

from tank_node.peers.iggy import epoch_fence
from tank_node.peers.iggy.epoch_fence import EpochFence

PLACE = 7, 0


def test_a_leader_of_before_the_views_is_refused() -> None:
    fence = EpochFence()
    assert not fence.admits(PLACE, 2, in_view=3)
    assert fence.admits(PLACE, 3, in_view=3)


def test_a_leader_that_the_view_does_not_show_yet_ends_those_before_it() -> None:
    fence = EpochFence()
    assert fence.admits(PLACE, 4, in_view=3)
    assert not fence.admits(PLACE, 3, in_view=3)
    assert fence.admits((7, 1), 3, in_view=3), "another partition"
    assert fence.admits(PLACE, 4, in_view=4)
    assert not fence.admits(PLACE, 3, in_view=4)


def test_a_bounded_number_is_remembered() -> None:
    fence = EpochFence()
    for number in range(epoch_fence.MOST_PLACES + 1):
        assert fence.admits((number, 0), 2, in_view=1)
    assert fence.admits((0, 0), 1, in_view=1), "the oldest one is forgotten"
    assert not fence.admits((1, 0), 1, in_view=1)
