"""Compression of Kafka's batches: what clients write is read, what is too large is refused before it is."""

import gzip
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from random import Random
from struct import pack as struct_pack

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka import lz4_frame, zstd_frame
from tank_protos.kafka.codecs import XERIAL, KafkaCodec, codec_of, pack, unpack
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.limits import MAX_FRAMES, MIB, UNPACKED_FLOOR_BYTES, ZSTD_WINDOW_BYTES
from tests.support.examples import examples

COMPRESSED = [codec for codec in KafkaCodec if codec]
PROSE = b"to be or not to be, that is the question; " * 5_000
NOISE = Random(4).randbytes(150_000)
CONTENTS = [b"", b"a", b"abc" * 10, PROSE, NOISE, PROSE[:70_000] + NOISE, bytes(MIB)]


@pytest.mark.parametrize("codec", KafkaCodec)
@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_what_is_packed_comes_back(codec: KafkaCodec, content: bytes) -> None:
    packed = pack(codec, content)
    assert unpack(codec, packed) == content
    assert unpack(codec, memoryview(bytearray(packed))) == content


def test_attributes_name_the_codec() -> None:
    assert [codec_of(attributes) for attributes in (0, 1, 2, 3, 4, 0x18, 0x7C)] == [
        *KafkaCodec,
        KafkaCodec.NONE,
        KafkaCodec.ZSTD,
    ]
    for number in (5, 6, 7):
        with pytest.raises(InvalidRecords) as refused:
            codec_of(number)
        assert refused.value.fault is RecordsFault.UNSUPPORTED_CODEC


def test_snappy_is_read_raw_and_in_blocks_and_written_in_blocks() -> None:
    raw = bytes(cramjam.snappy.compress_raw(PROSE))
    assert unpack(KafkaCodec.SNAPPY, raw) == PROSE
    halves = [bytes(cramjam.snappy.compress_raw(half)) for half in (PROSE[:100], PROSE[100:])]
    framed = b"".join(struct_pack(">i", len(half)) + half for half in halves)
    # Clients disagree on how the two versions are written, and readers ignore them.
    for versions in ("0000000100000001", "0100000001000000"):
        assert unpack(KafkaCodec.SNAPPY, XERIAL + bytes.fromhex(versions) + framed) == PROSE
    assert pack(KafkaCodec.SNAPPY, b"abc").hex() == "82534e415050590000000001000000010000000503086162" + "63"


