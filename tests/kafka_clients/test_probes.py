"""What a probe prints is read as the outcomes of its steps, and a probe that stops halfway is no success."""

import sys

import pytest

from tests.kafka_clients.probes import Told, outcomes


def printing(*lines: str) -> list[str]:
    """A program that prints these."""
    return [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]


def test_each_line_is_a_step() -> None:
    told = outcomes(printing("OK   create done 0.1s", "a note", "FAIL txn KafkaError no coordinator 1.0s"), 2)
    assert told == [Told("create", ""), Told("txn", "txn KafkaError no coordinator 1.0s")]


def test_a_check_has_a_whole_name() -> None:
    (told,) = outcomes(printing("PASS produce acks=1 -> base offset 0 [('t', [(0, 0, 0)])]"), 1)
    assert told == Told("produce acks=1", "")


def test_the_parts_of_an_answer_are_steps() -> None:
    parts = (
        "OK   admin {'list_topics': 'ok', 'list_groups': \"Error:'x' is missing\", 'acls': 'Refused:no'} 0.3s"
    )
    assert outcomes(printing(parts), 3) == [
        Told("admin.list_topics", ""),
        Told("admin.list_groups", "Error:'x' is missing"),
        Told("admin.acls", "Refused:no"),
    ]


def test_missing_steps_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="1 of 2 steps"):
        outcomes(printing("OK create"), 2)
