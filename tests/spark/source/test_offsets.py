"""Which messages a batch covers, and how they are shared out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_tank.errors import OptionError
from pyspark_tank.offsets import OffsetRange, advance, ranges_between, split
from pyspark_tank.positions import offsets_from_json, offsets_to_json

sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


def ranges_of(lengths: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, 1, 1 + size) for number, size in enumerate(lengths) if size]


def test_a_range_for_each_partition_with_news() -> None:
    ranges = ranges_between({"a": {0: 5, 1: 9}}, {"b": {0: 3}, "a": {1: 9, 0: 8}})
    assert ranges == [OffsetRange("a", 0, 5, 8), OffsetRange("b", 0, 1, 3)]


def test_a_partition_that_lost_its_end_has_nothing_to_read() -> None:
    assert ranges_between({"a": {0: 50}}, {"a": {0: 8}}) == []
    assert advance({"a": {0: 50}}, {"a": {0: 8}}, []) == {"a": {0: 8}}


def test_what_is_not_read_stays_where_it_was() -> None:
    start, end = {"a": {0: 5, 1: 2}}, {"a": {0: 100, 1: 100, 2: 100}}
    ranges = [OffsetRange("a", 0, 5, 20)]
    assert advance(start, end, ranges) == {"a": {0: 20, 1: 2, 2: 1}}


@given(sizes, st.integers(1, 50), st.one_of(st.none(), st.integers(1, 3000)))
def test_shares_hold_every_message_once_in_order(lengths: list[int], least: int, most: int | None) -> None:
    ranges = ranges_of(lengths)
    pieces = split(ranges, least, most)
    assert pieces == split(ranges, least, most), "a replayed batch is shared out in the same way"
    assert all(piece.size > 0 for piece in pieces)
    if most is not None:
        assert all(piece.size <= most for piece in pieces)
    assert len(pieces) >= min(least, sum(part.size for part in ranges))
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].partition == piece.partition:
            assert piece.start == joined[-1].end
            joined[-1] = OffsetRange("t", piece.partition, joined[-1].start, piece.end)
        else:
            joined.append(piece)
    assert joined == ranges


def test_offsets_survive_the_checkpoint_as_the_same_text() -> None:
    offsets = {"b": {1: 7, 0: 5}, "a": {10: 1, 2: 3}}
    text = json.dumps(offsets_to_json(offsets))
    assert text == '{"a": {"2": 3, "10": 1}, "b": {"0": 5, "1": 7}}'
    assert offsets_from_json(json.loads(text)) == offsets


def test_a_topics_id_stands_where_versions_that_know_none_expect_a_partition() -> None:
    """So they end with an error, as docs/spark.md says of a downgrade, and read nothing wrong."""
    text = json.dumps(offsets_to_json({"a": {0: 5}}, {"a": 7}))
    assert text == '{"a": {"0": 5, "topicId": 7}}'
    assert offsets_from_json(json.loads(text)) == {"a": {0: 5}}
    with pytest.raises(OptionError, match="'topicIds' is not a partition's number"):
        offsets_from_json({"a": {"0": 5, "topicIds": 7}})


@pytest.mark.parametrize("bad", [None, [], {"a": 1}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"0": True}}])
def test_a_checkpoint_that_is_not_ours_is_refused(bad: object) -> None:
    with pytest.raises(OptionError):
        offsets_from_json(bad)
