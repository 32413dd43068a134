"""A controller of a release that is uninstalled: it stays for its brokers, and no longer than it helps."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tank_controller.app import taking_down
from tank_controller.app.taking_down import see_brokers_off
from tests.controller.governed import Governed
from tests.support.controllers.governed import governed


class Kubernetes:
    """Of a release that is there, or taken down."""

    def __init__(self, *, taken_down: bool = True) -> None:
        self._taken_down = taken_down

    async def is_taken_down(self) -> bool:
        return self._taken_down


def rooms_of(world: Governed, leader: object = "one") -> Any:
    return SimpleNamespace(
        metadata=SimpleNamespace(state=world.cluster.state),
        member=SimpleNamespace(raft=SimpleNamespace(leader=leader)),
    )


def see_off(node: Any, kubernetes: Any) -> bool:
    return asyncio.run(see_brokers_off(node, kubernetes))


@pytest.fixture
def no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for what is meant alone."""
    monkeypatch.setattr(taking_down, "STAY_S", 1e9)


def test_a_controller_that_stops_alone_hands_over_at_once() -> None:
    assert not see_off(rooms_of(governed(3)), Kubernetes(taken_down=False))
    assert not see_off(None, Kubernetes())
    assert not see_off(rooms_of(governed(3)), None)


def test_it_stays_until_the_last_broker_has_stopped(no_end: None) -> None:
    world = governed(3)

    async def live() -> None:
        staying = asyncio.create_task(see_brokers_off(rooms_of(world), Kubernetes()))  # type: ignore[arg-type]
        for broker_id in (1, 2, 3):
            await asyncio.sleep(3 * taking_down.LOOK_EVERY_S)
            assert not staying.done()
            world.cluster.state.brokers[broker_id].fenced_index = 1
        assert await staying

    asyncio.run(live())


def test_without_a_leader_it_does_not_stay_for_long(no_end: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others went before it: the brokers' words change nothing any more."""
    monkeypatch.setattr(taking_down, "LEADERLESS_S", 0.3)
    assert see_off(rooms_of(governed(3), leader=None), Kubernetes())


def test_brokers_that_never_stop_are_waited_for_so_long_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_down, "STAY_S", 0.3)
    assert see_off(rooms_of(governed(3)), Kubernetes())
