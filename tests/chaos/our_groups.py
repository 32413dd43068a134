"""A group of our client's consumers in a run: its members share the partitions of a topic, write down what
they are given, commit it, and leave and come back now and then."""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tank_client import Client, ClientSettings, Consumer, ConsumerSettings, PartitionsLost, TankError
from tank_client.consuming.membership import JOINS
from tests.chaos.record import Place, Recorder
from tests.chaos.values import name_of

if TYPE_CHECKING:
    from tests.chaos.load import Load

MEMBERS: Final = 3
POLL_MS: Final = 500
LOOK_S: Final = 0.5
LIVES_S: Final = (10.0, 40.0)
"""How long a member stays, at least and at most."""
UNKNOWN_GENERATION: Final = -1
"""Of a consumer that is in no group just now."""


@dataclass(slots=True, eq=False)
class OurGroup:
    """What its members share."""

    topic: str
    places: list[Place]
    settings: ClientSettings
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """All that was written is committed, or the watcher has failed."""

    @property
    def name(self) -> str:
        """The group's."""
        return f"{self.topic}-shared"


async def share(load: "Load", group: OurGroup, number: int) -> None:
    """A member, in one life after another."""
    name = f"{group.name}-member-{number}"
    chance = random.Random(f"{load.seed}-{name}")
    recorder = load.recorder(name)
    life = 0
    try:
        async with Client(load.servers, group.settings) as client:
            while not group.done.is_set():
                life += 1
                until_s = time.monotonic() + chance.uniform(*LIVES_S)
                await _live(client, group, recorder, (name, life), until_s)
    except TankError as error:
        load.note(name, error)
    finally:
        recorder.close()


async def _live(
    client: Client, group: OurGroup, recorder: Recorder, member: tuple[str, int], until_s: float
) -> None:
    settings = ConsumerSettings(max_wait_ms=POLL_MS)
    async with client.consumer(group.topic, group=group.name, settings=settings) as consumer:
        while not group.done.is_set() and time.monotonic() < until_s:
            batch = await consumer.poll(POLL_MS)
            if batch is None:
                continue
            messages = list(batch.messages())
            numbers = [message.sequence_number for message in messages]
            values = [name_of(bytes(message.value or b"")) for message in messages]
            place = batch.topic, batch.partition
            recorder.handed(group.name, member, _epoch(consumer), place, numbers, values)
            # Behind each poll: a member that joins again within an epoch goes on from here, and not before.
            with contextlib.suppress(PartitionsLost):  # another member is given the same
                await consumer.commit()


def _epoch(consumer: Consumer) -> int:
    """The epoch of a member, in which no other one has its partitions."""
    shared = consumer._shared
    assert shared is not None, "brokers of this version share partitions out"
    epoch = shared._membership.epoch
    return epoch if epoch > JOINS else UNKNOWN_GENERATION


async def watch(load: "Load", group: OurGroup) -> None:
    """Asks for the group's positions, which never go back, until everything is committed."""
    recorder = load.recorder(group.name)
    try:
        async with Client(load.servers, group.settings) as client:
            is_through = False
            while not is_through:
                await asyncio.sleep(LOOK_S)
                is_through = await _is_through(load, group, client, recorder)
        recorder.read_by_group(group.name, group.places)
    except TankError as error:
        load.note(group.name, error)
    finally:
        group.done.set()
        recorder.close()


async def _is_through(load: "Load", group: OurGroup, client: Client, recorder: Recorder) -> bool:
    written = load.written.is_set()
    found = await client.admin.fetch_positions(group.name, [group.topic])
    for place, position in found.items():
        recorder.position(group.name, place, position.number, found=True)
    load.shared[group.name] = sum(position.number for position in found.values())
    if not written:
        return False
    ends = await client.admin.ends(group.topic)
    return all(
        (found[place].number if place in found else 1) == ends[place[1]].high_water_mark + 1
        for place in group.places
    )
