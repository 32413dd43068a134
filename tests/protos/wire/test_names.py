"""Which names there may be."""

import pytest

from tank_protos.wire.names import first_topic_name_problem, group_name_problem, topic_name_problem

FIRST = ["a", "A-b_9", "x" * 64, "-0"]
LATER = ["-", "__", "x" * 65, "x" * 249, "a.b", ".a", "...", "orders.v1-changelog", "__consumer_offsets"]
NEVER = ["", ".", "..", "x" * 250, "a b", "a/b", "../a", "ä", "a\n", "²", "\udcff"]


@pytest.mark.parametrize("name", FIRST + LATER)
def test_topics_may_be_called_by_kafkas_rule(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", NEVER)
def test_topics_may_not_be_called(name: str) -> None:
    assert "1 to 249 of the characters A-Z" in (topic_name_problem(name) or "")


@pytest.mark.parametrize("name", FIRST)
def test_topics_may_be_called_by_the_first_rule(name: str) -> None:
    assert first_topic_name_problem(name) is None


@pytest.mark.parametrize("name", [each for each in LATER if each != "__consumer_offsets"] + NEVER)
def test_topics_may_not_be_called_by_the_first_rule(name: str) -> None:
    assert "1 to 64 of the characters A-Z" in (first_topic_name_problem(name) or "")


@pytest.mark.parametrize("name", ["g", "spark/7 é", "x" * 255, "\u0378"])
def test_groups_may_be_called(name: str) -> None:
    """U+0378 has no meaning in any Unicode yet: what gets one must not change how a log is replayed."""
    assert group_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "a\tb", "a\n", "\x7f", "\x9b", "\u2028", "\udc80", "é" * 128])
def test_groups_may_not_be_called(name: str) -> None:
    assert "255 bytes" in (group_name_problem(name) or "")
