"""A partition of one topic as a send's batches make it, without a broker."""

from tank_protos import bundle
from tank_protos.generated.iggy import Identifier
from tank_protos.iggy import send, sent_messages
from tank_protos.iggy.eras import ERA_NAMES
from tank_protos.iggy.partitioning import BALANCED
from tank_protos.iggy.polled_messages import PollAnswer, PollSource
from tank_protos.iggy.send import SendRequest
from tank_protos.kafka import record_batch
from tests.support.iggy.client_messages import ClientMessage, Received, received, sent

TOPIC_ID = 77
NOW_MS = 1_700_000_000_000


def request(messages: list[ClientMessage], era: str) -> SendRequest:
    """A send as the broker reads it."""
    area = sent(messages, era)
    named = ERA_NAMES[era]
    stream = Identifier(2, b"s")
    return send.read(send.request(stream, stream, BALANCED, len(messages), named) + area, named)


def stored(messages: list[ClientMessage], era: str, *, first: int = 1, append_ms: int = NOW_MS) -> PollSource:
    """What a topic of records keeps of a send whose first message gets the number `first`."""
    batch = bytearray(sent_messages.record_batch(request(messages, era), ERA_NAMES[era], append_ms))
    record_batch.verify(memoryview(batch))
    record_batch.patch(memoryview(batch), first - 1, 3)
    return PollSource(bytes(batch), append_ms, first)


def stored_bundle(
    messages: list[ClientMessage], era: str, *, first: int = 1, append_ms: int = NOW_MS
) -> PollSource:
    """What a topic of bundles keeps of a send."""
    batch = sent_messages.tank_batch(request(messages, era), ERA_NAMES[era], append_ms)
    bundle.validate(memoryview(batch))
    return PollSource(batch, append_ms, first, is_bundle=True)


def polled(
    sources: list[PollSource], era: str, *, lowest: int = 0, most: int = 1_000_000, partition: int = 4
) -> Received:
    """What a client gets of these batches."""
    answer = PollAnswer(ERA_NAMES[era], TOPIC_ID, partition, 999)
    for source in sources:
        answer.add(source, lowest, most - answer.messages)
    payload = b"".join(answer.payload())
    assert len(payload) == answer.bytes
    found = received(payload, era)
    assert answer.messages == len(found.messages)
    assert answer.last_offset == (found.messages[-1].offset if found.messages else None)
    assert (found.partition, found.current_offset) == (partition + ERA_NAMES[era].base, 999)
    return found
