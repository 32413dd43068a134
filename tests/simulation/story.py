"""The story of one seed: its members, and its result."""

import itertools
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from tests.simulation.cluster_story import ClusterStory
from tests.simulation.controller_story import ControllerStory
from tests.simulation.world.world import SECOND, BugLog, Violation, World

CONTROLLERS_ALONE = 3
"""Each third story is about controllers alone."""


@dataclass(slots=True)
class Told:
    """What a story came to."""

    seed: int
    events: int
    seconds: float
    """Of virtual time."""
    faults: Counter[str]
    counts: Counter[str]
    failure: str = ""
    """What didn't hold; empty when all did."""
    trace: list[str] = field(default_factory=list)


class Kind(Enum):
    """What a story is about."""

    CONTROLLERS = "controllers"
    CLUSTER = "cluster"
    ANY = "any"


def kind_of(seed: int) -> Kind:
    """A seed says what its story is about, too."""
    return Kind.CONTROLLERS if seed % CONTROLLERS_ALONE == 0 else Kind.CLUSTER


def seeds(first: int, count: int, kind: Kind) -> list[int]:
    """So many of a kind, from the first one on."""
    found = (seed for seed in itertools.count(first) if kind in (Kind.ANY, kind_of(seed)))
    return list(itertools.islice(found, count))


def tell(seed: int, trace: int = 0) -> Told:
    """Runs a seed. A failure brings so many lines of what led there."""
    story: ControllerStory | ClusterStory
    story = ControllerStory(seed) if kind_of(seed) is Kind.CONTROLLERS else ClusterStory(seed)
    world = story.world
    failure = ""
    with listening(world):
        try:
            story.run()
        except Violation as violation:
            failure = str(violation)
        except Exception as error:
            failure = f"{type(error).__name__}: {error} ({_place(error)})"
    told = Told(seed, world.events, world.now / SECOND, world.faults, world.counts, failure)
    if failure or trace < 0:
        told.trace = world.lines(abs(trace))
    return told


def _place(error: Exception) -> str:
    """Where it was raised."""
    at = error.__traceback__
    assert at is not None
    while at.tb_next is not None:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{at.tb_lineno}"


@contextmanager
def listening(world: World) -> Iterator[None]:
    """While the story runs, what the code logs goes into its trace."""
    logger = logging.getLogger()
    handlers, logger.handlers = logger.handlers, [BugLog(world)]
    try:
        yield
    finally:
        logger.handlers = handlers
