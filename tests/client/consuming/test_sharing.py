"""Members of a group against a scripted broker that assigns partitions: what they read, commit and hear."""

import asyncio
import logging
from typing import Any

import pytest

from tank_client import Client, ConsumerSettings, errors
from tank_protos.error_codes import ErrorCode
from tests.client.consuming.sharing_scene import (
    LATE_MS,
    PARTITIONS,
    QUICK,
    READING,
    of_t,
    put,
    read_until,
    served,
)
from tests.support.clients.scripted_broker import Kind, ScriptedBroker
from tests.support.clients.scripted_sharing import ScriptedSharing
from tests.support.waiting import comes, run


def test_a_lone_member_reads_all_partitions_from_the_groups_positions() -> None:
    async def scenario() -> None:
        async with served() as (broker, sharing, client):
            for partition in range(PARTITIONS):
                put(broker, partition, b"a%d" % partition, b"b%d" % partition)
            sharing.group("g").positions["t", 2] = 2
            async with client.consumer("t", group="g", settings=READING) as consumer:
                found: list[bytes | None] = []
                while len(found) < 7:
                    found += (await consumer.__anext__()).values
                assert sorted(found) == [b"a0", b"a1", b"a3", b"b0", b"b1", b"b2", b"b3"]  # type: ignore[type-var]
                assert sorted(consumer.assignment) == of_t(0, 1, 2, 3)
                assert set(consumer.lag().values()) == {0}
            assert sharing.group("g").positions == {("t", partition): 3 for partition in range(PARTITIONS)}
            assert not sharing.group("g").members, "it has left"

    run(scenario())


def test_two_members_share_and_the_first_commits_before_it_gives_up() -> None:
    async def scenario() -> None:
        async with served() as (broker, sharing, client):
            for partition in range(PARTITIONS):
                put(broker, partition, b"%d" % partition)
            heard: list[Any] = []
            async with client.consumer(
                "t",
                group="g",
                settings=READING,
                on_assigned=lambda got: heard.append(("assigned", got)),
                on_revoked=lambda gone: heard.append(("revoked", gone)),
            ) as first:
                seen: list[bytes | None] = []
                while len(seen) < PARTITIONS:
                    seen += (await first.__anext__()).values
                [name] = sharing.group("g").members
                async with client.consumer("t", group="g", settings=READING) as second:
                    reading = asyncio.ensure_future(
                        read_until(first, lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
                    )
                    assert await read_until(second, reading.done) == [], "nothing is read twice"
                    assert await reading == []
                    assert sorted(first.assignment + second.assignment) == of_t(0, 1, 2, 3)
                    assert heard == [("assigned", of_t(0, 1, 2, 3)), ("revoked", of_t(2, 3))]
                    own = [event for event in sharing.events if event[1] == name]
                    commit = own.index(("commit", name, {("t", 2): 2, ("t", 3): 2}))
                    assert ("owns", name, of_t(0, 1)) not in own[:commit], "named until they are committed"
                    assert ("owns", name, of_t(0, 1)) in own[commit:]
                    put(broker, 3, b"new")
                    found = await second.__anext__()
                    assert (found.partition, found.values) == (3, [b"new"])
            assert heard[2:] == [("revoked", of_t(0, 1))]

    run(scenario())


def test_nothing_more_of_a_revoked_partition_is_handed_out() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, *(b"%d" % number for number in range(10)))
            gone: list[Any] = []
            consumer = client.consumer(
                "t", group="g", settings=READING, on_revoked=lambda them: gone.append(consumer.positions())
            )
            async with consumer:
                messages = consumer.messages()
                assert (await anext(messages)).sequence_number == 1
                assert (await anext(messages)).sequence_number == 2
                sharing.topics["t"] = 0  # the coordinator takes it back, while the program works
                await comes(lambda: not consumer.assignment)
                reading = asyncio.ensure_future(anext(messages))
                await comes(lambda: ("t", 0) in sharing.group("g").positions)
                assert sharing.group("g").positions["t", 0] == 3, "what was handed out counts as read"
                assert gone == [{("t", 0): 3}]
                reading.cancel()

    run(scenario())


def test_a_callback_that_fails_is_called_again_and_nothing_is_committed_before() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            calls = 0

            async def flush(partitions: list[tuple[str, int]]) -> None:
                nonlocal calls
                calls += 1
                if calls == 1:
                    raise OSError("the output is full")

            async with client.consumer("t", group="g", settings=READING, on_revoked=flush) as consumer:
                await consumer.__anext__()
                sharing.topics["t"] = 0
                await comes(lambda: not consumer.assignment)
                with pytest.raises(OSError, match="full"):
                    await consumer.poll(1000)
                assert sharing.group("g").positions == {}
                await consumer.poll(0)
                assert sharing.group("g").positions == {("t", 0): 2}
                assert calls == 2

    run(scenario())


