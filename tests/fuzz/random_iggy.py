"""Iggy's sends and stored batches: good ones, and ones with something changed."""

from random import Random

from tank_protos import bundle
from tank_protos.iggy.eras import ERA_NAMES, Era
from tank_protos.iggy.polled_messages import PollSource
from tank_protos.iggy.send import SendRequest
from tests.fuzz import mutate, random_bundles, random_records
from tests.fuzz.random_bundles import exact
from tests.support.iggy.client_messages import ClientMessage, Header
from tests.support.iggy.stored import NOW_MS, request, stored


def message(chance: Random, origin_us: int) -> ClientMessage:
    """A message from the half hour that begins then: V11 can't say much more in one send."""
    headers: list[Header] = [
        (chance.choice((b"k", b"iggy", b"x" * 40)), 2, chance.randbytes(chance.randint(1, 20)), 1 + place)
        for place in range(chance.choice((0, 0, 1, 3)))
    ]
    return ClientMessage(
        chance.randbytes(chance.randint(1, 60)),
        chance.choice((0, chance.getrandbits(128))),
        origin_us + chance.choice((0, chance.getrandbits(30))),
        tuple(headers),
    )


def messages(chance: Random) -> list[ClientMessage]:
    """One to nine messages."""
    origin_us = chance.choice((0, NOW_MS * 1000))
    return [message(chance, origin_us) for _ in range(chance.choice((1, 1, 2, 3, 9)))]


def sent(chance: Random) -> tuple[SendRequest, Era]:
    """A send, mostly with something changed, in a buffer that ends where its bytes end."""
    name = chance.choice(list(ERA_NAMES))
    asked = request(messages(chance), name)
    area = bytes(asked.messages)
    if chance.random() < 0.7:
        area = mutate.payload(chance, area, area)
    count = asked.messages_count
    if count is not None and chance.random() < 0.1:
        count = chance.choice((1, count + 1, 1 << 20))
    return asked._replace(messages=memoryview(exact(area)), messages_count=count), ERA_NAMES[name]


def source(chance: Random) -> PollSource:
    """A stored batch of any client, mostly with something changed."""
    roll = chance.random()
    append_ms, first = chance.choice((0, NOW_MS, 2**53 + 1)), chance.choice((1, 1, 7, 2**40, 2**62))
    if roll < 0.3:
        made = bundle.as_batch(random_bundles.bad(chance))
        return PollSource(exact(made), append_ms, first, is_bundle=True)
    made = random_records.batch(chance)
    if roll < 0.7:
        made = bytes(stored(messages(chance), chance.choice(list(ERA_NAMES)), first=first).data)
        if chance.random() < 0.7:
            made = mutate.payload(chance, made, made)
    return PollSource(exact(made), append_ms, first)
