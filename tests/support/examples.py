"""How many examples a property is tried on: a fifth in the fast run, all in `make thorough`."""

from hypothesis import HealthCheck, settings

FAST_RUN_DIVISOR = 5
DEFAULT_EXAMPLES = 100


class _Run:
    divisor = 1


def choose(marks: str) -> None:
    """Before tests are imported: `marks` is what the run was asked for with -m."""
    _Run.divisor = FAST_RUN_DIVISOR if "not thorough" in marks else 1
    # No test is judged by the clock: the machine may be busy with something else.
    settings.register_profile(
        "untimed",
        max_examples=DEFAULT_EXAMPLES // _Run.divisor,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("untimed")


def examples(most: int) -> settings:
    """The settings of a property that is tried on `most` examples, where not in the fast run."""
    return settings(max_examples=max(most // _Run.divisor, 1))
