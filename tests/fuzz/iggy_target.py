"""Iggy's frames, requests and messages: whatever comes in, a typed error, or what its bytes say.

A frame goes the way of a connection: cut by its framing, its era found, its request decoded. What decodes
must come back as it was. A send that is taken must be a sound batch, which clients of every era can read.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random
from typing import Final

from tank_compiler.emit.module import module_name
from tank_compiler.schema import definition_files
from tank_protos.iggy import classic, options, send, sent_messages, tolerant, vsr
from tank_protos.iggy.era_detector import EraDetector, NeedMore
from tank_protos.iggy.eras import ERA_NAMES, ERAS, V11, Era, Framing
from tank_protos.iggy.polled_messages import PollAnswer, PollSource
from tank_protos.kafka import record_batch
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tests.fuzz import mutate, random_iggy, seeds
from tests.fuzz.codec_target import MEASURED_SHARE, read_both_ways, within_memory
from tests.support.iggy.client_messages import received, sent
from tests.support.iggy.stored import NOW_MS, TOPIC_ID, request
from tests.support.values.corpus_seeds import version_of

LIES: Final = ((0, 4), (48, 4), (60, 1), (176, 1), (196, 4), (256, 4))
"""Where a frame's own fields lie, and their sizes."""


@dataclass(frozen=True, slots=True)
class _Seed:
    """A valid payload of a message in a version."""

    codec: type[Message]
    version: int
    payload: bytes


@cache
def _corpus() -> list[_Seed]:
    found = []
    for schema in definition_files.load(seeds.TESTS.parent / "protos/iggy").messages:
        module = module_name(schema)
        codec = getattr(import_module(f"tank_protos.generated.iggy.{module}"), schema.root.name)
        for line in (seeds.TESTS / "corpus/iggy" / f"{module}.txt").read_text().splitlines():
            name, digits = line.split()
            payload = b"" if digits == "-" else bytes.fromhex(digits)
            found.append(_Seed(codec, version_of(schema, name), payload))
    return found


def frame(chance: Random) -> Counter[str] | None:
    """One frame of a client, from the connection's first byte on."""
    seed = chance.choice(_corpus())
    payload = mutate.payload(chance, seed.payload, chance.choice(_corpus()).payload)
    if chance.random() < MEASURED_SHARE:
        within_memory(lambda: read_both_ways(seed.codec, payload, seed.version), len(payload))
    _decode(seed.codec, payload, seed.version)
    code = getattr(seed.codec, "ID", chance.getrandbits(10))
    if seed.version == V11.version:
        whole = vsr.request(chance.randbytes(16), chance.choice((1, 2, 132, 160, 255)), payload, code=code)
    else:
        whole = classic.request(code, [payload])
    if chance.random() < 0.3:
        at, size = chance.choice(LIES)
        whole = (
            whole[:at]
            + chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size)))
            + whole[at + size :]
        )
    try:
        _connection(chance, whole)
    except WireError as refusal:
        return Counter([refusal.reason])
    return None


def _decode(codec: type[Message], payload: bytes, version: int) -> None:
    found = read_both_ways(codec, payload, version)
    if found is None:
        return
    wire = b"".join(found.encode(version))
    # A float that is no number has many forms.
    assert wire == payload or "nan" in repr(found), f"{payload.hex()} came back as {wire.hex()}"


def _connection(chance: Random, stream: bytes) -> None:
    """Takes the bytes as a connection would. Raises WireError."""
    detector = EraDetector()
    if detector.feed(stream[:4]) is NeedMore.HEAD:
        return
    is_vsr = detector.framing is Framing.VSR
    size = vsr.frame_bytes(stream, 1 << 20) if is_vsr else classic.request_bytes(stream, 1 << 20)
    if size is None or size > len(stream):
        return
    era = detector.feed(stream[:4], stream[:size])
    body = vsr.read_request(stream[:size]).body if is_vsr else classic.read_request(stream[:size]).payload
    if not isinstance(era, Era):
        return
    detector.narrow(body)
    era = chance.choice(ERAS)
    for read in (tolerant.read_create_topic, tolerant.read_get_topic, send.read):
        with suppress(WireError):
            read(body, era)
    with suppress(WireError):
        options.read(body)


def messages(chance: Random) -> Counter[str] | None:
    """One send, and the polls of what was stored of it."""
    name = chance.choice(list(ERA_NAMES))
    era = ERA_NAMES[name]
    origin_us = chance.choice((0, NOW_MS * 1000))
    asked = request([random_iggy.message(chance, origin_us) for _ in range(chance.randint(1, 4))], name)
    area = mutate.payload(chance, bytes(asked.messages), sent([random_iggy.message(chance, origin_us)], name))
    asked = asked._replace(messages=memoryview(area))
    try:
        batch = bytearray(sent_messages.record_batch(asked, era, NOW_MS))
    except WireError as refusal:
        return Counter([refusal.reason])
    header = record_batch.check(memoryview(batch), max_bytes=1 << 30)
    record_batch.patch(memoryview(batch), chance.getrandbits(40), 0)
    answer = _polled(chance, bytes(batch))
    assert answer == header.records_count, f"{answer} of {header.records_count} messages came back"
    if chance.random() < 0.5:
        try:
            _polled(chance, mutate.payload(chance, bytes(batch), area))
        except WireError as refusal:
            return Counter([refusal.reason])
    return None


def _polled(chance: Random, batch: bytes) -> int:
    name = chance.choice(list(ERA_NAMES))
    answer = PollAnswer(ERA_NAMES[name], TOPIC_ID, 0, 0)
    answer.add(PollSource(batch, NOW_MS, 1), 0, 1 << 20)
    return len(received(b"".join(answer.payload()), name).messages)
