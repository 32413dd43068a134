"""What Kafka's clients in the simulated world write, and what they find in answers."""

from collections.abc import Iterator, Sequence

from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.message_set import OldMessage
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields
from tank_protos.kafka.records import KafkaRecord
from tests.simulation.books.stored_batches import Message, kafka_messages

_BATCHES_SINCE = 3
"""The first version of Produce with record batches."""
_FETCHED_BATCHES_SINCE = 4
"""The first version of Fetch with them."""
_NO_TIME = -1


def encoded(
    version: int,
    values: Sequence[bytes],
    keys: Sequence[bytes] | None,
    timestamp_ms: int,
    codec: KafkaCodec = KafkaCodec.NONE,
    producer: ProducerFields = NO_PRODUCER,
) -> bytes:
    """These messages, as a client sends them in this version of Produce."""
    found: Sequence[bytes | None] = [None] * len(values) if keys is None else keys
    pairs = list(zip(found, values, strict=True))
    if version < _BATCHES_SINCE:
        magic = int(version == _BATCHES_SINCE - 1)
        stamp = timestamp_ms if magic else _NO_TIME
        return message_set.encode([OldMessage(at, stamp, *pair) for at, pair in enumerate(pairs)], magic)
    records = [KafkaRecord(*pair, at, 0) for at, pair in enumerate(pairs)]
    return record_batch.encode(records, base_timestamp_ms=timestamp_ms, codec=codec, producer=producer)


def decoded(version: int, data: bytes) -> Iterator[tuple[int, int, list[Message]]]:
    """The batches of an answer in this version of Fetch: (leader epoch, last number, messages). The epoch is
    -1 in message sets, which are one batch here. Raises InvalidRecords."""
    if version < _FETCHED_BATCHES_SINCE:
        old = message_set.decode(data, cut=True).messages
        if old:
            found = [Message(one.offset + 1, one.key or b"", one.value or b"") for one in old]
            yield -1, found[-1].number, found
        return
    for batch in record_batch.batches(data):
        header = record_batch.read_header(batch)
        yield header.leader_epoch, header.last_offset + 1, list(kafka_messages(batch))
