"""All told stories, by name. As a program it runs one: for mutants, or to repeat a story."""

import sys
from collections.abc import Callable

from tests.simulation import (
    told_basics,
    told_brokers,
    told_clocks,
    told_controllers,
    told_groups,
    told_kafka,
    told_levels,
    told_members,
    told_peers,
    told_positions,
    told_replication,
    told_restores,
    told_sharing,
    told_volumes,
)
from tests.simulation.world import Violation, one_line

_ROOMS = (
    told_basics,
    told_replication,
    told_brokers,
    told_clocks,
    told_peers,
    told_positions,
    told_controllers,
    told_restores,
    told_levels,
    told_members,
    told_volumes,
    told_kafka,
    told_groups,
    told_sharing,
)
STORIES: dict[str, Callable[[], None]] = {story.__name__: story for room in _ROOMS for story in room.STORIES}


def failure_of(name: str) -> str:
    """Tells a story; what didn't hold in it, empty when all did.

    NameError, AttributeError, TypeError: code that cannot run breaks no promise.
    """
    try:
        STORIES[name]()
    except Violation as violation:
        return str(violation)
    except (NameError, AttributeError, TypeError):
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(arguments: list[str]) -> int:
    """0 when all that must hold held; 1, with a line that says what didn't."""
    [name] = arguments
    failure = failure_of(name)
    if failure:
        print(f"1 {one_line(failure)}")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
