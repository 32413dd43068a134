"""The fast decoder and a slow one written from the document agree on everything, good or bad."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.bundle import Codec, bundles, decode, encode
from tank_protos.wire.errors import InvalidBundle
from tests.support.examples import examples
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.golden_bundles import captured
from tests.support.values.slow_bundle import Bad, Row, slow_decode

pytestmark = pytest.mark.usefixtures("kernel")


def fast(bundle: bytes) -> list[Row] | None:
    try:
        return [tuple(message) for message in decode(bundle, 5)]  # type: ignore[misc]
    except InvalidBundle:
        return None


def slow(bundle: bytes) -> list[Row] | None:
    try:
        return slow_decode(bundle, 5)
    except Bad:
        return None


def test_they_agree_on_the_captures() -> None:
    for stretch in captured():
        for bundle in bundles(stretch.data):
            assert fast(bytes(bundle)) == slow(bytes(bundle)) is not None


@given(shapes())
def test_they_agree_on_good_bundles(shape: Shape) -> None:
    assert fast(shape.bundle) == slow(shape.bundle) is not None


@examples(300)
@given(shapes(), st.data())
def test_they_agree_on_spoiled_bundles(shape: Shape, data: st.DataObject) -> None:
    spoiled = bytearray(shape.bundle)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(spoiled), 40) - 1) | st.integers(0, len(spoiled) - 1))
        spoiled[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 127, 128]))
    assert fast(bytes(spoiled)) == slow(bytes(spoiled))


@examples(300)
@given(st.integers(1, 15), st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 127, 128]), max_size=60))
def test_they_agree_on_bytes_that_look_like_messages(count: int, body: list[int]) -> None:
    for head in (
        bytes([count << 2]),
        bytes([count << 2 | 0x40, 1, 0, 0, 0, 0, 0, 0, 0, *[30] * (count > 1)]),
    ):
        for first in (b"", bytes(9)):
            bundle = head + first + bytes(body)
            assert fast(bundle) == slow(bundle)


@pytest.mark.parametrize("count", [2, 5, 33])
@pytest.mark.parametrize("run", [1, 2, 3, 100])
@pytest.mark.parametrize("every_key", [0, 1, 2, 3])
def test_they_agree_on_runs_of_timestamps_and_keys(count: int, run: int, every_key: int) -> None:
    values = [b"%d" % index * (1 + 60 * (index % 7 == 3)) for index in range(count)]
    keys = [b"k%d" % index if every_key and index % every_key == 0 else None for index in range(count)]
    stamps = [index // run for index in range(count)]
    bundle = encode(values, timestamps=stamps, keys=keys, codec=Codec.NONE)
    assert fast(bundle) == slow(bundle) is not None
    for end in range(len(bundle)):
        assert fast(bundle[:end]) is None
        assert slow(bundle[:end]) is None
