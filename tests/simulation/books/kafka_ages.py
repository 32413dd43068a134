"""The ages of Kafka's clients in a story: which version of each request they send."""

from dataclasses import dataclass

from tests.simulation.world.world import World


@dataclass(slots=True, frozen=True)
class Age:
    """What one client sends. A version of -1: it doesn't know the request."""

    name: str
    """The broker that was the newest then; or the library."""
    produce: int
    fetch: int
    list_offsets: int
    metadata: int
    init_producer: int = -1
    end_of_epoch: int = -1
    delete_records: int = -1

    @property
    def knows_epochs(self) -> bool:
        """Whether its fetches say the leader epoch that it knows: a leader of before can't serve it."""
        return self.fetch >= 9

    @property
    def says_last_epoch(self) -> bool:
        """Whether its fetches say the epoch of the last record that it has."""
        return self.fetch >= 12


AGES = (
    Age("0.8", 0, 0, 0, 0),
    Age("0.9", 1, 1, 0, 0),
    Age("0.10", 2, 3, 1, 2),
    Age("0.11", 3, 5, 2, 4, 0, delete_records=0),
    Age("1.1", 5, 7, 2, 5, 0, delete_records=0),
    Age("2.1", 7, 10, 4, 7, 1, 2, 1),
    Age("2.4", 8, 11, 5, 9, 2, 3, 1),
    Age("2.8", 9, 12, 6, 10, 4, 3, 2),
    Age("3.1", 9, 13, 7, 12, 4, 4, 2),
    Age("librdkafka 2.16", 10, 16, 8, 13, 4, 4, 2),
    Age("4.0", 12, 17, 10, 13, 5, 4, 2),
    Age("4.1", 13, 18, 10, 13, 5, 4, 2),
)
NEWEST = AGES[-1]
IDEMPOTENT = tuple(age for age in AGES if age.init_producer >= 0)
"""Those that can produce idempotently."""


def any_age(world: World, among: tuple[Age, ...] = AGES) -> Age:
    """Of one client."""
    return world.random.choice(among)
