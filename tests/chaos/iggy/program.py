"""Sends to or polls a stream of Iggy's with its own client: `python -m tests.chaos.iggy.program ROLE ...`.

Runs where the package `apache-iggy` is; of this repository it needs the record and the values alone. `make`
makes the stream and its topic. `send` has one sender for each partition, one request at a time: what is not
acknowledged is sent again. `poll` has one consumer for each partition, which polls by offset, and two members
of a group, which store how far they are. IGGY_ROOT has the user, NAME:PASSWORD.

A line of JSON on standard output says now and then how far the last of them is, and which errors of the
library were met and healed by doing the same again. When standard input ends, senders stop, and consumers
and group go on to the end of the log. Exit code 1, with the reason, when an error is met that no fault
explains.
"""

import argparse
import asyncio
import contextlib
import datetime
import importlib
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.iggy.stream import PARTITIONS, PLACED, ROOT_VARIABLE, STREAM, TOPIC
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.values import content, name_of, named

iggy: Final[Any] = importlib.import_module("apache_iggy")
"""It is in the environment of this process alone."""
GROUP: Final = "iggy-group"
MEMBERS: Final = 2
CALL_S: Final = 60.0
"""A call that takes longer is given up, and its connection with it: the library waits for ever for a broker
that is gone."""
SETTLE_S: Final = 150.0
"""Longer than any fault: what fails for so long is broken."""
PAUSE_S: Final = 0.2
POLL_S: Final = 0.1
END_OF_LOG: Final = 30
"""So many polls that bring nothing when nobody writes any more: a consumer has read all."""
MOST_AT_ONCE: Final = 200
SENT_AT_ONCE: Final = 5
TELL_EVERY_S: Final = 0.25
EXPLAINED: Final = (
    "Disconnected",
    "Not connected",
    "Cannot establish connection",
    "TCP error",
    "Stale client",
    "Request transiently not",
)
"""How the errors begin that a broker which is killed, frozen, cut off or not yet whole explains."""

Ask = Callable[[Any], Awaitable[Any]]


class BrokenError(Exception):
    """An error of the library that no fault explains."""


@dataclass(slots=True)
class Shared:
    """What the clients of this process share."""

    servers: list[str]
    recorder: Recorder
    user: tuple[str, str]
    rate: float
    seed: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Standard input has ended."""
    counts: dict[str, int] = field(default_factory=dict)
    """Values that were acknowledged or given, by client; the group has stored so many."""
    healed: Counter[str] = field(default_factory=Counter)
    """How often each error was met."""

    @property
    def places(self) -> list[Place]:
        """The partitions, as the record knows them."""
        return [(PLACED, partition) for partition in range(PARTITIONS)]


class StockClient:
    """One client of the library, which has one connection. It is made anew, for the next broker, when the
    library doesn't come back from a call."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._shared = shared
        self._number = number
        self._client: Any = None

    async def ask(self, ask: Ask) -> Any:
        """What the library gives; does the same again until it gives something. BrokenError."""
        until_s = time.monotonic() + SETTLE_S
        while True:
            try:
                async with asyncio.timeout(CALL_S):
                    return await ask(await self._connected())
            except TimeoutError:
                self._give_up("no answer from the library")
            except RuntimeError as error:
                self.take(error)
            if time.monotonic() > until_s:
                raise BrokenError(f"nothing helps for {SETTLE_S:.0f} s: {dict(self._shared.healed)}")
            await asyncio.sleep(PAUSE_S)

    def take(self, error: RuntimeError) -> None:
        """Counts an error that a fault explains. BrokenError."""
        said = str(error)
        if not said.startswith(EXPLAINED):
            raise BrokenError(said) from error
        self._shared.healed[said.split(":")[0]] += 1

    def _give_up(self, why: str) -> None:
        self._client = None
        self._number += 1
        self._shared.healed[why] += 1

    async def _connected(self) -> Any:
        if self._client is None:
            servers = self._shared.servers
            made = iggy.IggyClient(
                iggy.TcpConfig(
                    server_address=servers[self._number % len(servers)],
                    auto_login=iggy.AutoLogin.username_password(*self._shared.user),
                )
            )
            await made.connect()
            self._client = made
        return self._client


# --- what the roles do ---


async def make(shared: Shared) -> None:
    """The stream and the topic; those that are there stay. Waits for a root user that is not made yet."""

    async def made(its: Any) -> None:
        # Looks each time: an answer that was lost may have been that it is made.
        if await its.get_stream(STREAM) is None:
            await its.create_stream(STREAM)
        if await its.get_topic(STREAM, TOPIC) is None:
            await its.create_topic(STREAM, TOPIC, PARTITIONS)

    await StockClient(shared, 0).ask(made)


async def send(shared: Shared) -> None:
    """A sender for each partition."""
    async with asyncio.TaskGroup() as tasks:
        for place in shared.places:
            tasks.create_task(_send(shared, place))


async def _send(shared: Shared, place: Place) -> None:
    name = f"iggy-sender-{place[1]}"
    client, chance, order = StockClient(shared, place[1]), random.Random(f"{shared.seed}-{name}"), 0
    shared.counts[name] = 0
    shared.recorder.repeats(name)
    while not shared.ended.is_set():
        values = [named(name, place, order + i) for i in range(chance.randint(1, SENT_AT_ONCE))]
        order += len(values)
        shared.recorder.sent(name, place, order - len(values), False, values)

        def its_values(its: Any, values: list[str] = values) -> Awaitable[Any]:
            messages = [iggy.SendMessage(content(value)) for value in values]
            sent: Awaitable[Any] = its.send_messages(STREAM, TOPIC, place[1], messages)
            return sent

        answer = await client.ask(its_values)
        # Iggy counts messages from 0 on, and TANK from 1 on.
        (confirmed,) = answer.confirmations
        shared.recorder.told(Fate.STORED, values, confirmed.base_offset + 1)
        shared.counts[name] += len(values)
        await asyncio.sleep(len(values) / shared.rate)


