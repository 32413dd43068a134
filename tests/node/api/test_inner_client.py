"""A client within the broker's process: requests go the way of all clients, without a socket."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tank_node.api.inner_client import InnerClient
from tank_node.api.positions import LogEnds, ends_of
from tank_node.tank.dispatch import open_session
from tank_node.tank.session import TankSession
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    AwaitEndsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    KnownEnd,
)
from tank_protos.http_api.errors import ApiError
from tank_protos.wire.errors import WireError
from tests.support.clients.produce import batch_of, produce
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    """A broker with two messages in one of three partitions, whose ticks end when it is woken."""
    with BenchNode(tmp_path / "data") as made:
        made.controller.add("flights", 3, flush="replicated")
        produce(made.client(), batch_of(b"a", b"b"), topic="flights")
        yield made


def run(
    node: BenchNode, story: Callable[[InnerClient], Awaitable[None]], session: TankSession | None = None
) -> None:
    """Tells a story of requests."""

    async def told() -> None:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon(node.tick)

        node.broker.wake = wake
        async with InnerClient(node.broker, session or open_session(node.broker)) as client:
            await story(client)

    asyncio.run(told())


def test_answers_come_as_to_any_client(node: BenchNode) -> None:
    async def story(client: InnerClient) -> None:
        for _ in range(3):
            answer = await client.ask(
                lambda request_id: DescribeTopicsRequest(0, request_id, ["flights"]), DescribeTopicsResponse
            )
            assert [len(topic.partitions) for topic in answer.topics] == [3]

    run(node, story)


def test_an_answer_that_comes_later_is_waited_for(node: BenchNode) -> None:
    async def story(client: InnerClient) -> None:
        asyncio.get_running_loop().call_later(
            0.01, lambda: produce(node.client(), batch_of(b"c"), topic="flights")
        )
        answer = await client.ask(
            lambda request_id: AwaitEndsRequest(0, request_id, 60_000, [KnownEnd("flights", 0, 2)]),
            AwaitEndsResponse,
        )
        assert answer.partitions[0].high_water_mark == 3

    run(node, story)


def test_the_ends_of_partitions_are_those_of_their_logs(node: BenchNode) -> None:
    async def story(client: InnerClient) -> None:
        places = [("flights", 0), ("flights", 1), ("flights", 7), ("none", 0)]
        found = await ends_of(client, places)
        assert found == {("flights", 0): LogEnds(1, 2), ("flights", 1): LogEnds(0, 0)}

    run(node, story)


def test_a_request_that_is_too_large_is_an_error_of_its_caller(node: BenchNode) -> None:
    async def story(client: InnerClient) -> None:
        with pytest.raises(WireError):
            await client.ask(
                lambda request_id: DeleteTopicRequest(0, request_id, "x" * 300), DeleteTopicResponse
            )

    run(node, story)


def test_a_conversation_that_ends_leaves_no_wait_behind(node: BenchNode) -> None:
    async def story(client: InnerClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.ask(
                    lambda request_id: AwaitEndsRequest(0, request_id, 60_000, [KnownEnd("flights", 0, 2)]),
                    AwaitEndsResponse,
                )

    run(node, story)
    assert node.broker.deadlines.entries == 0


def test_a_full_session_is_an_error_that_passes(node: BenchNode) -> None:
    session = open_session(node.broker)
    session.hold_back()

    async def story(client: InnerClient) -> None:
        with pytest.raises(ApiError) as refusal:
            await client.ask(
                lambda request_id: DescribeTopicsRequest(0, request_id, []), DescribeTopicsResponse
            )
        assert refusal.value.code == "overloaded"

    run(node, story, session)
