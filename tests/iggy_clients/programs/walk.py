"""Walks through what one of Iggy's Python packages can do at a broker: `python walk.py HOST:PORT`.

Runs in an environment that has the package alone: `apache-iggy`, or the older `iggy-py`. Prints a line of
JSON for each step: its name, and what was wrong; empty: nothing. A step that the package has no call for is
not printed.
"""

import asyncio
import datetime
import importlib
import inspect
import json
import sys
import time
import types
from collections.abc import Awaitable, Callable
from typing import Any

STEP_S = 90.0
"""The longest that a step may take."""
MESSAGES = [b"message %d" % number for number in range(10)]


def package() -> types.ModuleType:
    """The package that is installed here."""
    for name in ("apache_iggy", "iggy_py"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise SystemExit("neither apache_iggy nor iggy_py is installed")


iggy = package()


class Missing(Exception):
    """The package has no such call."""


def expect(found: object, wanted: object) -> None:
    """Raises AssertionError when they differ."""
    assert found == wanted, f"{found!r}, where {wanted!r} is wanted"


class Walk:
    """The steps, in their order. Each begins with what those before it have made."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client: Any = None
        self.stream, self.topic = "walk", "steps"
        self.first_id = 0
        """The number of the first stream and partition: 1 in older packages."""

    async def connects(self) -> None:
        self.client = iggy.IggyClient(self.address)
        await self.client.connect()

    async def pings(self) -> None:
        await self.client.ping()

    async def is_refused_with_a_wrong_password(self) -> None:
        other = iggy.IggyClient(self.address)
        await other.connect()
        try:
            await other.login_user("iggy", "wrong password")
        except Exception:
            return
        raise AssertionError("it was logged in")

    async def logs_in(self) -> None:
        await self.client.login_user("iggy", "iggy")

    async def logs_in_by_connection_string(self) -> None:
        self._needs("from_connection_string")
        text = f"iggy+tcp://iggy:iggy@{self.address}"
        try:
            other = iggy.IggyClient.from_connection_string(text)
        except Exception:
            other = iggy.IggyClient.from_connection_string(text.replace("iggy+tcp", "iggy"))
        await other.connect()
        await other.ping()
        assert await other.get_stream("nowhere") is None

    async def shows_statistics(self) -> None:
        self._needs("get_stats")
        found = await self.client.get_stats()
        assert found.hostname

    async def describes_options(self) -> None:
        self._needs("describe_options")
        assert await self.client.describe_options("topic")

    async def finds_no_stream_before_it_is_made(self) -> None:
        assert await self.client.get_stream(self.stream) is None

    async def makes_a_stream(self) -> None:
        await self.client.create_stream(name=self.stream)

    async def is_refused_a_second_stream_of_the_name(self) -> None:
        try:
            await self.client.create_stream(name=self.stream)
        except Exception:
            return
        raise AssertionError("there are two")

    async def finds_the_stream_by_name_and_number(self) -> None:
        found = await self.client.get_stream(self.stream)
        expect((found.name, found.topics_count, found.messages_count), (self.stream, 0, 0))
        self.first_id = found.id
        again = await self.client.get_stream(found.id)
        expect(again.name, self.stream)

    async def makes_a_topic(self) -> None:
        await self.client.create_topic(stream=self.stream, name=self.topic, partitions_count=2)

    async def makes_a_topic_with_options(self) -> None:
        wanted = inspect.signature(iggy.IggyClient.create_topic).parameters
        if "message_expiry" not in wanted:
            raise Missing
        day = datetime.timedelta(days=1)
        if hasattr(iggy, "IggyExpiry"):
            expiry = iggy.IggyExpiry.ExpireDuration(day)
            size = iggy.MaxTopicSize.Custom(1_000_000_000)
        else:
            expiry, size = day, 1_000_000_000
        await self.client.create_topic(
            stream=self.stream,
            name="optional",
            partitions_count=1,
            compression_algorithm="gzip",
            message_expiry=expiry,
            max_topic_size=size,
        )

    async def finds_the_topic_by_name_and_number(self) -> None:
        found = await self.client.get_topic(self.stream, self.topic)
        expect((found.name, found.messages_count), (self.topic, 0))
        expect(getattr(found, "partitions_count", 2), 2)
        again = await self.client.get_topic(self.stream, found.id)
        expect(again.name, self.topic)

    async def finds_no_topic_that_is_not_there(self) -> None:
        assert await self.client.get_topic(self.stream, "nowhere") is None

    async def sends_messages(self) -> None:
        await self.client.send_messages(
            stream=self.stream,
            topic=self.topic,
            partitioning=self.first_id,
            messages=[iggy.SendMessage(_sendable(each)) for each in MESSAGES],
        )

    async def sends_by_key_and_balanced(self) -> None:
        if not hasattr(iggy, "Partitioning"):
            raise Missing
        for chosen in (iggy.Partitioning.messages_key("a key"), iggy.Partitioning.balanced()):
            await self.client.send_messages(
                stream=self.stream, topic="optional", partitioning=chosen, messages=[iggy.SendMessage("k")]
            )

    async def polls_from_the_first(self) -> None:
        found = await self._poll(iggy.PollingStrategy.First(), 100)
        expect([_payload(each) for each in found], MESSAGES)
        expect([each.offset() for each in found], list(range(len(MESSAGES))))

    async def reads_ids_times_and_checksums(self) -> None:
        found = await self._poll(iggy.PollingStrategy.First(), 100)
        ids = {each.id() for each in found}
        expect(len(ids), len(MESSAGES))
        assert all(each > 0 for each in ids)
        now_us = time.time() * 1_000_000
        assert all(abs(each.timestamp() - now_us) < 600_000_000 for each in found), found[0].timestamp()
        assert all(each.checksum() > 0 for each in found)
        assert all(each.length() == len(message) for each, message in zip(found, MESSAGES, strict=True))

    async def polls_from_an_offset(self) -> None:
        found = await self._poll(iggy.PollingStrategy.Offset(value=4), 3)
        expect([each.offset() for each in found], [4, 5, 6])

    async def polls_the_last(self) -> None:
        found = await self._poll(iggy.PollingStrategy.Last(), 2)
        expect([each.offset() for each in found], [8, 9])

    async def polls_from_a_time(self) -> None:
        found = await self._poll(iggy.PollingStrategy.Timestamp(value=1), 100)
        expect(len(found), len(MESSAGES))
        hour = int(time.time() + 3600) * 1_000_000
        expect(await self._poll(iggy.PollingStrategy.Timestamp(value=hour), 100), [])

    async def polls_the_next_and_stores_how_far(self) -> None:
        for wanted in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []):
            found = await self._poll(iggy.PollingStrategy.Next(), 4, auto_commit=True)
            expect([each.offset() for each in found], wanted)

    async def polls_nothing_behind_the_end(self) -> None:
        expect(await self._poll(iggy.PollingStrategy.Offset(value=1000), 10), [])

    async def sends_and_reads_headers_and_ids(self) -> None:
        if "user_headers" not in inspect.signature(iggy.SendMessage).parameters:
            raise Missing
        headers = {"text": "a value", "number": 7, "raw": b"\0\xff"}
        message = iggy.SendMessage(b"with headers", user_headers=headers, id=4711)
        await self.client.send_messages(self.stream, self.topic, self.first_id + 1, [message])
        (found,) = await self._poll(iggy.PollingStrategy.Last(), 1, self.first_id + 1)
        expect((_payload(found), found.id()), (b"with headers", 4711))
        assert found.user_headers() is not None
        expect(len(found.user_headers()), 3)

    async def reads_as_a_group(self) -> None:
        self._needs("consumer_group")
        group = self.client.consumer_group(
            "readers",
            self.stream,
            self.topic,
            polling_strategy=iggy.PollingStrategy.Next(),
            batch_length=10,
            auto_commit=iggy.AutoCommit.Disabled(),
            poll_interval=datetime.timedelta(milliseconds=50),
        )
        consumer = await group if inspect.isawaitable(group) else group
        if hasattr(consumer, "iter_messages"):
            found = []
            async for each in consumer.iter_messages():
                found.append(each)
                if len(found) >= len(MESSAGES):
                    break
            assert {_payload(each) for each in found} >= set(MESSAGES[:1])
            await consumer.store_offset(found[-1].offset(), found[-1].partition_id())
            assert consumer.name() == "readers"
            await consumer.delete_offset(found[-1].partition_id())
            return
        told: list[object] = []
        done = asyncio.Event()

        async def take(message: object) -> None:
            told.append(message)
            if len(told) >= len(MESSAGES):
                done.set()

        async with asyncio.timeout(STEP_S):
            await consumer.consume_messages(take, done)
        assert len(told) >= len(MESSAGES)

    async def makes_joins_and_leaves_a_group(self) -> None:
        self._needs("create_consumer_group")
        names = self.stream, self.topic
        await self.client.create_consumer_group(*names, "workers")
        await self.client.join_consumer_group(*names, "workers")
        found = await self.client.get_consumer_group(*names, "workers")
        expect((found.name, found.members_count, found.partitions_count), ("workers", 1, 2))
        groups = await self.client.get_consumer_groups(*names)
        assert "workers" in [each.name for each in groups]
        await self.client.leave_consumer_group(*names, "workers")
        await self.client.delete_consumer_group(*names, "workers")
        assert await self.client.get_consumer_group(*names, "workers") is None

    async def sends_with_a_producer(self) -> None:
        self._needs("producer")
        producer = await self.client.producer(self.stream, "produced")
        await producer.send([iggy.SendMessage(b"one"), iggy.SendMessage(b"two")])
        await producer.shutdown()
        found = await self.client.get_topic(self.stream, "produced")
        expect(found.messages_count, 2)

    async def lists_renames_and_changes(self) -> None:
        self._needs("update_stream")
        expect([each.name for each in await self.client.get_streams()], [self.stream])
        await self.client.update_stream(self.stream, "walked")
        self.stream = "walked"
        await self.client.update_topic(self.stream, "optional", "renamed")
        names = {each.name for each in await self.client.get_topics(self.stream)}
        assert {"renamed", self.topic} <= names, names

    async def adds_and_removes_partitions(self) -> None:
        self._needs("create_partitions")
        await self.client.create_partitions(self.stream, self.topic, 3)
        expect((await self.client.get_topic(self.stream, self.topic)).partitions_count, 5)
        await self.client.delete_partitions(self.stream, self.topic, 2)
        expect((await self.client.get_topic(self.stream, self.topic)).partitions_count, 3)

    async def manages_users(self) -> None:
        self._needs("create_user")
        made = await self.client.create_user("reader", "secret password")
        assert "reader" in [each.username for each in await self.client.get_users()]
        other = iggy.IggyClient(self.address)
        await other.connect()
        await other.login_user("reader", "secret password")
        try:
            await other.create_stream("forbidden")
        except Exception:
            pass
        else:
            raise AssertionError("a user without permissions made a stream")
        await self.client.change_password("reader", "secret password", "another password")
        await self.client.update_permissions("reader", iggy.Permissions(iggy.GlobalPermissions()))
        await self.client.update_user("reader", username="writer")
        assert (await self.client.get_user(made.id)) is not None
        await self.client.delete_user("writer")
        assert await self.client.get_user("writer") is None

    async def empties_and_deletes(self) -> None:
        self._needs("purge_topic")
        await self.client.purge_topic(self.stream, self.topic)
        expect((await self.client.get_topic(self.stream, self.topic)).messages_count, 0)
        await self.client.delete_topic(self.stream, self.topic)
        assert await self.client.get_topic(self.stream, self.topic) is None
        await self.client.delete_stream(self.stream)
        assert await self.client.get_stream(self.stream) is None

    async def logs_out(self) -> None:
        self._needs("logout_user")
        await self.client.logout_user()

    # --- what the steps share ---

    def _needs(self, call: str) -> None:
        if not hasattr(iggy.IggyClient, call):
            raise Missing

    async def _poll(
        self, strategy: object, count: int, partition: int | None = None, *, auto_commit: bool = False
    ) -> list[Any]:
        number = self.first_id if partition is None else partition
        if hasattr(iggy, "Consumer"):
            found = await self.client.poll_messages(
                self.stream,
                self.topic,
                consumer=iggy.Consumer.Single("walker"),
                polling_strategy=strategy,
                count=count,
                auto_commit=auto_commit,
                partition_id=number,
            )
        else:
            found = await self.client.poll_messages(
                stream=self.stream,
                topic=self.topic,
                partition_id=number,
                polling_strategy=strategy,
                count=count,
                auto_commit=auto_commit,
            )
        return list(found)


def _sendable(message: bytes) -> Any:
    """Older packages take text alone."""
    try:
        iggy.SendMessage(message)
    except TypeError:
        return message.decode()
    return message


def _payload(message: Any) -> bytes:
    found = message.payload()
    return found.encode() if isinstance(found, str) else bytes(found)


def steps(walk: Walk) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    """The steps by name, in the order in which they are written."""
    names = [name for name in vars(Walk) if not name.startswith("_")]
    return [(name.replace("_", " "), getattr(walk, name)) for name in names]


async def main() -> None:
    """See the module."""
    walk = Walk(sys.argv[1])
    for name, step in steps(walk):
        wrong = ""
        try:
            async with asyncio.timeout(STEP_S):
                await step()
        except Missing:
            continue
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps([name, wrong]), flush=True)


asyncio.run(main())
