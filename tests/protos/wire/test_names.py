"""Which names there may be."""

import pytest

from tank_protos.wire.names import group_name_problem, topic_name_problem


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64, "-0"])
def test_topics_may_be_called(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "-", "__", "x" * 65, "a b", "a.b", "../a", "ä", "a\n", "²"])
def test_topics_may_not_be_called(name: str) -> None:
    assert "A-Z" in (topic_name_problem(name) or "")


@pytest.mark.parametrize("name", ["g", "spark/7 é", "x" * 255, "\u0378"])
def test_groups_may_be_called(name: str) -> None:
    """U+0378 has no meaning in any Unicode yet: what gets one must not change how a log is replayed."""
    assert group_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "a\tb", "a\n", "\x7f", "\x9b", "\u2028", "\udc80", "é" * 128])
def test_groups_may_not_be_called(name: str) -> None:
    assert "255 bytes" in (group_name_problem(name) or "")
