"""Which levels a process knows, and what it is told where it doesn't know the one in force."""

import pytest

from tank_protos.feature_levels import FIRST, FORMATS, OWN, PUSH_VERSIONS, Levels, formats
from tests.support.processes import next_level


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


def test_every_level_that_this_version_knows_says_what_is_written_at_it() -> None:
    newest = max(FORMATS)
    known = [formats(level) for level in range(OWN.lowest, newest + 1)]
    assert OWN.lowest == FIRST
    assert [each.snapshot for each in known] == sorted(each.snapshot for each in known)
    assert {each.push for each in known} == PUSH_VERSIONS
    with pytest.raises(KeyError):
        formats(newest + 1)


def test_a_next_level_is_known_for_a_while_alone() -> None:
    with next_level.known():
        assert formats(next_level.NEXT) == next_level.FORMATS
        assert next_level.FORMATS.push in PUSH_VERSIONS
    assert next_level.FORMATS.push not in PUSH_VERSIONS
    with pytest.raises(KeyError):
        formats(next_level.NEXT)
