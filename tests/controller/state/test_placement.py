"""Placement: distinct brokers, even loads, spread over racks, the same every time."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tank_controller.state.placement import Spread, spread_of


def empty(racks: dict[int, str]) -> Spread:
    return spread_of([(broker_id, rack, 0) for broker_id, rack in racks.items()])


def place(spread: Spread, count: int, replication_factor: int) -> list[tuple[int, ...]]:
    return spread.place(count, replication_factor, {})


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str], int]:
    racks = draw(
        st.dictionaries(st.integers(1, 50), st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9)
    )
    return racks, draw(st.integers(1, len(racks)))


@given(clusters(), st.integers(0, 40))
def test_replicas_are_distinct_spread_over_racks_and_even(
    cluster: tuple[dict[int, str], int], count: int
) -> None:
    racks, replication_factor = cluster
    placed = place(empty(racks), count, replication_factor)
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == replication_factor
        assert set(replicas) <= racks.keys()
        used = {racks[broker] for broker in replicas}
        assert len(used) == min(replication_factor, len(set(racks.values()))), (
            "no rack twice before all are used"
        )
    assert placed == place(empty(racks), count, replication_factor)


@given(st.integers(1, 8), st.integers(1, 50))
def test_replicas_and_leaders_are_even_where_all_racks_are_alike(brokers: int, count: int) -> None:
    racks = dict.fromkeys(range(1, brokers + 1), "")
    placed = place(empty(racks), count, min(3, brokers))
    held = Counter(broker for replicas in placed for broker in replicas)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(held.values()) - min(held[broker] for broker in racks) <= 1
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 2


def test_a_new_broker_takes_what_comes_next() -> None:
    brokers = spread_of([(1, "", 3), (2, "", 2), (3, "", 0)])
    assert [replicas[0] for replicas in place(brokers, 2, 1)] == [3, 3]
