"""Limits that contradict each other are refused with a sentence."""

import pytest

from tank_node.limits import MIB, LimitError, Limits


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"frame_bytes": 300 * MIB}, "frame_bytes"),
        ({"frame_bytes": 0}, "frame_bytes"),
        ({"bundle_bytes": 64 * MIB}, "bundle_bytes"),
        ({"memory_bytes": 64 * MIB}, "memory_bytes"),
        ({"receive_bytes": MIB}, "arena_bytes"),
        ({"connections": 0}, "connections"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, int], named: str) -> None:
    with pytest.raises(LimitError, match=named):
        Limits(**wrong)


def test_clients_are_told_what_they_may_send() -> None:
    told = dict(Limits(frame_bytes=8 * MIB, bundle_bytes=MIB).published())
    assert (told["frame_bytes"], told["bundle_bytes"]) == (8 * MIB, MIB)
