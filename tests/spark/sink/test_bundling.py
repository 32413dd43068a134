"""The sink's bundles: where rows go and where bundles end follows from the rows alone."""

import itertools
from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_tank.bundling import Bundler, BundleRows, KeyPartitioner, SinkTopic, TopicPartition
from pyspark_tank.errors import SinkError
from tank_client.producing.partitioner import crc32c

keys = st.one_of(st.none(), st.binary(max_size=3))
rows = st.lists(st.tuples(keys, st.binary(max_size=40)), max_size=60)
Bundles = dict[TopicPartition, list[BundleRows]]


def bundle(
    messages: list[tuple[bytes | None, bytes]], cuts: list[int], *, topic: str | None = "t", task: int = 0
) -> Bundles:
    bundler = Bundler(
        KeyPartitioner(lambda _: SinkTopic(3), task, 7), topic, max_rows=7, max_bytes=100, now_ms=lambda: 5
    )
    table = pa.table(
        {"key": pa.array([key for key, _ in messages], pa.binary()),
         "value": pa.array([value for _, value in messages], pa.binary())}
    )  # fmt: skip
    bounds = sorted({0, len(messages), *(cut % (len(messages) + 1) for cut in cuts)})
    made: Bundles = defaultdict(list)
    for begin, end in itertools.pairwise(bounds):
        for batch in table.slice(begin, end - begin).combine_chunks().to_batches():
            for where, part in bundler.add(batch):
                made[where].append(part)
    for where, part in bundler.finish():
        made[where].append(part)
    return dict(made)


@given(rows, st.lists(st.integers(0, 60), max_size=8))
def test_how_spark_cuts_its_batches_changes_nothing(
    messages: list[tuple[bytes | None, bytes]], cuts: list[int]
) -> None:
    assert bundle(messages, cuts) == bundle(messages, [])


@given(rows)
def test_every_row_once_in_order_within_bounds(messages: list[tuple[bytes | None, bytes]]) -> None:
    made = bundle(messages, [])
    assert sum(len(part.values) for parts in made.values() for part in parts) == len(messages)
    for where, parts in made.items():
        for part in parts:
            names = part.keys or [None] * len(part.values)
            size = sum(
                len(value or b"") + len(name or b"") for value, name in zip(part.values, names, strict=True)
            )
            assert 1 <= len(part.values) <= 7
            assert size <= 100 or len(part.values) == 1
            assert all(name is None or crc32c(name) % 3 == where.partition for name in names)
    for name in {key for key, _ in messages if key}:
        expected = [value for key, value in messages if key == name]
        parts = made[TopicPartition("t", crc32c(name) % 3)]
        found = [
            value
            for part in parts
            for value, key in zip(part.values, part.keys or [None] * len(part.values), strict=True)
            if key == name
        ]
        assert found == expected


@pytest.mark.parametrize(
    ("size", "rows_of_bundles"), [(50, [2, 2, 2, 1]), (49, [2, 2, 2, 1]), (33, [3, 3, 1]), (101, [1] * 7)]
)
@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6]])
def test_a_bundle_takes_what_just_fits(size: int, rows_of_bundles: list[int], cuts: list[int]) -> None:
    made = bundle([(b"k", b"x" * (size - 1))] * 7, cuts)
    assert [[len(part.values) for part in parts] for parts in made.values()] == [rows_of_bundles]


def test_a_full_bundle_takes_no_row_of_the_next_batch() -> None:
    (made,) = bundle([(b"k", b"x")] * 9, [7]).values()
    assert [len(part.values) for part in made] == [7, 2]


def test_rows_without_key_go_round_in_runs_from_the_tasks_own_partition() -> None:
    made = bundle([(None, b"%d" % number) for number in range(20)], [], task=1)
    assert {where.partition: [part.values for part in parts] for where, parts in made.items()} == {
        1: [[b"%d" % number for number in range(7)]],
        2: [[b"%d" % number for number in range(7, 14)]],
        0: [[b"%d" % number for number in range(14, 20)]],
    }
    assert all(part.keys is None for parts in made.values() for part in parts)


def add(batch: dict[str, pa.Array], topic: str | None = None) -> dict[TopicPartition, list[bytes | None]]:
    bundler = Bundler(KeyPartitioner(lambda _: SinkTopic(3), 0, 7), topic, max_rows=7, max_bytes=100)
    made: dict[TopicPartition, list[bytes | None]] = defaultdict(list)
    for where, part in [*bundler.add(pa.record_batch(batch)), *bundler.finish()]:
        made[where] += part.values
    return dict(made)


