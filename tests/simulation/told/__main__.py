"""`python -m tests.simulation.told NAME` runs one told story: for mutants, or to repeat it."""

import sys

from tests.simulation.told.stories import failure_of
from tests.simulation.world.world import one_line


def main(arguments: list[str]) -> int:
    """0 when all that must hold held; 1, with a line that says what didn't."""
    [name] = arguments
    failure = failure_of(name)
    if failure:
        print(f"1 {one_line(failure)}")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
