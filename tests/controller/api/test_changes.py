"""The HTTP API's changes: what is answered, and what becomes of the cluster."""

import pytest

from tank_controller import limits
from tank_controller.api.names import Name
from tank_protos.http_api.operations import PREFIX
from tests.controller.api.world import Ask, World
from tests.controller.api.world import api_world as api_world


def test_a_topic_is_made_changed_and_deleted(world: World) -> None:
    async def story(ask: Ask) -> None:
        made = await ask(
            Name.CREATE_TOPIC, {"topic": "t", "partitions": 2, "settings": {"flush": "replicated"}}
        )
        assert made.headers["Location"] == f"{PREFIX}/topics/t"
        assert (made.body["replication_factor"], made.body["settings"]) == (3, {"flush": "replicated"})
        again = await ask(Name.CREATE_TOPIC, {"topic": "t"})
        assert (again.status, again.code) == (409, "topic_exists")
        settings = {"flush": None, "log.retention.secs": "7d"}
        changed = await ask(Name.ALTER_TOPIC, {"partitions": 4, "settings": settings}, topic="t")
        assert (changed.body["partitions"], changed.body["settings"]) == (4, {"log.retention.secs": "7d"})
        same = await ask(Name.ALTER_TOPIC, {"settings": {"flush": "disk"}}, topic="t")
        assert (same.body["partitions"], len(same.body["settings"])) == (4, 2)
        assert (await ask(Name.ALTER_TOPIC, {}, topic="t")).code == "invalid_request"
        assert (await ask(Name.ALTER_TOPIC, {"partitions": 1}, topic="t")).code == "invalid_partitions"
        assert (await ask(Name.ALTER_TOPIC, {"settings": {"x": "1"}}, topic="t")).code == "invalid_setting"
        assert (await ask(Name.ALTER_TOPIC, {"partitions": 1}, topic="u")).code == "unknown_topic"
        assert (await ask(Name.DELETE_TOPIC, topic="t")).body == {"deleted": "t"}
        assert (await ask(Name.DELETE_TOPIC, topic="t")).status == 404
        refused = await ask(Name.CREATE_TOPIC, {"topic": "t", "replication_factor": 4})
        assert (refused.status, refused.code) == (409, "too_few_brokers")
        assert (await ask(Name.CREATE_TOPIC, {"topic": "a b"})).code == "invalid_name"

    world.run(story)
    assert world.cluster.state.topics == {}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("colour", "red", "etting colour=red: unknown"),
        ("Flush", "disk", "did you mean flush"),
        ("log.retention.secs", "2days", "write a number with one of the units"),
    ],
)
def test_settings_are_taken_in_one_way_only(world: World, key: str, value: str, said: str) -> None:
    async def story(ask: Ask) -> None:
        assert (await ask(Name.CREATE_TOPIC, {"topic": "there"})).status == 201
        refused = [
            await ask(Name.CREATE_TOPIC, {"topic": "new", "settings": {key: value}}),
            await ask(Name.ALTER_TOPIC, {"settings": {key: value}}, topic="there"),
        ]
        for answer in refused:
            assert (answer.status, answer.code) == (400, "invalid_setting")
            assert said in answer.body["error"]["message"]
        unset = await ask(Name.ALTER_TOPIC, {"settings": {"colour": None}}, topic="there")
        assert (unset.status, unset.code) == (400, "invalid_setting")

    world.run(story)
    (topic,) = world.cluster.state.topics.values()
    assert (topic.name, topic.settings) == ("there", {})


def test_where_a_limit_is_reached_nobody_is_told_to_ask_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_PARTITIONS", 2)

    async def story(ask: Ask) -> None:
        assert (await ask(Name.CREATE_TOPIC, {"topic": "t"})).status == 201
        for name, said in ((Name.CREATE_TOPIC, {}), (Name.ALTER_TOPIC, {"topic": "t"})):
            body = {"partitions": 3} if said else {"topic": "u", "partitions": 2}
            full = await ask(name, body, **said)
            assert (full.status, full.code) == (409, "limit_reached")
            assert "delete some first" in full.body["error"]["message"]
            assert "Retry-After" not in full.headers

    world.run(story)


def test_a_change_that_was_made_is_never_one_to_be_made_again(world: World) -> None:
    """Leadership is lost between the change and the look at what became of it."""
    world.cluster.topic("orders", 1, 3)
    here: dict[str, object] = {"topic": "orders", "partition": 0}
    to = [*reversed(world.cluster.partition(next(iter(world.cluster.state.topics))).replicas)]
    made: list[tuple[Name, dict[str, object] | None, dict[str, object]]] = [
        (Name.CREATE_TOPIC, {"topic": "t"}, {}),
        (Name.ALTER_TOPIC, {"partitions": 2}, {"topic": "t"}),
        (Name.UNDO_DRAIN, None, {"broker_id": 1}),
        (Name.BALANCE, None, {}),
        (Name.ELECT_LEADER, None, here),
        (Name.MOVE_PARTITION, {"to": to}, here),
    ]

    async def story(ask: Ask) -> None:
        for name, body, said in made:
            world.controllers.leads_until_changed = True
            answer = await ask(name, body, **said)
            assert (answer.status, answer.code) == (504, "timed_out"), name
            assert "The change was made" in answer.body["error"]["message"]
            assert "Retry-After" not in answer.headers
            world.controllers.leads = [False, True]

    world.run(story)
    assert len(world.controllers.commands) == len(made), "each was made, and once"


