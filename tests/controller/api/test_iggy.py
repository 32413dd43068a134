"""The HTTP API's operations for Iggy's clients: what is answered, and what becomes of the cluster."""

from typing import Any

import pytest

from tank_controller.api.names import Name
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tests.controller.api.world import Ask, World
from tests.controller.api.world import api_world as api_world
from tests.controller.users_for_tests import create_token, found_root, hashed, the

ORDERS = {"stream": "main", "name": "orders"}


@pytest.fixture
def iggy(world: World) -> World:
    """The world at the level of these names, with the root user."""
    world.cluster.raise_to(IGGY)
    world.cluster.do(found_root())
    return world


async def made(ask: Ask, **said: Any) -> None:
    """The stream main with the topic orders."""
    assert (await ask(Name.CREATE_STREAM, {"stream": "main"})).status == 201
    assert (await ask(Name.CREATE_STREAM_TOPIC, {"name": "orders", **said}, stream="main")).status == 201


def test_a_stream_is_made_renamed_listed_and_deleted(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        found = (await ask(Name.CREATE_STREAM, {"stream": "main"})).body
        assert (found["number"], found["topics"], found["going"]) == (0, 0, False)
        again = await ask(Name.CREATE_STREAM, {"stream": "main"})
        assert (again.status, again.code) == (409, "stream_exists")
        await ask(Name.CREATE_STREAM, {"stream": "a/b ü"})
        renamed = await ask(Name.RENAME_STREAM, {"name": "archive"}, stream="a%2Fb%20%C3%BC")
        assert (renamed.body["number"], renamed.body["name"]) == (1, "archive")
        page = (await ask(Name.LIST_STREAMS, limit=1)).body
        assert ([each["name"] for each in page["streams"]], page["next"]) == (["main"], "0")
        page = (await ask(Name.LIST_STREAMS, limit=1, after=0)).body
        assert ([each["name"] for each in page["streams"]], page["next"]) == (["archive"], None)
        assert (await ask(Name.DELETE_STREAM, stream="archive")).body == {"deleted": "archive"}
        gone = await ask(Name.DELETE_STREAM, stream="archive")
        assert (gone.status, gone.code) == (404, "unknown_stream")

    iggy.run(story)
    assert list(iggy.cluster.state.iggy.stream_numbers) == ["main"]


def test_a_topic_is_made_changed_and_deleted(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        await made(ask, partitions=2, expiry_us=60_000_000, max_bytes=4096, durability="replicated")
        found = (await ask(Name.GET_STREAM_TOPIC, **ORDERS)).body
        assert (found["topic"], found["partitions"], found["exposed"]) == ("main.orders", 2, False)
        assert (found["expiry_us"], found["max_bytes"]) == (60_000_000, 4096)
        assert found["settings"] == {
            "flush": "replicated", "log.format": "kafka", "log.retention.bytes": "2048",
            "log.retention.secs": "60",
        }  # fmt: skip
        change = {"name": "bills", "partitions": 3, "expiry_us": 0, "durability": "persisted"}
        changed = (await ask(Name.ALTER_STREAM_TOPIC, change, **ORDERS)).body
        assert (changed["name"], changed["topic"], changed["partitions"]) == ("bills", "main.orders", 3)
        assert (changed["expiry_us"], changed["settings"]["flush"]) == (None, "disk")
        bills = {**ORDERS, "name": "bills"}
        fewer = (await ask(Name.SHRINK_STREAM_TOPIC, {"partitions": 1}, **bills)).body
        assert fewer["partitions"] == 1
        purged = (await ask(Name.PURGE_STREAM_TOPIC, **bills)).body
        assert purged["topic_id"] > fewer["topic_id"]
        page = (await ask(Name.LIST_STREAM_TOPICS, stream="main")).body
        assert page == {"topics": [purged], "next": None}
        deleted = await ask(Name.DELETE_STREAM_TOPIC, **bills)
        assert deleted.body == {"deleted": "bills", "stream": "main"}
        gone = await ask(Name.GET_STREAM_TOPIC, **bills)
        assert (gone.status, gone.code) == (404, "unknown_topic")

    iggy.run(story)
    assert iggy.cluster.state.topics == {}


def test_what_a_topic_can_not_be_is_refused(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        await made(ask, format="tank")
        again = await ask(Name.CREATE_STREAM_TOPIC, {"name": "orders"}, stream="main")
        assert (again.status, again.code) == (409, "topic_exists")
        assert (await ask(Name.ALTER_STREAM_TOPIC, {}, **ORDERS)).code == "invalid_request"
        fewer = await ask(Name.ALTER_STREAM_TOPIC, {"partitions": 1}, **ORDERS)
        assert fewer.status == 200, "as many as there are"
        more = await ask(Name.SHRINK_STREAM_TOPIC, {"partitions": 9}, **ORDERS)
        assert more.code == "invalid_partitions"
        assert (await ask(Name.CREATE_STREAM_TOPIC, {"name": "x"}, stream="other")).status == 404
        refused = await ask(Name.CREATE_STREAM_TOPIC, {"name": "x", "format": "iggy"}, stream="main")
        assert refused.code == "invalid_request"

    iggy.run(story)
    (topic,) = iggy.cluster.state.topics.values()
    assert topic.settings == {"log.format": "tank"}


def test_a_purge_of_a_stream_leaves_exposed_topics_alone(iggy: World) -> None:
    exposed = iggy.cluster.topic("payments", 1, 1)

    async def story(ask: Ask) -> None:
        await made(ask)
        shown = await ask(Name.EXPOSE_TOPIC, {"topic": "payments", "stream": "main"})
        assert (shown.body["name"], shown.body["exposed"], shown.body["topic_id"]) == (
            "payments",
            True,
            exposed,
        )
        assert (await ask(Name.LIST_EXPOSURES)).body["topics"] == [shown.body]
        assert (await ask(Name.PURGE_STREAM, stream="main")).body == {"purged": "main", "topics": 1}
        assert (await ask(Name.HIDE_TOPIC, topic="payments")).body == {"hidden": "payments"}
        assert (await ask(Name.HIDE_TOPIC, topic="payments")).status == 404
        other = await ask(Name.EXPOSE_TOPIC, {"topic": "other", "stream": "main", "name": "x"})
        assert (other.status, other.code) == (404, "unknown_topic")
        assert (await ask(Name.LIST_EXPOSURES)).body == {"topics": [], "next": None}

    iggy.run(story)
    assert iggy.cluster.state.topics[exposed].iggy is None


def test_a_group_is_made_listed_and_deleted(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        await made(ask)
        found = (await ask(Name.CREATE_STREAM_GROUP, {"group": "readers"}, **ORDERS)).body
        assert (found["stream"], found["topic"], found["number"]) == ("main", "orders", 0)
        again = await ask(Name.CREATE_STREAM_GROUP, {"group": "readers"}, **ORDERS)
        assert (again.status, again.code) == (409, "group_exists")
        assert (await ask(Name.LIST_STREAM_GROUPS, **ORDERS)).body == {"groups": [found], "next": None}
        deleted = await ask(Name.DELETE_STREAM_GROUP, group="readers", **ORDERS)
        assert deleted.body == {"deleted": "readers"}
        gone = await ask(Name.DELETE_STREAM_GROUP, group="readers", **ORDERS)
        assert (gone.status, gone.code) == (404, "unknown_group")

    iggy.run(story)


def test_a_user_is_made_changed_and_deleted(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        await made(ask)
        new = {
            "user": "alice", "password_hash": hashed("wonder"),
            "permissions": {"server": "read_servers", "0": "read_stream", "0/0": "send_messages"},
        }  # fmt: skip
        found = (await ask(Name.CREATE_USER, new)).body
        assert (found["number"], found["active"], found["tokens"]) == (1, True, 0)
        assert found["permissions"] == [
            {"place": "server", "rights": ["read_servers"]},
            {"place": "stream 0", "rights": ["read_stream"]},
            {"place": "topic 0/0", "rights": ["send_messages"]},
        ]
        assert iggy.cluster.state.users.by_number[1].births[0] == iggy.cluster.state.iggy.streams[0].born
        assert (await ask(Name.CREATE_USER, new)).body == found, "a repeat is known by its hash"
        again = await ask(Name.CREATE_USER, {**new, "password_hash": hashed("other")})
        assert (again.status, again.code) == (409, "user_exists")
        change = {"name": "bob", "active": False, "password_hash": hashed("other"), "permissions": {}}
        changed = (await ask(Name.UPDATE_USER, change, user="alice")).body
        assert (changed["name"], changed["active"], changed["permissions"]) == ("bob", False, None)
        assert (await ask(Name.GET_USER, user="bob")).body == changed
        assert [each["name"] for each in (await ask(Name.LIST_USERS)).body["users"]] == ["iggy", "bob"]
        assert (await ask(Name.UPDATE_USER, {}, user="bob")).code == "invalid_request"
        assert (await ask(Name.DELETE_USER, user="bob")).body == {"deleted": "bob"}
        gone = await ask(Name.GET_USER, user="bob")
        assert (gone.status, gone.code) == (404, "unknown_user")
        root = await ask(Name.DELETE_USER, user="iggy")
        assert (root.status, root.code) == (409, "root_user")

    iggy.run(story)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"password_hash": "plain"}, "argon2id"),
        ({"permissions": {"server": "fly"}}, "no right fly"),
        ({"permissions": {"main": "read_stream"}}, "NUMBER:RIGHT"),
        ({"permissions": {"0/x": "read_topic"}}, "NUMBER:RIGHT"),
        ({"user": "ab"}, "3 to 50"),
    ],
)
def test_what_a_user_can_not_be_is_said_without_its_secret(
    iggy: World, said: dict[str, object], message: str
) -> None:
    async def story(ask: Ask) -> None:
        refused = await ask(Name.CREATE_USER, {"user": "alice", "password_hash": hashed("wonder"), **said})
        assert refused.status == 400
        assert message in refused.body["error"]["message"]
        assert "plain" not in refused.body["error"]["message"]

    iggy.run(story)
    assert list(iggy.cluster.state.users.numbers) == ["iggy"]


def test_tokens_are_named_and_never_shown(iggy: World) -> None:
    async def story(ask: Ask) -> None:
        await ask(Name.CREATE_USER, {"user": "alice", "password_hash": hashed("wonder")})
        iggy.cluster.do(create_token(the(iggy.cluster.state, "alice"), "laptop"))
        assert (await ask(Name.LIST_TOKENS, user="alice")).body == {
            "user": "alice", "tokens": [{"name": "laptop", "expires_us": None}],
        }  # fmt: skip
        assert (await ask(Name.GET_USER, user="alice")).body["tokens"] == 1
        deleted = await ask(Name.DELETE_TOKEN, user="alice", token_name="laptop")
        assert deleted.body == {"deleted": "laptop", "user": "alice"}
        assert (await ask(Name.DELETE_TOKEN, user="alice", token_name="laptop")).status == 404

    iggy.run(story)


def test_below_the_level_a_change_says_what_it_needs(world: World) -> None:
    async def story(ask: Ask) -> None:
        refused = await ask(Name.CREATE_STREAM, {"stream": "main"})
        assert (refused.status, refused.code) == (409, ErrorCode.LEVEL_TOO_LOW.name.lower())
        assert (await ask(Name.LIST_STREAMS)).body == {"streams": [], "next": None}

    world.run(story)
