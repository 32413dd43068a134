"""Two servers' answers are compared question by question."""

from pathlib import Path

import pytest

from tests.kafka_clients.beside.known import KNOWN
from tests.kafka_clients.beside.recorded import differences, load, unneeded

PAGE = Path(__file__).parents[3] / "docs/kafka-compatibility.md"


def test_the_same_answers_are_no_difference() -> None:
    assert differences("a", {"x": "1"}, {"x": "1"}) == []


def test_another_answer_is_one_and_so_is_one_that_only_one_server_gave() -> None:
    (found,) = differences("a", {"x": "1"}, {"x": "2"})
    assert found.splitlines() == ["a: x", "    Kafka: 1", "    ours:  2"]
    assert len(differences("a", {"x": "1"}, {"y": "1"})) == 2


def test_questions_that_not_every_server_is_asked_need_no_second_answer() -> None:
    assert differences("a", {"ends: if there is one between": "1"}, {}) == []
    assert differences("a", {"if there is one": "1"}, {"if there is one": "2"}) != []


def test_a_known_difference_is_left_out_unless_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "a", {"x": "it has a reason"})
    assert differences("a", {"x": "1"}, {"x": "2"}) == []
    assert differences("a", {"x": "1"}, {"x": "2"}, with_known=True) != []
    assert unneeded("a", {"x": "1"}, {"x": "2"}) == []
    assert unneeded("a", {"x": "1"}, {"x": "1"}) != []


def test_what_is_known_is_in_the_record_and_has_a_reason() -> None:
    record = load()
    for script, places in KNOWN.items():
        for what, reason in places.items():
            assert what in record[script], f"{script}: {what}"
            assert reason


def test_the_page_on_compatibility_has_each_reason() -> None:
    page = PAGE.read_text()
    reasons = {reason for places in KNOWN.values() for reason in places.values()}
    assert [reason for reason in reasons if f"\n- {reason}\n" not in page] == []
