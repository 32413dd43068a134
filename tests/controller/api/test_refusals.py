"""Who may use the HTTP API, and what it answers when something goes wrong."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tank_controller import limits
from tank_controller.api.names import Name
from tank_controller.api.operations import OPERATIONS
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.operations import PREFIX
from tank_protos.http_api.token import Token
from tests.controller.api.world import Ask, World
from tests.controller.api.world import api_world as api_world
from tests.controller.cluster_for_tests import Cluster
from tests.controller.users_for_tests import found_root


def add_iggys_names(cluster: Cluster) -> None:
    """The stream main with the topic bills, and the root user."""
    cluster.raise_to(IGGY)
    cluster.do(found_root())
    cluster.do(pb.Command(create_stream=pb.CreateStream(name="main")))
    born = cluster.state.iggy.streams[0].born
    create = pb.CreateIggyTopic(born=born, name="bills", partitions=1, replication_factor=1)
    cluster.do(pb.Command(create_iggy_topic=create))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_change_takes_the_token(world: World, name: Name) -> None:
    world.cluster.topic("orders", 1, 1)
    add_iggys_names(world.cluster)
    said = {
        "controller_id": 1, "broker_id": 1, "topic": "orders", "partition": 0, "stream": "main",
        "name": "bills", "group": "readers", "user": "iggy", "token_name": "laptop",
    }  # fmt: skip
    in_path = {each.name: said[each.name] for each in OPERATIONS[name].in_path}

    async def story(ask: Ask) -> None:
        answer = await ask(name, token="", **in_path)
        wrong = await ask(name, token="x" * 16, **in_path)
        assert wrong.code == "unauthorized"
        if OPERATIONS[name].changes:
            assert (answer.status, answer.code) == (401, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        else:
            assert answer.status == 200

    async def without(ask: Ask) -> None:
        answer = await ask(name, **in_path)
        if OPERATIONS[name].changes:
            assert (answer.status, answer.code) == (403, "no_token_configured")

    world.run(story)
    world.run(without, Token())
    assert world.controllers.commands == []


def test_while_nobody_leads_the_controllers_are_shown_and_the_rest_is_asked_for_again(world: World) -> None:
    world.controllers.leads = [False, False]

    async def story(ask: Ask) -> None:
        answer = await ask(Name.STATUS)
        assert (answer.status, answer.code) == (503, "no_leader")
        assert "more than half" in answer.body["error"]["message"]
        assert answer.headers["Retry-After"] == "1"
        for name in (Name.BALANCE, Name.LIST_PARTITIONS):
            assert (await ask(name)).code == "no_leader"
        assert (await ask(Name.CREATE_TOPIC, {"topic": "t"})).code == "no_leader"
        found = (await ask(Name.LIST_CONTROLLERS)).body["controllers"]
        assert [each["state"] for each in found] == ["follows", "follows"]
        world.controllers.problem = "it was removed: stop it"
        assert "this one knows: it was removed: stop it." in (await ask(Name.STATUS)).body["error"]["message"]
        world.controllers.named = world.controllers.addresses[1]
        world.controllers.stop(1)
        assert "can't be asked from here" in (await ask(Name.STATUS)).body["error"]["message"]
        found = (await ask(Name.LIST_CONTROLLERS)).body["controllers"]
        assert [(each["state"], each["problem"]) for each in found] == [
            ("follows", "it was removed: stop it"),
            ("down", "it can't be reached"),
        ]

    world.run(story)
    assert world.controllers.commands == []


def test_a_leader_that_comes_in_time_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "API_LEADER_S", 20)
    world.controllers.leads = [False, False]

    async def story(ask: Ask) -> None:
        waiting = asyncio.ensure_future(ask(Name.CREATE_TOPIC, {"topic": "t"}))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        world.controllers.leads = [True, False]
        assert (await waiting).status == 201

    world.run(story)


def test_a_change_whose_answer_is_lost_is_not_sent_again(world: World) -> None:
    world.controllers.unsure = True

    async def story(ask: Ask) -> None:
        answer = await ask(Name.CREATE_TOPIC, {"topic": "t"})
        assert (answer.status, answer.code) == (504, "timed_out")
        assert "check whether the change was made" in answer.body["error"]["message"]
        world.controllers.unsure = False
        assert (await ask(Name.CREATE_TOPIC, {"topic": "t"})).code == "topic_exists"

    world.run(story)
    assert world.controllers.commands == ["create_topic", "create_topic"]


def test_so_many_requests_are_under_way_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_API_REQUESTS", 2)
    monkeypatch.setattr(limits, "API_LEADER_S", 20)
    world.controllers.leads = [False, False]

    async def story(ask: Ask) -> None:
        waiting = [asyncio.ensure_future(ask(Name.LIST_BROKERS)) for _ in range(2)]
        await asyncio.sleep(0.1)
        refused = await ask(Name.LIST_CONTROLLERS)
        assert (refused.status, refused.code) == (503, "overloaded")
        world.controllers.leads = [True, False]
        assert [(await each).status for each in waiting] == [200, 200]
        assert (await ask(Name.LIST_CONTROLLERS)).status == 200

    world.run(story)


def test_what_takes_too_long_is_told_apart_by_what_it_would_have_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "API_ANSWER_S", 0.1)
    monkeypatch.setattr(limits, "API_LEADER_S", 20)
    world.controllers.leads = [False, False]

    async def story(ask: Ask) -> None:
        read = await ask(Name.LIST_PARTITIONS, only="under_replicated")
        assert (read.status, read.code) == (503, "too_slow")
        assert "ask for less, such as one topic" in read.body["error"]["message"]
        change = await ask(Name.CREATE_TOPIC, {"topic": "t"})
        assert (change.status, change.code) == (504, "timed_out")

    world.run(story)


async def never() -> AsyncIterator[bytes]:
    """A body that begins, and doesn't go on."""
    yield b"{"
    await asyncio.sleep(60)