def test_on_assigned_may_seek() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, _sharing, client):
            put(broker, 0, b"1", b"2", b"3")

            async def skip(partitions: list[tuple[str, int]]) -> None:
                for topic, partition in partitions:
                    await consumer.seek(topic, partition, 3)

            consumer = client.consumer("t", group="g", settings=READING, on_assigned=skip)
            async with consumer:
                assert (await consumer.__anext__()).values == [b"3"]
                with pytest.raises(errors.NotAssigned, match="t/1"):
                    consumer.position("t", 1)

    run(scenario())


def test_a_block_that_fails_leaves_without_a_commit() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            with pytest.raises(ZeroDivisionError):
                async with client.consumer("t", group="g", settings=READING) as consumer:
                    await consumer.__anext__()
                    raise ZeroDivisionError
            assert sharing.group("g").positions == {}
            assert not sharing.group("g").members

    run(scenario())


def test_a_client_that_is_closed_leaves_without_a_commit() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            consumer = client.consumer("t", group="g", settings=READING)
            await consumer.__anext__()
            assert sharing.group("g").members
            await client.close()
            assert not sharing.group("g").members
            assert sharing.group("g").positions == {}

    run(scenario())


def test_a_commit_with_an_old_epoch_is_repeated_with_the_new_one() -> None:
    async def scenario() -> None:
        async with served(2) as (broker, sharing, client):
            put(broker, 0, b"x")
            async with client.consumer("t", group="g", settings=READING) as consumer:
                await consumer.__anext__()
                group = sharing.group("g")
                [member] = group.members.values()
                member.previous = member.epoch
                member.epoch = group.epoch = group.epoch + 1  # the member hears of it by its next heartbeat
                await consumer.commit()
                assert group.positions == {("t", 0): 2}
                assert consumer.assignment == of_t(0, 1)

    run(scenario())


def test_a_commit_outlives_many_changes_of_epochs() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            async with client.consumer("t", group="g", settings=READING) as consumer:
                await consumer.__anext__()
                group = sharing.group("g")
                group.stale_commits = 20  # each time the member has heard of an epoch, there is another
                await consumer.commit()
                assert group.positions == {("t", 0): 2}

    run(scenario())


def test_a_program_that_does_not_read_leaves_the_group() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            lost: list[Any] = []
            settings = ConsumerSettings(max_wait_ms=20, max_poll_interval_ms=LATE_MS)
            async with client.consumer("t", group="g", settings=settings, on_lost=lost.append) as consumer:
                await consumer.__anext__()
                await comes(lambda: not sharing.group("g").members)
                with pytest.raises(errors.PollTooLate, match=f"{LATE_MS} ms"):
                    await consumer.poll(0)
                assert lost == [of_t(0)]
                assert (await consumer.__anext__()).values == [b"x"], "the next read joins again"

    run(scenario())


def test_a_program_that_takes_its_time_for_each_message_of_a_batch_stays() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, *(b"%d" % number for number in range(8)))
            settings = ConsumerSettings(max_wait_ms=20, max_poll_interval_ms=LATE_MS)
            async with client.consumer("t", group="g", settings=settings) as consumer:
                count = 0
                async for _ in consumer.messages():
                    await asyncio.sleep(LATE_MS / 4000)
                    count += 1
                    if count == 8:
                        break
                assert count == 8
                assert sharing.group("g").members

    run(scenario())


def test_stop_at_end_ends_when_all_that_the_member_got_is_read() -> None:
    async def scenario() -> None:
        async with served(2) as (broker, _sharing, client):
            put(broker, 0, b"a")
            put(broker, 1, b"b")
            async with client.consumer("t", group="g", stop_at_end=True, settings=READING) as consumer:
                assert sorted([value async for batch in consumer for value in batch.values]) == [b"a", b"b"]  # type: ignore[type-var]
                assert consumer.at_end
            async with client.consumer("t", group="g", stop_at_end=True, settings=READING) as consumer:
                assert [batch async for batch in consumer] == [], "the group has read everything"

    run(scenario())


def test_with_stop_at_end_a_member_without_partitions_ends_after_a_while() -> None:
    async def scenario() -> None:
        async with served(1) as (_broker, _sharing, client):
            first = client.consumer("t", group="g", settings=READING)
            await first.poll(50)
            async with client.consumer("t", group="g", stop_at_end=True, settings=READING) as second:
                assert [batch async for batch in second] == []
                assert second.assignment == []
            await first.close()

    run(scenario())


