"""Frames of lz4: their header, its checksum, and the wrong one of the oldest messages."""

import cramjam
import pytest

from tank_protos.kafka import lz4_frame
from tank_protos.kafka.codecs import KafkaCodec, unpack
from tank_protos.kafka.errors import InvalidRecords

CONTENT = b"abcabcabcabcabcabcabcabc" * 10


def test_blocks_are_independent_of_64_kib_and_without_checksums() -> None:
    """The form of Java's client, which refuses blocks that refer to others."""
    assert lz4_frame.pack(memoryview(b"")).hex() == "04224d18604082" + "00000000"
    assert (
        lz4_frame.pack(memoryview(b"abc")).hex() == "04224d18604082" + "03000080" + b"abc".hex() + "00000000"
    )
    two = lz4_frame.pack(memoryview(bytes(64 << 10) + b"abc"))
    assert two.endswith(bytes.fromhex("03000080") + b"abc" + bytes(4))


@pytest.mark.parametrize("wrong", [0x00, 0x1C, 0xFF])
def test_a_wrong_header_checksum_is_mended(wrong: int) -> None:
    frame = bytearray(lz4_frame.pack(memoryview(CONTENT)))
    frame[6] = wrong
    with pytest.raises(InvalidRecords):
        unpack(KafkaCodec.LZ4, bytes(frame))
    assert unpack(KafkaCodec.LZ4, bytes(frame), mend_lz4=True) == CONTENT
    frame[6] = 0x82
    assert lz4_frame.mended(memoryview(frame)) == frame


def test_a_header_with_the_size_of_its_content_is_mended() -> None:
    plain = lz4_frame.pack(memoryview(CONTENT))
    sized = plain[:4] + bytes.fromhex("6840") + len(CONTENT).to_bytes(8, "little") + b"?" + plain[7:]
    assert unpack(KafkaCodec.LZ4, sized, mend_lz4=True) == CONTENT


def test_frames_with_checksums_and_dependent_blocks_are_read() -> None:
    """Of clients that Java's would not read: a broker needs not be as strict."""
    for linked in (True, False):
        packer = cramjam.lz4.Compressor(block_linked=linked, content_checksum=True)
        packer.compress(CONTENT * 1000)
        assert unpack(KafkaCodec.LZ4, bytes(packer.finish())) == CONTENT * 1000
