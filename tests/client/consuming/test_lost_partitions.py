"""Members of a group that lose partitions: what they hear, and that they put no position back."""

import asyncio
from typing import Any

import pytest

from tank_client import errors
from tank_protos.generated.tank import AwaitEndsRequest
from tests.client.consuming.sharing_scene import (
    READING,
    names,
    of_t,
    put,
    served,
)
from tests.support.waiting import comes, run


def test_a_fenced_member_learns_what_it_lost_and_joins_again() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, b"x")
            lost: list[Any] = []
            async with client.consumer("t", group="g", settings=READING, on_lost=lost.append) as consumer:
                await consumer.__anext__()
                [name] = sharing.group("g").members
                sharing.group("g").expire(name)
                with pytest.raises(errors.PartitionsLost, match="t/0") as raised:
                    await consumer.commit()
                assert raised.value.partitions == (("t", 0),)
                assert (await consumer.__anext__()).values == [b"x"], "nothing was committed: it comes again"
                assert lost == [of_t(0)]
                await consumer.commit()
                assert sharing.group("g").positions == {("t", 0): 2}

    run(scenario())


def test_a_member_that_was_let_in_again_commits_nothing_of_what_it_had_before() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, *(b"%d" % number for number in range(1, 11)))
            group = sharing.group("g")
            lost: list[Any] = []
            async with client.consumer("t", group="g", settings=READING, on_lost=lost.append) as consumer:
                messages = consumer.messages()
                for _ in range(4):
                    await anext(messages)
                [name] = group.members
                group.expire(name)
                group.positions["t", 0] = 8  # another member had the partition, and is gone again
                await names(sharing, name)
                await names(sharing, name, 0)
                for _ in range(2):
                    with pytest.raises(errors.PartitionsLost, match="t/0") as raised:
                        await consumer.commit()
                    assert raised.value.partitions == (("t", 0),)
                assert group.positions == {("t", 0): 8}, "it doesn't go back"
                assert (await anext(messages)).sequence_number == 8, "it begins anew"
                assert lost == [of_t(0)]
                await consumer.commit()
                assert group.positions == {("t", 0): 9}

    run(scenario())


def test_without_on_lost_on_revoked_hears_of_losses() -> None:
    async def scenario() -> None:
        async with served(1) as (_broker, sharing, client):
            gone: list[Any] = []
            async with client.consumer("t", group="g", settings=READING, on_revoked=gone.append) as consumer:
                await consumer.poll(50)
                sharing.group("g").expire(next(iter(sharing.group("g").members)))
                await comes(lambda: not consumer.assignment)
                await consumer.poll(0)
                assert gone == [of_t(0)]

    run(scenario())


def test_a_partition_that_goes_and_comes_back_before_it_is_begun_begins_where_the_others_left_it() -> None:
    async def scenario() -> None:
        async with served(1) as (broker, sharing, client):
            put(broker, 0, *(b"%d" % number for number in range(1, 11)))
            group = sharing.group("g")
            group.positions["t", 0] = 2
            broker.redirects["t", 0] = 0  # the question for its end finds no leader, and is asked again
            async with client.consumer("t", group="g", stop_at_end=True, settings=READING) as consumer:
                reading = asyncio.ensure_future(consumer.__anext__())
                await comes(lambda: any(isinstance(each, AwaitEndsRequest) for each in broker.requests))
                [name] = group.members
                await names(sharing, name, 0)
                sharing.topics["t"] = 0
                await names(sharing, name)
                group.positions["t", 0] = 8  # another member reads on, and gives it up
                sharing.topics["t"] = 1
                await names(sharing, name, 0)
                del broker.redirects["t", 0]
                assert (await reading).first == 8

    run(scenario())
