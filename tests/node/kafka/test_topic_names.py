"""Names of topics by Kafka's rule."""

import pytest

from tank_node.kafka import topic_names


@pytest.mark.parametrize("name", ["a", "orders.v1", "a_b-C.9", "...", "__other", "x" * 249])
def test_names_that_clients_use_are_valid(name: str) -> None:
    assert topic_names.is_valid(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "x" * 250])
def test_other_names_are_not(name: str) -> None:
    assert not topic_names.is_valid(name)


def test_two_topics_are_internal_and_no_other_with_underscores() -> None:
    assert topic_names.is_internal("__consumer_offsets")
    assert topic_names.is_internal("__transaction_state")
    assert not topic_names.is_internal("__debezium-heartbeat")
