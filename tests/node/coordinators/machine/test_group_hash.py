"""The partition of a group, by Java's hash."""

import pytest

from tank_node.coordinators.machine.group_hash import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 31 * 97 + 98),
        ("hello", 99162322),
        ("Hello World", -862545276),
        ("polygenelubricants", -(2**31)),
        ("é", 0xE9),
        ("😀", 0xD83D * 31 + 0xDE00),
    ],
)
def test_the_hash_is_that_of_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_a_lone_surrogate_has_a_hash_too() -> None:
    assert java_hash("\udc80") == 0xDC80


def test_a_group_is_in_the_partition_of_its_hash() -> None:
    assert partition_of("hello", 50) == 99162322 % 50
    assert partition_of("Hello World", 50) == 862545276 % 50


def test_the_hash_without_a_positive_number_counts_as_nought() -> None:
    assert partition_of("polygenelubricants", 50) == 0
