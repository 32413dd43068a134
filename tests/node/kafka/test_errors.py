"""Kafka's error codes for ours: which ones a client can meet, by what clients make of them."""

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka.errors import KafkaError, of_controllers, of_fault, of_group, of_refusal
from tank_node.partition.refusal import Refusal
from tank_protos.error_codes import ErrorCode
from tank_protos.kafka.errors import RecordsFault

FETCHED = {-1, 0, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103}
"""The errors of a partition that Java's consumer expects in a Fetch; it throws IllegalStateException at any
other, and ends at 2."""


@pytest.mark.parametrize("code", list(ErrorCode))
def test_no_refusal_of_the_controllers_sends_a_client_to_another_broker(code: ErrorCode) -> None:
    """Every broker takes administration requests: a client that hears otherwise asks round in circles."""
    assert of_controllers(code) is not KafkaError.NOT_CONTROLLER


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal.UNKNOWN_TOPIC,
        Refusal.UNKNOWN_PARTITION,
        Refusal.OTHER_LEADER,
        Refusal.NO_LEADER,
        Refusal.STORAGE,
        Refusal.DAMAGED,
    ],
)
def test_a_partition_that_cannot_be_read_has_an_error_that_javas_consumer_expects(refusal: Refusal) -> None:
    assert of_refusal(refusal) in FETCHED


def test_every_refusal_and_every_fault_has_a_code() -> None:
    assert {of_refusal(refusal) for refusal in Refusal} >= {KafkaError.NONE}
    assert [of_fault(fault) for fault in RecordsFault] == [2, 10, 32, 76, 87]


def test_every_refusal_of_a_coordinator_has_a_code_of_its_own() -> None:
    assert len({of_group(error) for error in GroupError}) == len(GroupError)
