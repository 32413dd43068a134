"""No answer of the HTTP API or of Admin, and no log line, has what proves a user's login."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tank_controller.api.names import Name
from tank_controller.api.operations import OPERATIONS
from tank_controller.node import NodeHost
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import Context
from tank_controller.state.state import ClusterState
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tests.controller.api.world import Ask, World
from tests.controller.api.world import api_world as api_world
from tests.controller.cluster_for_tests import Cluster
from tests.controller.users_for_tests import create_token, create_user, digest, found_root, hashed, the

SECRETS = (hashed("alicewonder"), "alicewonder", digest("laptop").hex(), repr(digest("laptop"))[2:-1])


def add_users(cluster: Cluster) -> ClusterState:
    """The root user, and alice with a password and a token."""
    cluster.raise_to(IGGY)
    cluster.do(found_root())
    cluster.do(create_user("alice", "wonder"))
    cluster.do(create_token(the(cluster.state, "alice"), "laptop"))
    return cluster.state


def found_in(shown: str) -> list[str]:
    return [secret for secret in SECRETS if secret in shown]


def test_http_shows_no_secret_of_a_user(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    add_users(world.cluster)
    world.cluster.topic("t", 1, 3)
    shown: list[str] = []

    async def story(ask: Ask) -> None:
        for name in Name:
            operation = OPERATIONS[name]
            if operation.method == "GET":
                said = {"topic": "t", "broker": 1, "broker_id": 1, "partition": 0, "user": "alice"}
                asked = {each.name: said.get(each.name, 1) for each in operation.in_path}
                shown.append(str((await ask(name, **asked)).body))

    world.run(story)
    assert len(shown) > 5
    assert "alice" in "".join(shown)
    assert "laptop" in "".join(shown), "a token's name is no secret"
    assert not found_in("".join(shown))
    assert not found_in(caplog.text)


def test_admin_shows_users_without_hashes() -> None:
    state = add_users(Cluster(1))

    def read(done: Callable[[None], None]) -> None:
        done(None)

    node = SimpleNamespace(
        brokers=SimpleNamespace(leads=True),
        proposals=SimpleNamespace(read=read),
        metadata=SimpleNamespace(state=state),
    )
    admin = AdminService(cast(NodeHost, SimpleNamespace(node=node)))

    async def scenario() -> tuple[list[pb.UsersAnswer], list[pb.StateAnswer]]:
        users = [part async for part in admin.Users(pb.UsersRequest())]
        return users, [part async for part in admin.State(pb.StateRequest(), cast(Context, None))]

    users, states = asyncio.run(scenario())
    assert [user.name for part in users for user in part.users] == ["iggy", "alice"]
    assert [user.name for part in states for user in part.view.delta.users] == ["iggy", "alice"]
    for part in [*users, *states]:
        stored = part.SerializeToString()
        assert hashed("alicewonder").encode() not in stored
        assert digest("laptop") not in stored
    assert digest("laptop") in state.snapshot(), "there is something to hide"


def test_no_text_of_the_state_shows_a_secret_and_its_snapshot_has_hashes_alone() -> None:
    state = add_users(Cluster(1))
    assert not found_in(repr(state.users))
    assert "alice" in repr(state.users)
    assert b"wonder" not in state.snapshot().replace(hashed("alicewonder").encode(), b"")
