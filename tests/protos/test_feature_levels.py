"""Which levels a process knows, and what it is told where it doesn't know the one in force."""

import pytest

from tank_protos import feature_levels
from tank_protos.feature_levels import FIRST, OWN, Levels, formats


@pytest.mark.parametrize(
    ("known", "in_force", "said"),
    [
        (Levels(1, 2), 1, ""),
        (Levels(1, 2), 2, ""),
        (Levels(1, 2), 3, "at least as new as the others"),
        (Levels(2, 3), 1, "upgrade all processes to a version between the two first"),
    ],
)
def test_one_that_does_not_know_the_level_in_force_is_told_what_to_do(
    known: Levels, in_force: int, said: str
) -> None:
    refusal = known.refusal(in_force)
    assert bool(refusal) == bool(said)
    assert said in refusal
    assert f"level {in_force}" in refusal or not said


def test_who_says_nothing_is_of_before_there_were_levels() -> None:
    assert feature_levels.said(0, 0) == Levels(FIRST, FIRST)
    assert feature_levels.said(2, 4) == Levels(2, 4)


def test_every_level_that_this_version_knows_says_what_is_written_at_it() -> None:
    known = [formats(level) for level in range(OWN.lowest, OWN.highest + 1)]
    assert known[0].snapshot == 3, "a version of before there were levels reads it"
    assert [each.snapshot for each in known] == sorted(each.snapshot for each in known)
    with pytest.raises(KeyError):
        formats(OWN.highest + 1)
