"""The names under which positions of Iggy's consumers are kept."""

import pytest

from tank_node.coordinators.iggy.consumer_ids import (
    born_of,
    committed_of,
    group_consumer,
    named_consumer,
    numbered_consumer,
    offset_of,
)
from tank_protos.wire.names import is_iggys_group


def test_groups_are_known_by_when_they_were_created() -> None:
    assert group_consumer(71) == "iggy:g:71"
    assert born_of("iggy:g:71") == 71


@pytest.mark.parametrize(
    "name", ["iggy:g:", "iggy:g:-1", "iggy:g:07", "iggy:g:x", "iggy:c:7", "7", "iggy:g:٧"]
)
def test_other_names_are_those_of_no_group(name: str) -> None:
    assert born_of(name) is None


def test_no_two_consumers_share_a_name() -> None:
    long = "x" * 201
    names = ["7", "#7", "sha256:0", long, long + "x", "x" * 200]
    made = [named_consumer(name) for name in names] + [numbered_consumer(7)]
    assert len(set(made)) == len(made)
    assert all(is_iggys_group(each) and len(each.encode()) <= 255 for each in made)


def test_a_long_name_is_counted_in_bytes() -> None:
    assert named_consumer("é" * 100) == "iggy:c:" + "é" * 100
    assert named_consumer("é" * 101).startswith("iggy:c:sha256:")


def test_the_last_message_that_was_consumed_lies_before_the_next_one() -> None:
    assert committed_of(0) == 1
    assert offset_of(1) == 0
    assert offset_of(0) is None
