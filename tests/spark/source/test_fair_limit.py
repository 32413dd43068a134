"""How maxOffsetsPerTrigger shares out a batch: full, never over, and fair over many batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_tank.fair_limit import FairLimit
from pyspark_tank.offsets import OffsetRange

sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


def ranges_of(lengths: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, 1, 1 + size) for number, size in enumerate(lengths) if size]


@given(sizes, st.integers(1, 20_000))
def test_a_limited_batch_is_full_and_never_over(lengths: list[int], most: int) -> None:
    ranges = ranges_of(lengths)
    limited = FairLimit().limit(ranges, most)
    waiting = sum(part.size for part in ranges)
    assert sum(part.size for part in limited) == min(most, waiting)
    whole = {part.partition: part for part in ranges}
    for part in limited:
        assert part.start == whole[part.partition].start
        assert part.start < part.end <= whole[part.partition].end


@pytest.mark.parametrize("lengths", [[1_000_000, 3], [3, 1_000_000]])
def test_a_busy_partition_does_not_starve_a_quiet_one(lengths: list[int]) -> None:
    limited = FairLimit().limit(ranges_of(lengths), 100)
    assert [part.partition for part in limited] == [0, 1]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=12), st.integers(1, 20_000))
def test_shares_are_in_proportion_to_what_waits(lengths: list[int], most: int) -> None:
    """Each gets its proportional part of what is left when all have one, but for one that rounding adds."""
    ranges, count, waiting = ranges_of(lengths), len(lengths), sum(lengths)
    shares = dict.fromkeys(range(count), 0)
    shares |= {part.partition: part.size for part in FairLimit().limit(ranges, most)}
    if count < most < waiting:
        for number, length in enumerate(lengths):
            exact = 1 + (length - 1) * (most - count) / (waiting - count)
            assert exact - 1 <= shares[number] <= exact + 1


def bound(partitions: int, most: int) -> int:
    """The batches after which each partition that waited was read from."""
    return -(-partitions // most)


@given(
    st.integers(1, 40), st.integers(1, 50), st.integers(0, 39),
    st.lists(st.lists(st.integers(0, 39), max_size=8), min_size=1, max_size=80),
)  # fmt: skip
def test_no_partition_waits_longer_than_a_turn(
    partitions: int, most: int, busy: int, arrivals: list[list[int]]
) -> None:
    """One partition has a backlog that never ends, the others get messages now and then."""
    starts, ends = [1] * partitions, [1] * partitions
    ends[busy % partitions] = 1_000_000
    waited = [0] * partitions
    fair = FairLimit()
    for arrived in arrivals:
        for number in arrived:
            ends[number % partitions] += 1
        ranges = [
            OffsetRange("t", number, starts[number], ends[number])
            for number in range(partitions)
            if ends[number] > starts[number]
        ]
        limited = {part.partition: part for part in fair.limit(ranges, most)}
        assert sum(part.size for part in limited.values()) == min(most, sum(part.size for part in ranges))
        for part in ranges:
            number = part.partition
            waited[number] = 0 if number in limited else waited[number] + 1
            assert waited[number] < bound(partitions, most), f"partition {number} starves"
            if number in limited:
                starts[number] = limited[number].end


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("remembers", [True, False])
def test_eight_partitions_one_with_a_backlog(most: int, remembers: bool) -> None:
    """The one that has a backlog gets all that the others leave; a query started anew for each batch is fair
    as well.
    """
    starts = [1] * 8
    read = [0] * 8
    fair = FairLimit()
    for _ in range(300):
        if not remembers:
            fair = FairLimit()
        ends = [10_000_000, *(start + 1 for start in starts[1:])]
        for part in fair.limit([OffsetRange("t", n, starts[n], ends[n]) for n in range(8)], most):
            starts[part.partition] = part.end
            read[part.partition] += part.size
    assert sum(read) == 300 * most
    assert min(read) >= 300 * most // 8 - most, read
