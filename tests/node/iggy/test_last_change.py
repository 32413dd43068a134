"""Which requests of a framed client are repeats."""

from dataclasses import replace

import pytest

from tank_node.iggy.last_change import LastChange
from tank_protos.iggy import vsr
from tank_protos.iggy.commands import VsrOperation

ASKED = vsr.read_request(vsr.request(b"c" * 16, VsrOperation.CREATE_STREAM, b"", number=2))


def test_a_repeat_gets_the_answer_and_earlier_ones_none() -> None:
    last = LastChange()
    assert last.answer_to(ASKED) is None
    last.keep(ASKED, b"answer", 0)
    assert last.answer_to(ASKED) == b"answer"
    assert last.answer_to(replace(ASKED, number=1)) == b""
    assert last.answer_to(replace(ASKED, number=3)) is None


def test_another_client_or_session_counts_anew() -> None:
    last = LastChange()
    last.keep(ASKED, b"answer", 0)
    assert last.answer_to(replace(ASKED, client=b"d" * 16)) is None
    last.clear()
    assert last.answer_to(ASKED) is None


def test_reads_are_no_changes() -> None:
    last = LastChange()
    last.keep(ASKED, b"answer", 0)
    read = replace(ASKED, operation=VsrOperation.READ)
    assert last.answer_to(read) is None
    last.keep(replace(read, number=3), b"read", 0)
    assert last.answer_to(ASKED) == b"answer"


@pytest.mark.parametrize("status", [40, 57, 58, 59])
def test_what_was_not_carried_out_may_come_again(status: int) -> None:
    last = LastChange()
    last.keep(ASKED, b"answer", 0)
    last.keep(replace(ASKED, number=3), b"refused", status)
    assert last.answer_to(replace(ASKED, number=3)) is None
    assert last.answer_to(ASKED) == b"answer"


def test_a_long_answer_is_not_kept_but_its_number_is() -> None:
    last = LastChange()
    last.keep(ASKED, bytes(65 * 1024), 0)
    assert last.answer_to(ASKED) == b""