def test_gzip_is_read_in_several_members() -> None:
    assert unpack(KafkaCodec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


@pytest.mark.parametrize("codec", [KafkaCodec.GZIP, KafkaCodec.LZ4, KafkaCodec.ZSTD])
def test_very_many_frames_are_refused(codec: KafkaCodec) -> None:
    one = pack(codec, b"x")
    assert unpack(codec, one * MAX_FRAMES) == b"x" * MAX_FRAMES
    assert fault_of(codec, one * (MAX_FRAMES + 1)) is RecordsFault.TOO_LARGE


def test_skipped_frames_count() -> None:
    skipped = bytes.fromhex("502a4d18 00000000")
    packed = pack(KafkaCodec.ZSTD, b"x")
    assert unpack(KafkaCodec.ZSTD, skipped * (MAX_FRAMES - 1) + packed) == b"x"
    assert fault_of(KafkaCodec.ZSTD, skipped * MAX_FRAMES + packed) is RecordsFault.TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_packed_block_that_is_cut_is_refused_wherever(codec: KafkaCodec) -> None:
    packed = pack(codec, PROSE[:300] + NOISE[:50])
    whole = len(packed)
    # Snappy in blocks ends with any of them.
    ends = {16} if codec == KafkaCodec.SNAPPY else set()
    for end in range(whole):
        if end not in ends:
            assert fault_of(codec, packed[:end]) is RecordsFault.INVALID_RECORD, end


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bytes_behind_the_end_are_refused(codec: KafkaCodec) -> None:
    assert fault_of(codec, pack(codec, PROSE) + b"\0") is RecordsFault.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
@examples(60)
@given(data=st.data())
def test_garbage_raises_nothing_but_invalid_records(codec: KafkaCodec, data: st.DataObject) -> None:
    packed = bytearray(pack(codec, PROSE[:500]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for changed in (bytes(packed), data.draw(st.binary(max_size=40)), XERIAL + bytes(packed)):
        with suppress(InvalidRecords):
            unpack(codec, changed, mend_lz4=data.draw(st.booleans()))


@pytest.mark.parametrize("codec", KafkaCodec)
def test_what_unpacks_to_more_than_asked_for_is_refused(codec: KafkaCodec) -> None:
    packed = pack(codec, PROSE)
    assert unpack(codec, packed, max_bytes=len(PROSE)) == PROSE
    assert fault_of(codec, packed, max_bytes=len(PROSE) - 1) is RecordsFault.TOO_LARGE
    assert fault_of(codec, packed, max_bytes=0) is RecordsFault.TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: KafkaCodec) -> None:
    bomb = pack(codec, bytes(32 * MIB))

    def take() -> None:
        assert fault_of(codec, bomb, max_bytes=MIB) is RecordsFault.TOO_LARGE

    # A copy of what came, and gzip's blocks beside the whole that is made of them.
    assert peak_bytes(take) < 3 * MIB + 2 * len(bomb)


def test_a_few_bytes_never_unpack_to_the_whole_limit() -> None:
    """Blocks of one repeated byte: zstd puts 128 KiB into four bytes of them."""
    assert len(unpack(KafkaCodec.ZSTD, repeated(8))) == MIB
    assert len(unpack(KafkaCodec.ZSTD, repeated(UNPACKED_FLOOR_BYTES >> 17))) == UNPACKED_FLOOR_BYTES
    bomb = repeated((UNPACKED_FLOOR_BYTES >> 17) + 1)
    assert len(bomb) < 300
    assert fault_of(KafkaCodec.ZSTD, bomb) is RecordsFault.TOO_LARGE


def test_a_batch_as_large_as_producers_send_unpacks_whatever_it_holds() -> None:
    for codec in COMPRESSED:
        assert unpack(codec, pack(codec, bytes(MIB))) == bytes(MIB)


def repeated(blocks: int) -> bytes:
    """A zstd frame of so many blocks of 128 KiB, each of one byte repeated."""
    kinds = [(131_072 << 3 | 1 << 1 | (number == blocks - 1)) for number in range(blocks)]
    head = zstd_frame.MAGIC.to_bytes(4, "little") + b"\x00\x40"
    return head + b"".join(kind.to_bytes(3, "little") + b"x" for kind in kinds)


LIES = {
    "snappy, 2^32 bytes": (KafkaCodec.SNAPPY, "ffffffff0f00", RecordsFault.TOO_LARGE),
    "snappy, 2^20 bytes": (KafkaCodec.SNAPPY, "80804000", RecordsFault.INVALID_RECORD),
    "a snappy block of -1 bytes": (
        KafkaCodec.SNAPPY,
        "82534e4150505900 0000000100000001 ffffffff",
        RecordsFault.INVALID_RECORD,
    ),
    "an empty snappy block": (
        KafkaCodec.SNAPPY,
        "82534e4150505900 0000000100000001 00000000",
        RecordsFault.INVALID_RECORD,
    ),
    "lz4, a block of 2 GiB": (KafkaCodec.LZ4, "04224d18604082 ffffff7f 00", RecordsFault.INVALID_RECORD),
    "lz4 with a dictionary": (
        KafkaCodec.LZ4,
        "04224d186140 00000000 82 00000000",
        RecordsFault.INVALID_RECORD,
    ),
    "lz4 of version 2": (KafkaCodec.LZ4, "04224d18a04082 00000000", RecordsFault.INVALID_RECORD),
    "lz4 in blocks of 16 KiB": (KafkaCodec.LZ4, "04224d18603082 00000000", RecordsFault.INVALID_RECORD),
    "lz4 without a frame": (KafkaCodec.LZ4, "", RecordsFault.INVALID_RECORD),
    "lz4's header alone": (KafkaCodec.LZ4, "04224d18604082", RecordsFault.INVALID_RECORD),
    "lz4's size of content, cut": (KafkaCodec.LZ4, "04224d18684082", RecordsFault.INVALID_RECORD),
    "zstd with a window of 256 MiB": (KafkaCodec.ZSTD, "28b52ffd 00 90 010000", RecordsFault.TOO_LARGE),
    "zstd, 1 GiB in one segment": (
        KafkaCodec.ZSTD,
        "28b52ffd a0 00000040 010000",
        RecordsFault.TOO_LARGE,
    ),
    "zstd with a dictionary": (KafkaCodec.ZSTD, "28b52ffd 01 40 07 010000", RecordsFault.INVALID_RECORD),
    "zstd with a reserved bit": (KafkaCodec.ZSTD, "28b52ffd 08 40 010000", RecordsFault.INVALID_RECORD),
    "zstd with a reserved block": (KafkaCodec.ZSTD, "28b52ffd 00 40 070000", RecordsFault.INVALID_RECORD),
    "zstd, skipped alone": (KafkaCodec.ZSTD, "502a4d18 02000000 0000", RecordsFault.INVALID_RECORD),
    "zstd without a frame": (KafkaCodec.ZSTD, "", RecordsFault.INVALID_RECORD),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_in_a_frame_takes_no_memory(lie: str) -> None:
    codec, form, fault = LIES[lie]

    def take() -> None:
        assert fault_of(codec, bytes.fromhex(form)) is fault

    assert peak_bytes(take) < 100_000


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ("snappy, 2^20 bytes", "4 bytes of snappy cannot unpack to 1048576"),
        ("lz4 with a dictionary", "needs a dictionary"),
        ("zstd with a dictionary", "needs a dictionary"),
    ],
)
def test_a_lie_is_found_before_the_library_sees_it(lie: str, why: str) -> None:
    codec, form, _ = LIES[lie]
    with pytest.raises(InvalidRecords, match=why):
        unpack(codec, bytes.fromhex(form))


def test_the_widest_window_of_clients_is_taken() -> None:
    assert ZSTD_WINDOW_BYTES == 1 << 27
    assert unpack(KafkaCodec.ZSTD, bytes.fromhex("28b52ffd 00 88 0b0000 78")) == b"x"


def test_a_skipped_frame_of_zstd_means_nothing() -> None:
    packed = bytes.fromhex("502a4d18 02000000 0000") + pack(KafkaCodec.ZSTD, b"abc")
    assert unpack(KafkaCodec.ZSTD, packed) == b"abc"


@pytest.mark.parametrize("blocks", [b"", PROSE, NOISE])
def test_the_bounds_of_frames_hold_and_are_close(blocks: bytes) -> None:
    for most_unpacked, packed in (
        (lz4_frame.most_unpacked, pack(KafkaCodec.LZ4, blocks)),
        (zstd_frame.most_unpacked, pack(KafkaCodec.ZSTD, blocks)),
        (zstd_frame.most_unpacked, bytes(cramjam.zstd.compress(blocks))),
    ):
        assert len(blocks) <= most_unpacked(memoryview(packed)) <= len(blocks) + (128 << 10)


def test_a_few_bytes_of_a_large_block_are_not_taken_for_all_of_it() -> None:
    large = bytes.fromhex("04224d18607073") + b"\x05\0\0\0" + bytes(5) + bytes(4)
    assert lz4_frame.most_unpacked(memoryview(large)) == 255 * 5
    sized = bytes.fromhex("28b52ffd 20 1e 4d000018616263010086 6e08")
    assert zstd_frame.most_unpacked(memoryview(sized)) == 30
    assert unpack(KafkaCodec.ZSTD, sized) == b"abc" * 10
    two_blocks = bytes.fromhex("28b52ffd a0 400d0300 0c000000 0d000000")
    assert zstd_frame.most_unpacked(memoryview(two_blocks)) == 200_000


def fault_of(codec: KafkaCodec, packed: bytes, max_bytes: int = 64 * MIB) -> RecordsFault:
    with pytest.raises(InvalidRecords) as refused:
        unpack(codec, packed, max_bytes=max_bytes)
    return refused.value.fault


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
