"""Who stands still is named."""

from tests.chaos.load_process import GETS_ON, Progress

BEFORE = Progress({"writer raw-0": 5, "writers of disk/0": 7}, {"reader of disk/0": 7})


def test_all_get_on() -> None:
    now = Progress(
        {name: count + GETS_ON for name, count in BEFORE.stored.items()},
        {name: count + GETS_ON for name, count in BEFORE.seen.items()},
    )
    assert now.standing_since(BEFORE) == []
    assert now.total() == 12 + 2 * GETS_ON


def test_a_writer_and_a_reader_that_stand_are_named() -> None:
    now = Progress({"writer raw-0": 5, "writers of disk/0": 7 + GETS_ON}, {"reader of disk/0": 8})
    assert now.standing_since(BEFORE) == ["writer raw-0", "reader of disk/0"]
