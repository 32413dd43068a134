"""What a leader remembers of stored offsets."""

from tank_node.peers.iggy.position_cache import IggyPlace, PositionCache
from tank_protos.error_codes import ErrorCode

ONE, TWO, THREE = (IggyPlace("iggy:c:#0", 7, number) for number in range(3))


def test_another_leader_epoch_knows_nothing_of_the_one_before() -> None:
    cache = PositionCache(2)
    cache.at(ONE, 1).set(5)
    assert cache.at(ONE, 1).committed == 5
    assert not cache.at(ONE, 2).is_known


def test_the_longest_unused_one_goes_first() -> None:
    cache = PositionCache(2)
    for place in (ONE, TWO, ONE, THREE):
        cache.at(place, 1)
    assert cache.excess() == TWO
    cache.forget(TWO)
    assert cache.excess() is None
    assert len(cache) == 2


def test_the_newest_offset_alone_is_to_be_stored() -> None:
    cache = PositionCache(2)
    for committed in (5, 6):
        found = cache.at(ONE, 1)
        found.set(committed)
        cache.soil(ONE, found)
    assert [(place, each.committed) for place, each in cache.take_dirty()] == [(ONE, 6)]
    assert cache.take_dirty() == []


def test_what_is_stored_at_once_is_not_stored_again() -> None:
    cache = PositionCache(2)
    found = cache.at(ONE, 1)
    cache.soil(ONE, found)
    cache.clean(ONE, found)
    assert cache.take_dirty() == []


def test_who_waits_hears_what_is_set() -> None:
    found = PositionCache(2).at(ONE, 1)
    heard: list[tuple[ErrorCode, int | None]] = []
    found.readers.append(lambda error, committed: heard.append((error, committed)))
    for reader in found.set(None):
        reader(ErrorCode.NONE, None)
    assert heard == [(ErrorCode.NONE, None)]
    assert found.set(1) == []