def test_a_body_is_bounded_in_size_and_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(ask: Ask) -> None:
        large = await ask(Name.CREATE_TOPIC, b" " * (limits.MAX_API_BODY_BYTES + 1))
        assert (large.status, large.code) == (413, "too_large")
        monkeypatch.setattr(limits, "API_BODY_S", 0.05)
        slow = await ask(Name.CREATE_TOPIC, never())
        assert (slow.status, slow.code) == (408, "body_too_slow")

    world.run(story)


def test_a_path_that_is_not_there_and_a_method_that_it_does_not_take_are_told_as_json(world: World) -> None:
    async def story(ask: Ask) -> None:
        async with world.client.get(f"{PREFIX}/nothing") as answer:
            found = await answer.json()
            assert (answer.status, found["error"]["code"]) == (404, "unknown_path")
            assert "openapi.json" in found["error"]["message"]
        async with world.client.put(f"{PREFIX}/topics") as answer:
            found = await answer.json()
            assert (answer.status, found["error"]["code"]) == (405, "method_not_allowed")
            assert answer.headers["Allow"] == "GET, HEAD, POST"

    world.run(story)


def test_answers_are_counted_and_changes_are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tank.controller.api")

    async def story(ask: Ask) -> None:
        await ask(Name.STATUS)
        await ask(Name.BALANCE)
        await ask(Name.BALANCE, token="")
        await ask(Name.GET_TOPIC, topic="no%0Aforged")
        await ask(Name.DELETE_TOPIC, topic="no%0Aforged")

    world.run(story)
    assert world.api is not None
    assert world.api.answers == {
        ("status", "ok"): 1,
        ("balance", "ok"): 1,
        ("balance", "unauthorized"): 1,
        ("get_topic", "unknown_topic"): 1,
        ("delete_topic", "unknown_topic"): 1,
    }
    lines = [record.getMessage() for record in caplog.records]
    assert [line.rpartition(": ")[2] for line in lines] == ["ok", "unauthorized", "unknown_topic"]
    assert lines[0].startswith(f"POST {PREFIX}/balance by 127.0.0.1")
    assert not any("\n" in line for line in lines)


def test_a_fault_of_the_program_is_told_and_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(load: pb.BrokerLoad) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tank_controller.leader.reports.report.broker_json", broken)

    async def story(ask: Ask) -> None:
        answer = await ask(Name.LIST_BROKERS)
        assert (answer.status, answer.code) == (500, "internal")
        assert (await ask(Name.LIST_CONTROLLERS)).status == 200

    world.run(story)
    assert "ZeroDivisionError" in caplog.text
