"""What a run says of itself: which faults it did not reach, and whether small segments were rolled."""

from collections import Counter
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.members import BROKER, Member
from tests.chaos.run import not_reached, unrolled


def test_kinds_that_were_not_reached_are_named() -> None:
    counts = Counter({fault.name: 1 for fault in FAULTS})
    assert not_reached(FAULTS, counts) == []
    del counts["kill everything"], counts["lose indexes"]
    assert not_reached(FAULTS, counts) == ["kill everything", "lose indexes"]


def test_a_broker_that_rolled_no_segment_is_found(tmp_path: Path) -> None:
    member = Member(BROKER, 1, 1, "", "", tmp_path, tmp_path / "log", [])
    for partition in "01":
        folder = tmp_path / "topics" / "7" / partition
        folder.mkdir(parents=True)
        for kind in ("log", "index"):
            (folder / f"0.{kind}").touch()
    assert unrolled([member]) == [member]
    (folder / "1.log").touch()
    assert unrolled([member]) == []
