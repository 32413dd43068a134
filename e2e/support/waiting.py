"""Waiting for what a cluster is to become, whose every look at it may fail."""

from collections.abc import Callable
from http.client import HTTPException

from e2e.support.kubernetes import CommandError
from tests.chaos import members

LOOK_EVERY_S = 0.25
PATIENCE_S = 300.0
STRANGE = (CommandError, OSError, HTTPException)
"""What a look meets while pods come and go, or when the API server takes its time."""


def until(
    true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, every_s: float = LOOK_EVERY_S
) -> None:
    """A look that fails has seen nothing, and another one follows. StuckError when it doesn't come true; the
    message has why the last look failed, if it did."""
    failed = ""

    def look() -> bool:
        nonlocal failed
        try:
            found, failed = true(), ""
        except STRANGE as error:
            found, failed = False, f"; the last look: {error}"
        return found

    try:
        members.until(look, what, patience_s, every_s)
    except members.StuckError as error:
        raise members.StuckError(f"{error}{failed}") from None
