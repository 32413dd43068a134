"""Where messages go."""

import pytest

from tank_client.errors import InvalidArgument
from tank_client.producing.partitioner import crc32c, key_hash, murmur2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # RFC 3720, appendix B.4, and the check value that CRC catalogues give.
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_is_castagnolis(key: bytes, value: int) -> None:
    assert crc32c(key) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # The vectors of Kafka's own test of murmur2, with the sign bit dropped.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, value: int) -> None:
    assert murmur2(key) == value & 0x7FFFFFFF


def test_partitioners_go_by_name() -> None:
    assert key_hash("crc32c") is crc32c
    assert key_hash("murmur2") is murmur2
    with pytest.raises(InvalidArgument, match="crc32c, murmur2"):
        key_hash("md5")