def test_a_static_member_gets_its_partitions_back() -> None:
    async def scenario() -> None:
        async with served(2) as (broker, sharing, client):
            put(broker, 0, b"a")
            async with client.consumer("t", group="g", settings=READING) as other:
                await other.poll(50)
                for _ in range(2):
                    async with client.consumer("t", group="g", instance_id="one", settings=READING) as static:
                        both = asyncio.ensure_future(read_until(other, lambda: len(static.assignment) == 1))
                        await read_until(static, both.done)
                        assert static.assignment == of_t(1)
                        assert other.assignment == of_t(0)
                    of_static = [heard for heard in sharing.heartbeats if heard.instance_id == "one"]
                    assert of_static[-1].member_epoch == -2, "it comes back"
                    assert other.assignment == of_t(0)

    run(scenario())


def test_a_second_program_of_the_same_instance_id_waits_and_then_says_why() -> None:
    async def scenario() -> None:
        async with served(1) as (_broker, _sharing, client):
            settings = ConsumerSettings(max_wait_ms=20, give_up_after_ms=100)
            first = client.consumer("t", group="g", instance_id="one", settings=settings)
            await first.poll(0)
            with pytest.raises(errors.InstanceTaken):
                await client.consumer("t", group="g", instance_id="one", settings=settings).start()
            await first.close()

    run(scenario())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.GROUP_FULL, errors.GroupRefused),
        (ErrorCode.OTHER_GROUP_TYPE, errors.GroupRefused),
        (ErrorCode.FENCED_INSTANCE, errors.InstanceFenced),
    ],
)
def test_a_refusal_is_raised_by_start(code: ErrorCode, error: type[errors.TankError]) -> None:
    async def scenario() -> None:
        async with served(1) as (_broker, sharing, client):
            sharing.group("g").refusal = code
            consumer = client.consumer("t", group="g", settings=READING)
            with pytest.raises(error, match=code.name):
                await consumer.start()
            with pytest.raises(error, match=code.name):
                await consumer.poll(0)
            await consumer.close()

    run(scenario())


def test_a_topic_that_is_not_there_is_said_before_the_group_is_asked() -> None:
    async def scenario() -> None:
        async with served(1) as (_broker, sharing, client):
            with pytest.raises(errors.UnknownTopic):
                await client.consumer("nope", group="g").start()
            assert sharing.heartbeats == []

    run(scenario())


def test_heartbeats_go_on_when_a_connection_breaks() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            consumer = client.consumer("t", group="g", settings=READING)
            await consumer.poll(0)
            [name] = sharing.group("g").members
            for _ in range(3):
                count = len(sharing.heartbeats)
                broker.cut_all()
                await comes(lambda count=count: len(sharing.heartbeats) > count)  # type: ignore[misc]
            await consumer.poll(0)
            assert consumer.assignment == of_t(0)
            assert list(sharing.group("g").members) == [name]
            await consumer.close()

    run(scenario())


@pytest.mark.parametrize("answers", ["not at all", "that the level is too low"])
def test_brokers_that_do_not_share_are_read_whole_and_that_is_said_once(
    answers: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.OURS, {"t": 2}) as broker, Client(broker.address, QUICK) as client:
            if answers != "not at all":
                broker.sharing = ScriptedSharing({"t": 2})
                broker.sharing.group("g").refusal = ErrorCode.LEVEL_TOO_LOW
            put(broker, 0, b"a")
            put(broker, 1, b"b")
            async with client.consumer("t", group="g", stop_at_end=True, settings=READING) as consumer:
                assert sorted([value async for batch in consumer for value in batch.values]) == [b"a", b"b"]  # type: ignore[type-var]
                assert sorted(consumer.assignment) == of_t(0, 1)

    with caplog.at_level(logging.WARNING, "tank_client"):
        run(scenario())
    assert sum("each other member does so, too" in each.getMessage() for each in caplog.records) == 1


def test_named_partitions_are_no_membership() -> None:
    async def scenario() -> None:
        async with served(2) as (broker, sharing, client):
            put(broker, 1, b"x")
            async with client.consumer({"t": [1]}, group="g", settings=READING) as consumer:
                assert (await consumer.__anext__()).values == [b"x"]
                await consumer.commit()
            assert sharing.heartbeats == []
            assert sharing.group("g").positions == {("t", 1): 2}
            with pytest.raises(errors.InvalidArgument, match="instance_id"):
                client.consumer({"t": [1]}, group="g", instance_id="one")
            with pytest.raises(errors.InvalidArgument, match="on_revoked"):
                client.consumer("t", on_revoked=print)
            with pytest.raises(errors.InvalidArgument, match="255"):
                client.consumer("t", group="g" * 256)

    run(scenario())
