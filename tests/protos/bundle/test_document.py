"""The worked examples of `docs/protocol/bundle.md` are what the codec reads and writes."""

import re
from pathlib import Path

from tank_protos.bundle import Codec, Message, decode, encode, encode_sparse, read_header

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocol" / "bundle.md"
STAMP = 0x000001A1FAFC30BC


def examples(kind: str) -> list[bytes]:
    """The bytes of the fenced blocks: on each line, what stands before three spaces."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
    return [bytes.fromhex("".join(line.split("   ")[0] for line in block.splitlines())) for block in blocks]


PLAIN = [
    [Message(1 + index, STAMP, None, value) for index, value in enumerate((b"alpha", b"beta", b"gamma"))],
    [Message(1, 1000, b"k1", b"v1"), Message(2, 1001, b"k2", b"")],
    [Message(1 + index, 1, None, b"x") for index in range(16)],
    [
        Message(number, STAMP, None, b"y%d" % index)
        for index, number in enumerate((2000, 2005, 2010, 2015), 1)
    ],
    [Message(10, 0, None, b"a"), Message(11, 0, None, b"b"), Message(20, 0, None, b"c")],
    [Message(2**32 - 1, 0, None, b"")],
]


def test_the_examples_are_what_the_codec_reads_and_writes() -> None:
    for data, messages in zip(examples("example"), PLAIN, strict=True):
        assert decode(data, base=1) == messages
        numbers, stamps, keys, values = map(list, zip(*messages, strict=True))
        if read_header(data).sparse:
            assert encode_sparse(numbers, values, timestamps=stamps, keys=keys) == data
        else:
            assert encode(values, timestamps=stamps, keys=keys) == data


def test_the_compressed_example_is_read() -> None:
    [data] = examples("snappy")
    assert read_header(data).codec is Codec.SNAPPY
    assert decode(data, base=1) == [Message(1 + index, 1, None, b"abcdefgh") for index in range(40)]
