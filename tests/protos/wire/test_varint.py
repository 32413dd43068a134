"""Variable-length integers: TANK's lengths, counts and distances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.wire import varint
from tank_protos.wire.errors import OutOfRange, Truncated

EXAMPLES = [
    (0, "00"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (2**32 - 1, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "form"), EXAMPLES)
def test_the_worked_examples(value: int, form: str) -> None:
    assert varint.encode(value).hex() == form
    assert varint.read(bytes.fromhex(form), 0) == (value, len(form) // 2)
    assert varint.size(value) == len(form) // 2


@given(st.integers(0, 2**32 - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_what_is_encoded_is_read_between_other_bytes(value: int, before: bytes, behind: bytes) -> None:
    data = before + varint.encode(value) + behind
    assert varint.read(memoryview(data), len(before)) == (value, len(data) - len(behind))


@given(st.integers(0, 2**32 - 1))
def test_cut_short_is_truncated(value: int) -> None:
    form = varint.encode(value)
    for end in range(len(form)):
        with pytest.raises(Truncated):
            varint.read(form[:end], 0)


@pytest.mark.parametrize("form", ["ffffffff10", "ffffffffff", "808080808000", "ffffffff7f"])
def test_more_than_32_bits_or_five_bytes_is_refused(form: str) -> None:
    with pytest.raises(OutOfRange):
        varint.read(bytes.fromhex(form), 0)


def test_longer_forms_than_needed_are_read() -> None:
    assert varint.read(b"\x80\x00", 0) == (0, 2)
    assert varint.read(b"\x85\x80\x80\x80\x00", 0) == (5, 5)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_what_does_not_fit_is_not_encoded(value: int) -> None:
    with pytest.raises(OutOfRange):
        varint.encode(value)
