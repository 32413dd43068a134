"""The record of a group of Iggy's clients."""

import pytest

from tank_node.coordinators.records.group_records import read
from tank_node.coordinators.records.iggy_records import (
    IGGY_KEY,
    IggyImage,
    IggyMemberKey,
    IggyRecord,
    StoredIggyMember,
    iggy_record,
)
from tank_protos.wire.errors import WireError

ONE, TWO = IggyMemberKey(1, 101, 2**63), IggyMemberKey(2, 102, 5)
IMAGE = IggyImage(
    2**40,
    (StoredIggyMember(ONE, 0xFFFFFFFF, True), StoredIggyMember(TWO, 7, False)),
    (ONE, None, TWO),
    (TWO, None, None),
)


def test_a_group_is_read_as_it_was_written() -> None:
    found = read(*iggy_record("iggy:g:7", IMAGE))
    assert isinstance(found, IggyRecord)
    assert (found.group_id, found.value) == ("iggy:g:7", IMAGE)


def test_a_record_without_a_value_deletes_the_group() -> None:
    key, value = iggy_record("iggy:g:7", None)
    assert value is None
    found = read(key, value)
    assert isinstance(found, IggyRecord)
    assert found.value is None


def test_kafkas_kinds_of_keys_are_far_from_ours() -> None:
    """Tools of Kafka, and brokers of before, pass over what they don't know."""
    key, _ = iggy_record("iggy:g:7", IMAGE)
    assert int.from_bytes(key[:2], "big", signed=True) == IGGY_KEY == 18_759


@pytest.mark.parametrize("of_key", [True, False])
def test_a_record_that_is_cut_or_too_long_is_not_read(of_key: bool) -> None:
    key, value = iggy_record("iggy:g:7", IMAGE)
    assert value is not None
    whole = key if of_key else value
    for data in [*(whole[:end] for end in range(len(whole))), whole + b"\0"]:
        assert (read(data, value) if of_key else read(key, data)) is None


def test_a_member_that_is_not_there_has_no_partition() -> None:
    key, value = iggy_record("iggy:g:7", IMAGE)
    assert value is not None
    assert read(key, value[:-4] + b"\0\2\xff\xff") is None


def test_a_later_version_is_not_read() -> None:
    key, value = iggy_record("iggy:g:7", IMAGE)
    assert value is not None
    assert read(key, b"\0\1" + value[2:]) is None


def test_a_name_that_is_too_long_has_no_record() -> None:
    with pytest.raises(WireError):
        iggy_record("x" * 40_000, None)
