"""Stories that are told, not left to chance: losses that seeds have found, mistakes that they find rarely."""

import pytest

from tests.simulation.told.stories import STORIES, failure_of


@pytest.mark.integration
@pytest.mark.parametrize("name", STORIES)
def test_what_is_promised_holds_in_a_story_that_is_told(name: str) -> None:
    assert failure_of(name) == ""
