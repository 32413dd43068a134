"""The hash of lz4's header checksums, against values of the reference implementation."""

import pytest

from tank_protos.kafka.xxh32 import xxh32

# Of the bytes 0, 1, 2 and so on, so many of them.
HASHES = {
    0: 0x02CC5D05,
    1: 0xCF65B03E,
    3: 0x663E9A55,
    4: 0x80691E66,
    7: 0xA74336DC,
    8: 0xA3AD90B9,
    11: 0xB7181399,
    15: 0x57C01ECE,
}


@pytest.mark.parametrize("length", HASHES)
def test_hashes_of_the_reference(length: int) -> None:
    assert xxh32(bytes(range(length))) == HASHES[length]


def test_longer_input_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        xxh32(bytes(16))
