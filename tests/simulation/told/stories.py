"""All told stories, by name."""

from collections.abc import Callable

from tests.simulation.told import (
    basics,
    brokers,
    clocks,
    controllers,
    groups,
    iggy,
    kafka,
    levels,
    members,
    peers,
    positions,
    replication,
    restores,
    sharing,
    stored,
    volumes,
)
from tests.simulation.world.world import Violation

_ROOMS = (
    basics,
    replication,
    brokers,
    clocks,
    peers,
    positions,
    controllers,
    restores,
    levels,
    members,
    volumes,
    kafka,
    groups,
    sharing,
    stored,
    iggy,
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
