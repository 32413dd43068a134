"""A feature level that no version knows yet, to test the change to the next level before there is one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tank_protos import feature_levels
from tank_protos.feature_levels import OWN, Formats, Levels

NEXT: Final = max(feature_levels.FORMATS) + 1
NEWER: Final = Levels(OWN.lowest, NEXT)
"""The levels of a version that knows it."""
_OWN_FORMATS = feature_levels.formats(NEXT - 1)
FORMATS: Final = Formats(_OWN_FORMATS.snapshot + 1, _OWN_FORMATS.push + 1, _OWN_FORMATS.data_folder)
"""Their numbers are new, and the bytes behind them are as before."""


@contextmanager
def known() -> Iterator[None]:
    """Within it this process writes and reads the formats of the next level, where that is in force.

    What a process says of itself is another matter: it knows the levels that it is given.
    """
    feature_levels.FORMATS[NEXT] = FORMATS
    feature_levels.PUSH_VERSIONS.add(FORMATS.push)
    try:
        yield
    finally:
        del feature_levels.FORMATS[NEXT]
        feature_levels.PUSH_VERSIONS.remove(FORMATS.push)
