"""What a consumer makes of a fetched chunk: bounds, partial bundles, holes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_client import OutOfBoundsPolicy, errors
from tank_client.consuming.fetch_state import FetchState
from tank_client.model import FetchedChunk
from tank_protos.bundle import as_batch, encode, encode_sparse


def bundle(first: int, count: int) -> bytes:
    return as_batch(encode([b"%d" % n for n in range(first, first + count)], timestamps=7))


CHUNK = bundle(10, 5) + bundle(15, 5) + bundle(20, 5)


def fetched(chunk: bytes, base: int, mark: int, *, sparse: bool = False) -> FetchedChunk:
    return FetchedChunk(base, mark, memoryview(chunk), sparse)


def state(number: int, stop_after: int | None = None) -> FetchState:
    return FetchState("t", 0, number, number, stop_after=stop_after)


@given(st.integers(10, 24), st.integers(9, 30), st.none() | st.integers(10, 30))
def test_only_what_was_asked_and_is_committed_comes_out(
    asked: int, mark: int, stop_after: int | None
) -> None:
    reading = state(asked, stop_after)
    batch = reading.take(fetched(CHUNK, 10, mark))
    upper = min(24, mark, 99 if stop_after is None else stop_after)
    wanted = list(range(asked, upper + 1))
    found = [] if batch is None else list(batch.numbers)
    assert found == wanted
    if batch is not None:
        assert batch.values == [b"%d" % n for n in wanted]
        assert batch.timestamps_ms == [7] * len(wanted)
        assert batch.keys == [None] * len(wanted)
        assert reading.fetch_from == batch.next_number == upper + 1
        assert reading.done == (stop_after is not None and reading.fetch_from > stop_after)


@given(st.integers(1, len(CHUNK)))
def test_wherever_the_chunk_is_cut_whole_bundles_come_out(size: int) -> None:
    reading = state(10)
    batch = reading.take(fetched(CHUNK[:size], 10, 24))
    whole = sum(size >= len(bundle(10, 5)) * n for n in (1, 2, 3)) * 5
    assert (0 if batch is None else len(batch)) == whole
    assert reading.fetch_from == 10 + whole


def test_less_than_a_bundle_asks_for_more_up_to_the_limit() -> None:
    reading = state(1)
    assert reading.take(fetched(CHUNK[:10], 1, 5)) is None
    assert reading.fetch_bytes == 20
    assert reading.take(fetched(CHUNK[:20], 1, 5)) is None
    assert reading.fetch_bytes == 40
    reading.fetch_bytes = 64 << 20
    with pytest.raises(errors.CorruptBundle):
        reading.take(fetched(CHUNK[:20], 1, 5))


def test_sparse_bundles_bring_their_own_numbers_and_holes_are_passed() -> None:
    sparse = as_batch(encode_sparse([30, 35, 40], [b"a", b"b", b"c"], timestamps=1))
    reading = state(25)
    batch = reading.take(fetched(sparse + bundle(41, 2), 0, 100, sparse=True))
    assert batch is not None
    assert list(batch.numbers) == [30, 35, 40, 41, 42]
    assert reading.fetch_from == 43
    assert reading.behind
    middle = state(36)
    batch = middle.take(fetched(sparse, 777, 100))  # a woken answer says flag 0 and a base
    assert batch is not None
    assert list(batch.numbers) == [40]


def test_a_flag_without_its_numbers_is_refused() -> None:
    with pytest.raises(errors.CorruptBundle):
        state(1).take(fetched(CHUNK, 0, 100, sparse=True))


def test_good_bundles_before_a_bad_one_come_out_first() -> None:
    bad = bytes([3, 0x80, 0, 0])
    reading = state(10)
    batch = reading.take(fetched(bundle(10, 5) + bad, 10, 24))
    assert batch is not None
    assert reading.fetch_from == 15
    with pytest.raises(errors.CorruptBundle, match="t/0"):
        reading.take(fetched(bad, 15, 24))


def test_a_corrupt_body_is_found_when_it_is_looked_at() -> None:
    broken = bytearray(bundle(1, 3))
    broken[11] = 200  # the length of the first content
    batch = state(1).take(fetched(bytes(broken), 1, 3))
    assert batch is not None
    with pytest.raises(errors.CorruptBundle):
        batch.values  # noqa: B018


def test_nothing_new_waits_and_the_end_is_seen() -> None:
    reading = state(20, stop_after=24)
    reading.seek(25)
    assert reading.done
    reading = state(20, stop_after=24)
    assert reading.take(fetched(b"", 0, 24)) is None
    assert reading.done, "numbers 20 to 24 were compacted away"
    reading = state(20)
    assert reading.take(fetched(CHUNK, 10, 19)) is None
    assert not reading.behind
    assert reading.fetch_from == 20


def test_out_of_bounds_goes_where_the_policy_says() -> None:
    bounds = errors.OutOfBounds("t", 0, 5, 100, 200)
    for policy, number in ((OutOfBoundsPolicy.EARLIEST, 100), (OutOfBoundsPolicy.LATEST, 201)):
        reading = state(5)
        reading.out_of_bounds(bounds, policy)
        assert reading.fetch_from == reading.position == number
    with pytest.raises(errors.OutOfBounds, match="100 to 200, not 5"):
        state(5).out_of_bounds(bounds, OutOfBoundsPolicy.ERROR)


def test_what_is_in_the_buffer_keeps_its_position_when_the_rest_expired() -> None:
    reading = state(5)
    reading.fetch_from = 50
    reading.out_of_bounds(errors.OutOfBounds("t", 0, 50, 100, 200), OutOfBoundsPolicy.EARLIEST)
    assert (reading.position, reading.fetch_from) == (5, 100)
