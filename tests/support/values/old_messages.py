"""Message sets as clients of old compress them."""

from zlib import crc32

from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.message_set import OldMessage, encode
from tank_protos.kafka.xxh32 import xxh32
from tests.support.values.kafka_records import STAMP_MS


def wrapped(
    inner: bytes, magic: int, codec: int, offset: int, *, attributes: int = 0, stamp_ms: int = STAMP_MS
) -> bytes:
    """A set as a client compresses it: one message around it."""
    packed = bytearray(pack(KafkaCodec(codec), inner))
    if codec == KafkaCodec.LZ4 and magic == 0:
        packed[6] = xxh32(bytes(packed[:6])) >> 8 & 0xFF
    plain = bytearray(encode([OldMessage(offset, stamp_ms, None, bytes(packed))], magic))
    plain[17] = codec | attributes
    plain[12:16] = crc32(plain[16:]).to_bytes(4, "big")
    return bytes(plain)
