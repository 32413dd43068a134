"""Codecs of Kafka's messages: whatever comes in, a typed error, or what a slow decoder takes, too.

In flexible versions a number may be longer than it must be, and any byte but 0 is true: both are taken, and
written as they should be. So what was decoded need not come back as it was, but what was written must.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random

from tank_compiler.emit.module import module_name
from tank_compiler.schema import definition_files
from tank_compiler.schema.schema import Message as Schema
from tank_compiler.tools.dissect import dissect
from tank_protos.wire.message import Message
from tests.fuzz import mutate, seeds
from tests.fuzz.codec_target import DISSECTED_SHARE, MEASURED_SHARE, read_both_ways, within_memory
from tests.support.values.corpus_seeds import version_of


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid payload, the message that it is, and the version that it is laid out in."""

    schema: Schema
    codec: type[Message]
    version: int
    payload: bytes


@cache
def messages() -> list[Seed]:
    """The corpus that the compiler wrote for Kafka's messages."""
    found = []
    for schema in definition_files.load(seeds.TESTS.parent / "protos/kafka").messages:
        module = module_name(schema)
        codec = getattr(import_module(f"tank_protos.generated.kafka.{module}"), schema.root.name)
        for line in (seeds.TESTS / "corpus/kafka" / f"{module}.txt").read_text().splitlines():
            name, digits = line.split()
            payload = b"" if digits == "-" else bytes.fromhex(digits)
            found.append(Seed(schema, codec, version_of(schema, name), payload))
    return found


def message(chance: Random) -> None:
    """One payload of one message, in the version that it was laid out in or, at times, in another."""
    everything = messages()
    seed = chance.choice(everything)
    payload = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
    version = seed.version
    if chance.random() < 0.1:
        low, high = seed.codec.VERSIONS
        version = chance.randint(low - 1, high + 1)
    roll = chance.random()
    if roll < MEASURED_SHARE:
        within_memory(lambda: read_both_ways(seed.codec, payload, version), len(payload))
        return
    found = read_both_ways(seed.codec, payload, version)
    if roll < DISSECTED_SHARE and seed.schema.versions.low <= version <= seed.schema.versions.high_end:
        wrong = dissect(seed.schema, memoryview(payload), version).error
        shown = f"{seed.codec.__name__} version {version}: {payload.hex()}: {found}, dissected: {wrong!r}"
        assert (found is None) == (wrong is not None), shown
    if found is not None:
        wire = b"".join(found.encode(version))
        shown = f"{seed.codec.__name__} version {version}: {payload.hex()} came back as {wire.hex()}"
        again = read_both_ways(seed.codec, wire, version)
        assert again is not None, shown
        assert b"".join(again.encode(version)) == wire, shown
        assert len(wire) <= len(payload), shown
