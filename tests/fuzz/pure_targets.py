"""Targets without state: the generated codecs and the bundle codec. Each case stands alone."""

from contextlib import suppress
from itertools import pairwise
from random import Random

from tank_protos import bundle
from tank_protos.errors import InvalidBundle, WireError
from tests.fuzz import mutate, seeds

MAX_BYTES = 1 << 20
"""What a compressed bundle may unfold to here: enough for any seed, and cheap to refuse."""

NUMBERS_FROM = 1000


def message(chance: Random) -> None:
    """A payload is decoded, or refused with a WireError; what was decoded survives a round trip."""
    everything = seeds.messages()
    seed = chance.choice(everything)
    payload = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
    try:
        decoded = seed.codec.decode(payload)
    except WireError:
        return
    again = seed.codec.decode(b"".join(decoded.encode()))
    assert again == decoded, f"{decoded} came back as {again}"


def batch(chance: Random) -> None:
    """A batch is validated as a broker does and decoded as a consumer does; nothing else is raised."""
    everything = seeds.batches()
    data = memoryview(mutate.payload(chance, chance.choice(everything), chance.choice(everything)))
    with suppress(InvalidBundle):
        assert sum(map(len, bundle.bundles(data))) <= len(data)
    try:
        header = bundle.validate(data)
    except InvalidBundle:
        return
    stamp = bundle.first_timestamp_ms(data, header)
    assert stamp is None or 0 <= stamp < 1 << 64
    [one] = bundle.bundles(data)
    try:
        decoded = bundle.decode(one, NUMBERS_FROM, max_bytes=MAX_BYTES)
    except InvalidBundle:
        return
    assert len(decoded) == header.messages, f"{len(decoded)} messages, the header says {header.messages}"
    numbers = [found.sequence_number for found in decoded]
    first, last = (
        (header.first, header.last) if header.sparse else (NUMBERS_FROM, NUMBERS_FROM + header.messages - 1)
    )
    assert (numbers[0], numbers[-1]) == (first, last)
    assert all(before < after for before, after in pairwise(numbers))
