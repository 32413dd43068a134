"""How long tests wait for what must come: generously, and longer where TANK_TEST_PATIENCE says so.

No test is judged by these waits. They end a test that hangs, so that the run ends, too. A machine that does
something else at the same time takes `TANK_TEST_PATIENCE=4`: every wait is four times as long.
"""

import os
from typing import Final

VARIABLE: Final = "TANK_TEST_PATIENCE"


def _factor() -> float:
    given = os.environ.get(VARIABLE) or "1"
    try:
        factor = float(given)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= 100:
        raise ValueError(
            f"{VARIABLE}={given!r}: give a number from 1 to 100, by which tests' waits are multiplied"
        )
    return factor


FACTOR: Final = _factor()
"""By this all waits are multiplied."""


def patient(wait_s: float) -> float:
    """The wait as this run has it, in seconds."""
    return wait_s * FACTOR