async def poll(shared: Shared) -> None:
    """Consumers by offset, and the members of a group."""
    ends: dict[Place, asyncio.Future[int]] = {
        place: asyncio.get_running_loop().create_future() for place in shared.places
    }
    stored: Counter[Place] = Counter()
    members = [asyncio.create_task(_share(shared, number, stored)) for number in range(MEMBERS)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for place in shared.places:
                tasks.create_task(_poll(shared, place, ends[place]))
            tasks.create_task(_watch(members, ends, stored))
    finally:
        for member in members:
            member.cancel()
    shared.recorder.read_by_group(GROUP, shared.places)


async def _poll(shared: Shared, place: Place, end: "asyncio.Future[int]") -> None:
    """One partition, from its first message to its last."""
    name, partition = f"iggy-consumer-{place[1]}", place[1]
    client, offset, empty = StockClient(shared, partition + 1), 0, 0
    shared.counts[name] = 0
    while empty < END_OF_LOG:
        is_written = shared.ended.is_set()

        def next_ones(its: Any, offset: int = offset) -> Awaitable[Any]:
            found: Awaitable[Any] = its.poll_messages(
                STREAM,
                TOPIC,
                consumer=iggy.Consumer.Single(name),
                polling_strategy=iggy.PollingStrategy.Offset(value=offset),
                count=MOST_AT_ONCE,
                auto_commit=False,
                partition_id=partition,
            )
            return found

        messages = await client.ask(next_ones)
        empty = empty + 1 if is_written and not messages else 0
        if messages:
            numbers = [message.offset() + 1 for message in messages]
            shared.recorder.seen(name, place, numbers, [_name(message) for message in messages])
            shared.counts[name] += len(messages)
            offset = numbers[-1]
        else:
            await asyncio.sleep(POLL_S)
    shared.recorder.read_all(name, [place])
    end.set_result(offset)


async def _share(shared: Shared, number: int, stored: "Counter[Place]") -> None:
    """A member of the group, until it is cancelled: it stores each message's offset when it has it."""
    member, life = f"{GROUP}-member-{number}", 0
    client = StockClient(shared, number + 2)
    while True:
        life += 1
        consumer = await client.ask(
            lambda its: its.consumer_group(
                GROUP,
                STREAM,
                TOPIC,
                polling_strategy=iggy.PollingStrategy.Next(),
                batch_length=MOST_AT_ONCE,
                auto_commit=iggy.AutoCommit.Disabled(),
                poll_interval=datetime.timedelta(seconds=POLL_S),
            )
        )
        try:
            async for message in consumer.iter_messages():
                place, offset = (PLACED, message.partition_id()), message.offset()
                # -1: this client shows no generation.
                shared.recorder.handed(GROUP, (member, life), -1, place, [offset + 1], [_name(message)])
                await consumer.store_offset(offset, message.partition_id())
                stored[place] = max(stored[place], offset + 1)
                shared.counts[GROUP] = stored.total()
        except RuntimeError as error:
            client.take(error)
        await asyncio.sleep(PAUSE_S)


async def _watch(
    members: "list[asyncio.Task[None]]", ends: "dict[Place, asyncio.Future[int]]", stored: "Counter[Place]"
) -> None:
    """Returns when the group has stored all that there is. Raises what has ended a member."""
    while not all(end.done() and stored[place] >= end.result() for place, end in ends.items()):
        for member in members:
            if member.done():
                member.result()
        await asyncio.sleep(POLL_S)


def _name(message: Any) -> str:
    return name_of(bytes(message.payload()))


# --- the process ---


async def run(role: Ask, shared: Shared) -> None:
    """The role, until standard input ends and it is through."""
    told = asyncio.create_task(_tell(shared))
    # Of the daemon kind: where the role fails, nothing waits for standard input.
    threading.Thread(target=_hear, args=(shared, asyncio.get_running_loop()), daemon=True).start()
    try:
        await role(shared)
    finally:
        told.cancel()
        _say(shared)
        shared.recorder.close()


def _hear(shared: Shared, loop: asyncio.AbstractEventLoop) -> None:
    sys.stdin.read()
    with contextlib.suppress(RuntimeError):  # the loop has ended first
        loop.call_soon_threadsafe(shared.ended.set)


async def _tell(shared: Shared) -> None:
    while True:
        _say(shared)
        await asyncio.sleep(TELL_EVERY_S)


def _say(shared: Shared) -> None:
    count = min(shared.counts.values(), default=0)
    print(json.dumps({"count": count, "healed": shared.healed}), flush=True)


ROLES: Final = {"make": make, "send": send, "poll": poll}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--servers", required=True, help="HOST:PORT of brokers, with commas between")
    parser.add_argument("--record", type=Path, required=True, help="where it writes down what it does")
    parser.add_argument("--rate", type=float, default=1.0, help="messages a second to each partition")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    name, _, password = os.environ[ROOT_VARIABLE].strip().partition(":")
    recorder = Recorder(chosen.record)
    shared = Shared(chosen.servers.split(","), recorder, (name, password), chosen.rate, chosen.seed)
    code = 0
    try:
        asyncio.run(run(ROLES[chosen.role], shared))
    except* BrokenError as broken:
        print(*broken.exceptions, sep="\n", file=sys.stderr)
        code = 1
    return code


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads of the library that still call Python abort an interpreter that is ending.
    os._exit(exit_code)
