"""How many examples a costly property is tried on: a fifth in the fast run, all in `make test`."""

from hypothesis import settings

FAST_RUN_DIVISOR = 5


class _Run:
    divisor = 1


def choose(marks: str) -> None:
    """Before tests are imported: `marks` is what the run was asked for with -m."""
    _Run.divisor = FAST_RUN_DIVISOR if "not integration" in marks else 1


def examples(most: int) -> settings:
    """The settings of a property that `make test` tries on `most` examples."""
    return settings(max_examples=max(most // _Run.divisor, 1))
