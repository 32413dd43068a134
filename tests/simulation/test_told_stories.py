"""Stories that are told, not left to chance: losses that seeds have found, mistakes that they find rarely."""

import pytest

from tests.simulation import told_stories


@pytest.mark.integration
@pytest.mark.parametrize("name", told_stories.STORIES)
def test_what_is_promised_holds_in_a_story_that_is_told(name: str) -> None:
    assert told_stories.failure_of(name) == ""
