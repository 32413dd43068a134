"""Fewer controllers are wanted than a majority of the members: said, with both numbers, until mended."""

import asyncio

import pytest

from tank_controller.k8s.missing_members import LOOKS, MissingMembers, shortage
from tank_controller.raft.messages import Configuration, NodeId


def members(*ordinals: int) -> Configuration:
    return Configuration(tuple(NodeId(ordinal, b"d") for ordinal in ordinals), ())


class Kubernetes:
    def __init__(self, wanted: int | None) -> None:
        self.wanted = wanted
        self.told: list[tuple[int, str]] = []

    async def wanted_controllers(self) -> int | None:
        return self.wanted

    def report_controller(self, ordinal: int, text: str) -> None:
        self.told.append((ordinal, text))


def looks(kubernetes: Kubernetes, *leaderless: Configuration | None) -> list[str]:
    """What is said after each look."""
    said: list[str] = [""]
    after: list[str] = []

    async def live() -> None:
        found = iter(leaderless)
        missing = MissingMembers(kubernetes, 0, lambda: next(found), said.append)
        for _ in leaderless:
            await missing.look()
            after.append(said[-1])

    asyncio.run(live())
    return after


@pytest.mark.parametrize(
    ("ordinals", "wanted", "short"),
    [
        ((0, 1, 2), 3, False),
        ((0, 1, 2), 2, False),
        ((0, 1, 2), 1, True),
        ((0, 1, 2, 3, 4), 3, False),
        ((0, 1, 2, 3, 4), 1, True),
        ((2, 3, 4), 3, True),
        ((0,), 1, False),
        ((0, 1, 2), 0, False),
    ],
)
def test_too_few_are_wanted_where_no_majority_of_the_members_runs(
    ordinals: tuple[int, ...], wanted: int, short: bool
) -> None:
    assert bool(shortage(members(*ordinals), wanted)) is short


def test_it_says_how_many_are_members_how_many_must_run_and_how_many_are_wanted() -> None:
    assert shortage(members(0, 1, 2), 1) == (
        "3 controllers are members of the cluster, 2 of them have to run, and only 1 is wanted: scale the "
        "StatefulSet to 3 (Helm: controller.replicas), and down from there once they are ready"
    )


def test_it_is_said_when_a_second_look_finds_no_leader_and_again_now_and_then() -> None:
    kubernetes = Kubernetes(1)
    said = looks(kubernetes, *[members(0, 1, 2)] * (LOOKS + 2))
    assert [bool(each) for each in said[:3]] == [False, True, True], "an election is no news"
    assert [ordinal for ordinal, _ in kubernetes.told] == [0, 0]
    assert kubernetes.told[0][1].startswith("No controller leads: 3 controllers are members")


def test_nothing_is_said_any_more_once_one_leads() -> None:
    assert looks(Kubernetes(1), *[members(0, 1, 2)] * 2, None)[-1] == ""


def test_while_kubernetes_does_not_say_how_many_are_wanted_nothing_is_said() -> None:
    kubernetes = Kubernetes(None)
    assert looks(kubernetes, *[members(0, 1, 2)] * 4) == [""] * 4
    assert not kubernetes.told