def test_a_broker_is_drained_and_removed(world: World) -> None:
    world.cluster.topic("orders", 2, 3)
    world.cluster.up(4)

    async def story(ask: Ask) -> None:
        begun = await ask(Name.DRAIN_BROKER, broker_id=1)
        assert begun.body == {"broker": 1, "draining": True, "replicas": 2, "leads": 1}
        few = await ask(Name.DRAIN_BROKER, broker_id=2)
        assert (few.status, few.code) == (409, "too_few_brokers")
        assert (await ask(Name.DRAIN_BROKER, broker_id=9)).status == 404
        assert (await ask(Name.REMOVE_BROKER, broker_id=1)).code == "in_use"
        assert (await ask(Name.UNDO_DRAIN, broker_id=1)).body["draining"] is False
        assert (await ask(Name.REMOVE_BROKER, broker_id=4)).code == "in_use", "it runs"
        world.cluster.fence(4)
        assert (await ask(Name.REMOVE_BROKER, broker_id=4)).body == {"removed": 4}
        assert (await ask(Name.REMOVE_BROKER, broker_id=4)).code == "unknown_broker"
        assert (await ask(Name.BALANCE)).body["balanced"] is True

    world.run(story)
    assert not world.cluster.state.brokers[1].draining
    assert world.controllers.commands == ["set_broker", "set_broker", "remove_broker", "balance"]


def test_a_partition_is_moved_and_led_as_it_is_said(world: World) -> None:
    cluster = world.cluster
    t = cluster.topic("orders", 2, 2)
    a, b = cluster.partition(t, 1).replicas
    c = 6 - a - b
    here: dict[str, object] = {"topic": "orders", "partition": 1}

    async def story(ask: Ask) -> None:
        assert (await ask(Name.CANCEL_MOVE, **here)).code == "not_moving"
        moved = await ask(Name.MOVE_PARTITION, {"to": [a, c]}, **here)
        assert (moved.body["moving"], set(moved.body["replicas"])) == (True, {a, b, c})
        again = await ask(Name.MOVE_PARTITION, {"to": [c, b]}, **here)
        assert (again.status, again.code) == (409, "in_use")
        assert (await ask(Name.CANCEL_MOVE, **here)).body["moving"] is False
        assert (await ask(Name.MOVE_PARTITION, {"to": [b, a]}, **here)).body["replicas"] == [b, a]
        for to, status, code in (
            ([a, 9], 409, "unknown_broker"),
            ([a], 400, "invalid_replication_factor"),
            ([a, a], 400, "invalid_request"),
        ):
            refused = await ask(Name.MOVE_PARTITION, {"to": to}, **here)
            assert (refused.status, refused.code) == (status, code)
        elected = await ask(Name.ELECT_LEADER, **here)
        assert elected.body == {**here, "leader": b, "lossy": False}

    world.run(story)
    assert cluster.partition(t, 1).leader == b


def test_an_unclean_election_is_one_that_is_said_to_be(world: World) -> None:
    cluster = world.cluster
    t = cluster.topic("orders", 1, 2)
    first, second = cluster.partition(t).replicas
    cluster.fence(second)
    cluster.fence(first)
    here: dict[str, object] = {"topic": "orders", "partition": 0}

    async def story(ask: Ask) -> None:
        nobody = await ask(Name.ELECT_LEADER, {"unclean": True}, **here)
        assert (nobody.status, nobody.code) == (409, "not_electable")
        cluster.up(second)
        refused = await ask(Name.ELECT_LEADER, **here)
        assert (refused.status, refused.code) == (409, "not_electable")
        elected = await ask(Name.ELECT_LEADER, {"unclean": True}, **here)
        assert elected.body == {**here, "leader": second, "lossy": True}

    world.run(story)


def test_controllers_are_led_by_another_and_removed(world: World) -> None:
    async def story(ask: Ask) -> None:
        leads = await ask(Name.REMOVE_CONTROLLER, controller_id=2)
        assert (leads.status, leads.code) == (409, "refused")
        assert (await ask(Name.TRANSFER_LEADERSHIP, controller_id=1)).body == {"controller": 1}
        assert (await ask(Name.STATUS)).body["leader"] == 1
        for name in (Name.TRANSFER_LEADERSHIP, Name.REMOVE_CONTROLLER):
            unknown = await ask(name, controller_id=9)
            assert (unknown.status, unknown.code) == (404, "unknown_controller")
        assert (await ask(Name.REMOVE_CONTROLLER, controller_id=2, disk="x")).status == 400
        assert (await ask(Name.REMOVE_CONTROLLER, controller_id=2, disk="aa")).code == "refused"
        assert (await ask(Name.REMOVE_CONTROLLER, controller_id=2)).body == {"removed_controller": 2}

    world.run(story)
    assert world.controllers.commands == ["transfer", "remove_controller"]
