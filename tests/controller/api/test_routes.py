"""The HTTP API's reads."""

from typing import Any

import pytest

from tank_controller import limits
from tank_controller.api.names import Name
from tank_protos.http_api.operations import PREFIX
from tests.controller.api.world import DOCUMENT, SECRET, Ask, World
from tests.controller.api.world import api_world as api_world


def test_a_controller_that_does_not_lead_answers_with_what_the_leader_says(world: World) -> None:
    world.cluster.topic("orders", 2, 2)

    async def story(ask: Ask) -> None:
        found = (await ask(Name.STATUS, token="")).body
        assert (found["leader"], found["healthy"], found["topics"]) == (2, True, 1)
        assert found["partitions"]["total"] == 2
        assert [each["state"] for each in found["controllers"]] == ["follows", "leads"]
        assert (await ask(Name.LIST_CONTROLLERS, token="")).body["controllers"] == found["controllers"]
        assert (await ask(Name.GET_BROKER, broker_id=2)).body == found["brokers"][1]
        assert (await ask(Name.DESCRIBE, token="")).body == DOCUMENT

    world.run(story)


def test_what_waits_and_what_moves_is_in_the_status(world: World) -> None:
    cluster = world.cluster
    waiting = cluster.topic("orders", 1, 2)
    first, second = cluster.partition(waiting).replicas
    moved = cluster.topic("moved", 1, 1)
    (at,) = cluster.partition(moved).replicas
    cluster.do(cluster.reassign(moved, at % 3 + 1))
    cluster.fence(second)
    cluster.fence(first)
    cluster.up(second)

    async def story(ask: Ask) -> None:
        found = (await ask(Name.STATUS)).body
        assert [(each["topic"], each["waits_for"]) for each in found["waiting"]] == [("orders", [first])]
        assert "moved" in [each["topic"] for each in found["moving"]]
        assert found["healthy"] is False
        (row,) = (await ask(Name.LIST_PARTITIONS, only="leaderless", topic="orders")).body["partitions"]
        assert row == found["waiting"][0]
        assert (await ask(Name.GET_PARTITION, topic="orders", partition=0)).body == row

    world.run(story)


def test_what_healthy_takes(world: World) -> None:
    async def story(ask: Ask) -> None:
        assert (await ask(Name.STATUS)).body["healthy"] is True
        world.controllers.problem = "its disk is full"
        assert (await ask(Name.STATUS)).body["healthy"] is False
        world.controllers.problem = ""
        world.cluster.fence(3)
        found = (await ask(Name.STATUS)).body
        assert (found["healthy"], found["partitions"]["under_replicated"]) == (False, 0), "it holds nothing"

    world.run(story)


async def pages(ask: Ask, name: Name, key: str, limit: int, **said: object) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    after: dict[str, object] = {}
    while True:
        page = (await ask(name, limit=limit, **said, **after)).body
        assert len(page[key]) <= limit
        found += page[key]
        if page["next"] is None:
            return found
        assert page[key], "a page that isn't the last has something"
        after = {"after": page["next"]}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_together_are_the_whole_list(world: World, limit: int) -> None:
    for name, partitions in (("b", 2), ("a", 3), ("a-b", 1), ("c", 1)):
        world.cluster.topic(name, partitions, 1)

    async def story(ask: Ask) -> None:
        found = await pages(ask, Name.LIST_PARTITIONS, "partitions", limit)
        places = [(each["topic"], each["partition"]) for each in found]
        assert places == [("a", 0), ("a", 1), ("a", 2), ("a-b", 0), ("b", 0), ("b", 1), ("c", 0)]
        found = await pages(ask, Name.LIST_PARTITIONS, "partitions", limit, topic="b")
        assert [each["partition"] for each in found] == [0, 1]
        topics = await pages(ask, Name.LIST_TOPICS, "topics", limit)
        assert [(each["topic"], each["partitions"]) for each in topics] == [
            ("a", 3), ("a-b", 1), ("b", 2), ("c", 1),
        ]  # fmt: skip
        assert topics[2] == (await ask(Name.GET_TOPIC, topic="b")).body
        brokers = await pages(ask, Name.LIST_BROKERS, "brokers", limit)
        assert [each["broker_id"] for each in brokers] == [1, 2, 3]

    world.run(story)


def test_a_page_of_topics_ends_behind_many_partitions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "API_PAGE_PARTITIONS", 3)
    for name, partitions in (("a", 5), ("b", 2), ("c", 1), ("d", 1)):
        world.cluster.topic(name, partitions, 1)

    async def story(ask: Ask) -> None:
        sizes = []
        after = ""
        while after != "None":
            page = (await ask(Name.LIST_TOPICS, after=after)).body
            sizes.append([(each["topic"], each["partitions"]) for each in page["topics"]])
            after = str(page["next"])
        assert sizes == [[("a", 5)], [("b", 2), ("c", 1)], [("d", 1)]]

    world.run(story)


@pytest.mark.parametrize(
    ("name", "said", "status", "code"),
    [
        (Name.GET_TOPIC, {"topic": "no"}, 404, "unknown_topic"),
        (Name.GET_PARTITION, {"topic": "no", "partition": 0}, 404, "unknown_topic"),
        (Name.GET_PARTITION, {"topic": "orders", "partition": 2}, 404, "unknown_partition"),
        (Name.GET_PARTITION, {"topic": "orders", "partition": "x"}, 400, "invalid_request"),
        (Name.GET_BROKER, {"broker_id": 9}, 404, "unknown_broker"),
        (Name.LIST_PARTITIONS, {"topic": "no"}, 404, "unknown_topic"),
        (Name.LIST_PARTITIONS, {"after": "orders"}, 400, "invalid_request"),
        (Name.LIST_PARTITIONS, {"after": "orders/x"}, 400, "invalid_request"),
        (Name.LIST_PARTITIONS, {"limit": 1001}, 400, "invalid_request"),
        (Name.LIST_BROKERS, {"offset": 1}, 400, "invalid_request"),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_told_apart(
    world: World, name: Name, said: dict[str, object], status: int, code: str
) -> None:
    world.cluster.topic("orders", 2, 1)

    async def story(ask: Ask) -> None:
        answer = await ask(name, **said)
        assert (answer.status, answer.code) == (status, code)

    world.run(story)


@pytest.mark.parametrize("path", ["/status", "/brokers", "/brokers/99", "/no-such-page"])
def test_head_is_answered_as_get_is_without_a_body(path: str, world: World) -> None:
    async def story(ask: Ask) -> None:
        found = []
        for method in ("GET", "HEAD"):
            headers = {"Authorization": f"Bearer {SECRET}"}
            async with world.client.request(method, PREFIX + path, headers=headers) as answer:
                found.append((answer.status, answer.content_type, await answer.read()))
        (status, content_type, body), (head_status, head_type, head_body) = found
        assert (head_status, head_type) == (status, content_type)
        assert body
        assert head_body == b""

    world.run(story)


def test_a_change_has_no_head(world: World) -> None:
    async def story(ask: Ask) -> None:
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with world.client.head(f"{PREFIX}/balance", headers=headers) as answer:
            assert answer.status == 405

    world.run(story)