def test_rows_may_name_topic_and_partition() -> None:
    made = add(
        {
            "value": pa.array(["x", "y", None], pa.string()),
            "topic": pa.array(["a", "b", "a"]),
            "partition": pa.array([2, 1, 0], pa.int32()),
        }
    )
    assert made == {
        TopicPartition("a", 2): [b"x"],
        TopicPartition("b", 1): [b"y"],
        TopicPartition("a", 0): [b""],
    }


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), min_size=1, max_size=6),
    st.lists(st.integers(0, 1800), max_size=4),
    st.booleans(),
)
def test_long_runs_are_shared_out_as_single_rows_are(
    runs: list[tuple[int, int]], cuts: list[int], keyed: bool
) -> None:
    """Where rows of one partition lie together they are taken as slices; what they become is the same."""
    partitions = [partition for partition, rows in runs for _ in range(rows)]
    table = pa.table(
        {"value": pa.array([b"%d" % row for row in range(len(partitions))], pa.binary()),
         "partition": pa.array(partitions, pa.int32()),
         "key": pa.array([b"k%d" % row if keyed and row % 3 else None for row in range(len(partitions))])}
    )  # fmt: skip
    bundler = Bundler(KeyPartitioner(lambda _: SinkTopic(3), 0, 7), "t", max_rows=500, max_bytes=1 << 20)
    made: dict[int, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
    bounds = sorted({0, len(partitions), *(cut % (len(partitions) + 1) for cut in cuts)})
    parts = [table.slice(begin, end - begin).combine_chunks() for begin, end in itertools.pairwise(bounds)]
    bundles = [found for part in parts for batch in part.to_batches() for found in bundler.add(batch)]
    for where, part in [*bundles, *bundler.finish()]:
        made[where.partition] += zip(part.values, part.keys or [None] * len(part.values), strict=True)
    for partition in {*partitions}:
        rows = [row for row, chosen in enumerate(partitions) if chosen == partition]
        assert made[partition] == [(b"%d" % row, b"k%d" % row if keyed and row % 3 else None) for row in rows]


def test_the_topic_option_goes_before_the_column() -> None:
    made = add({"value": pa.array([b"x"]), "topic": pa.array([None], pa.string())}, topic="t")
    assert set(made) == {TopicPartition("t", 0)}


def test_a_null_partition_is_chosen_for_the_row() -> None:
    made = add({"value": pa.array([b"x", b"y"]), "partition": pa.array([None, 2], pa.int32())}, topic="t")
    assert made == {TopicPartition("t", 0): [b"x"], TopicPartition("t", 2): [b"y"]}


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(SinkError, match="0 to 2"):
        add({"value": pa.array([b"x"]), "partition": pa.array([partition], pa.int32())}, topic="t")


def test_a_null_topic_is_refused() -> None:
    with pytest.raises(SinkError, match="topic"):
        add({"value": pa.array([b"x"]), "topic": pa.array([None], pa.string())})


def rows_of(batch: dict[str, pa.Array], *, keeps_records: bool) -> list[BundleRows]:
    partitioner = KeyPartitioner(lambda _: SinkTopic(1, keeps_records), 0, 7)
    bundler = Bundler(partitioner, "t", max_rows=3, max_bytes=100, now_ms=lambda: 5)
    return [rows for _, rows in [*bundler.add(pa.record_batch(batch)), *bundler.finish()]]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_a_topic_of_record_batches_keeps_null_empty_keys_and_headers() -> None:
    headers = [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, [], None]
    batch = {
        "value": pa.array([b"a", None, b"", b"d"], pa.binary()),
        "key": pa.array([b"", None, b"k" * 300, None], pa.binary()),
        "headers": pa.array(headers, HEADERS),
    }
    first, second, third = rows_of(batch, keeps_records=True)
    assert (first.values, first.keys) == ([b"a", None], [b"", None])
    assert first.headers == [((b"h", b"1"), (b"h", None)), ()]
    assert (second.values, second.keys, second.as_records) == ([b""], [b"k" * 300], True)
    assert third.values == [b"d"]
    ((half, before), (other, after)) = first.halves()
    assert (half.headers, before, other.headers, after) == ([((b"h", b"1"), (b"h", None))], 0, [()], 1)


def test_a_topic_of_bundles_writes_null_as_empty_and_refuses_headers_with_advice() -> None:
    value = pa.array([b"a", None], pa.binary())
    nothing = pa.array([None, []], HEADERS)
    (rows,) = rows_of({"value": value, "headers": nothing}, keeps_records=False)
    assert (rows.values, rows.headers, rows.as_records) == ([b"a", b""], None, False)
    some = pa.array([None, [{"key": "h", "value": None}]], HEADERS)
    with pytest.raises(SinkError, match="--format kafka"):
        rows_of({"value": value, "headers": some}, keeps_records=False)


def test_a_header_needs_a_name() -> None:
    nameless = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(SinkError, match="without a name"):
        rows_of({"value": pa.array([b"a"]), "headers": nameless}, keeps_records=True)
