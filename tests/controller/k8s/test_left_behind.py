"""Controllers that nobody wants, that don't answer and that count still are told of by the one that leads."""

import asyncio

import pytest

from tank_controller.k8s.left_behind import LOOKS, LeftBehind


class Kubernetes:
    def __init__(self, wanted: int | None) -> None:
        self.wanted = wanted
        self.told: list[tuple[int, str]] = []

    async def wanted_controllers(self) -> int | None:
        return self.wanted

    def report_controller(self, ordinal: int, text: str) -> None:
        self.told.append((ordinal, text))


def looks(kubernetes: Kubernetes, *silent: list[int]) -> list[int]:
    """Who was told of, while these didn't answer, one look after the other."""

    async def look() -> None:
        found = iter(silent)
        left_behind = LeftBehind(kubernetes, lambda: next(found), lambda: 5)
        for _ in silent:
            await left_behind.look()

    asyncio.run(look())
    return [ordinal for ordinal, _ in kubernetes.told]


def test_one_that_counts_for_a_minute_without_being_wanted_is_told_of_with_what_to_do() -> None:
    kubernetes = Kubernetes(3)
    assert looks(kubernetes, [1, 4], [1, 4]) == [4], "controller 1 is wanted, and only down"
    assert "tank cluster remove-controller 4" in kubernetes.told[0][1]
    assert "(3 of 5 are)" in kubernetes.told[0][1]


def test_one_that_is_just_leaving_is_not() -> None:
    assert looks(Kubernetes(3), [3], []) == []


def test_it_is_told_again_now_and_then_for_as_long_as_it_lasts() -> None:
    assert looks(Kubernetes(3), *[[3]] * (2 * LOOKS + 2)) == [3, 3, 3]


@pytest.mark.parametrize("wanted", [None, 0])
def test_nothing_is_told_while_nobody_says_how_many_are_wanted_or_all_are_stopped(wanted: int | None) -> None:
    assert looks(Kubernetes(wanted), *[[1, 2]] * 4) == []


def test_one_that_does_not_lead_tells_nothing_and_begins_anew_when_it_does() -> None:
    assert looks(Kubernetes(1), [1, 2], [], [1, 2]) == []
