"""The integers inside records: their forms, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka import varint
from tank_protos.kafka.errors import InvalidRecords

FORMS = {0: "00", -1: "01", 1: "02", 63: "7e", -64: "7f", 64: "8001", 300: "d804", 2**31 - 1: "feffffff0f"}


@pytest.mark.parametrize("value", FORMS)
def test_the_sign_is_in_the_lowest_bit(value: int) -> None:
    assert varint.encode(value).hex() == FORMS[value]
    assert varint.read_i32(varint.encode(value), 0) == (value, len(FORMS[value]) // 2)


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_i32_comes_back(value: int) -> None:
    form = varint.encode(value)
    assert len(form) <= varint.I32_BYTES
    assert varint.read_i32(b"x" + form + b"y", 1) == (value, 1 + len(form))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_i64_comes_back(value: int) -> None:
    form = varint.encode(value)
    assert len(form) <= varint.I64_BYTES
    assert varint.read_i64(b"x" + form + b"y", 1) == (value, 1 + len(form))


def test_a_longer_form_than_needed_is_read() -> None:
    assert varint.read_i32(bytes.fromhex("8000"), 0) == (0, 2)


@pytest.mark.parametrize("form", ["ffffffff10", "808080808000", "ffffffffff"])
def test_an_i32_of_too_many_bits_or_bytes_is_refused(form: str) -> None:
    with pytest.raises(InvalidRecords, match="more than 5 bytes"):
        varint.read_i32(bytes.fromhex(form), 0)


@pytest.mark.parametrize("form", ["ff" * 9 + "02", "80" * 10 + "00"])
def test_an_i64_of_too_many_bits_or_bytes_is_refused(form: str) -> None:
    with pytest.raises(InvalidRecords, match="more than 10 bytes"):
        varint.read_i64(bytes.fromhex(form), 0)


def test_one_that_is_cut_says_so() -> None:
    with pytest.raises(IndexError):
        varint.read_i64(b"\x80\x80", 0)
