"""Records and record batches of Kafka's formats: good ones, and ones with something changed."""

from random import Random
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import Headers, KafkaRecord
from tests.fuzz import mutate

CONTENTS: Final = (None, b"", b"k", b"value", b"x" * 63, b"y" * 64, b"z" * 256)
_TIMES: Final = (0, 1, -1, 63, 64, -65, 10**9, 2**40, 2**62, -(2**62))
STAMP_MS: Final = 1_795_212_193_980


def some(chance: Random) -> list[KafkaRecord]:
    """One to nine records, whose offsets follow one another. Some have the headers of the one before."""
    common = _headers(chance)
    return [
        KafkaRecord(
            chance.choice(CONTENTS),
            chance.choice(CONTENTS),
            index,
            chance.choice(_TIMES),
            common if chance.random() < 0.5 else _headers(chance),
        )
        for index in range(chance.choice((1, 1, 2, 3, 9)))
    ]


def _headers(chance: Random) -> Headers:
    if chance.random() < 0.7:
        return ()
    return tuple((chance.choice(CONTENTS) or b"", chance.choice(CONTENTS)) for _ in range(2))


def batch(chance: Random) -> bytes:
    """A batch with something changed; mostly its length and its checksum are right all the same."""
    codec = chance.choice(list(KafkaCodec))
    good = record_batch.encode(some(chance), base_timestamp_ms=STAMP_MS, codec=codec)
    made = bytearray(mutate.payload(chance, good, b"\xff" * 20))
    if chance.random() < 0.8 and len(made) >= record_batch.HEADER_BYTES:
        made[8:12] = (len(made) - 12).to_bytes(4, "big")
        made[16] = record_batch.MAGIC
        made[17:21] = crc32c(made[21:]).to_bytes(4, "big")
    return bytes(made)
