"""The parts of a cluster's story beside its faults; the seed decides which parts a story has."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.simulation.world.world import World


class Ingredient(Enum):
    """One of them, with how often it is in a story."""

    CLIENT_NUMBERS = 0.3, "clients give messages their own numbers, with holes"
    COMPACTION = 0.25, "a topic keeps the newest message of each key"
    RETENTION = 0.3, "a topic keeps few segments"
    REQUIRED_ACKS = 0.4, "producers say how many must be in sync"
    IN_FLIGHT = 0.5, "idempotent producers have several batches under way"
    POSITIONS = 0.5, "groups keep positions, by changing brokers"
    SETTINGS = 0.35, "people alter flush and min.insync.replicas"
    MOVES = 0.3, "people drain brokers and move partitions"
    UNCLEAN = 0.15, "people, or the topic, allow elections that lose messages"
    ROT = 0.3, "bytes of a disk change below a broker that is down or runs, or an index is lost"
    CATCH_UP = 0.3, "a replica counts as far behind after a few bytes"
    PROPOSALS = 0.4, "something strikes just as an in-sync set is proposed"
    FORWARDING = 0.3, "brokers forward what another one leads, of this client or of all"
    LASTING_FULL_DISK = 0.25, "the disk of the controllers' leader is full, and stays so"

    DEFAULT_FLUSH = 0.3, "brokers' default is flush=replicated, of some or all, and of topics that don't say"
    KAFKA = 0.3, "clients of Kafka's protocol, of all ages, beside TANK's or instead; topics of both formats"
    DELETIONS = 0.1, "a client of Kafka's protocol deletes the oldest messages"
    PIECES = 0.4, "frames arrive in pieces, or several at once"
    OVERLAP = 0.4, "an fsync covers what was written before it was asked for, and no more"

    GROUPS = 0.3, "groups of consumers share partitions, by Kafka's classic protocol"

    IGGY = 0.08, "clients of Iggy's protocol make streams and topics, write, read alone and in groups"

    def __init__(self, probability: float, about: str) -> None:
        self.probability = probability
        self.about = about


OF_OWN_CHANCE = (Ingredient.GROUPS, Ingredient.IGGY)
"""Whether a story has one of these is drawn apart from its other chances: a story without it is what it was
before there was any."""


def ingredients(world: World) -> frozenset[Ingredient]:
    """Of this story."""
    found = [one for one in Ingredient if one not in OF_OWN_CHANCE and world.chance(one.probability)]
    own = {one: Random(f"{one.name} in {world.seed}").random() for one in OF_OWN_CHANCE}
    return frozenset([*found, *(one for one, drawn in own.items() if drawn < one.probability)])


@dataclass(slots=True)
class Wanted:
    """A topic that somebody wants, until it exists."""

    name: str
    partitions: int
    replication_factor: int
    settings: dict[str, str] = field(default_factory=dict)
    fleeting: bool = False
    """It is deleted and made again under its name, now and then."""
    topic_id: int = 0
    deleted: set[int] = field(default_factory=set)
    """Ids that somebody asked to delete."""

    @property
    def compacts(self) -> bool:
        """It keeps the newest message of each key."""
        return "log.cleanup.policy" in self.settings

    @property
    def retains(self) -> bool:
        """Old messages go."""
        return "retention.segments.count" in self.settings


def any_topic(world: World, number: int, among: frozenset[Ingredient]) -> Wanted:
    """One that fits into the story."""
    chance = world.random
    settings = {"flush": chance.choice(("disk", "disk", "disk", "replicated"))}
    if Ingredient.DEFAULT_FLUSH in among and chance.random() < 0.6:
        settings = {}
    if chance.random() < 0.7:  # a stretch ends with its segment: few bytes, many stretches
        settings["log.segment.bytes"] = str(chance.choice((300, 600, 3000)))
    factor = chance.choice((1, 2, 3, 3, 3))
    if chance.random() < 0.3:
        settings["min.insync.replicas"] = str(chance.randint(1, factor))
    if Ingredient.COMPACTION in among and chance.random() < 0.6:
        settings |= {"log.cleanup.policy": "cleanup", "log.cleaner.min.cleanable.ratio": "0.1"}
        settings["log.segment.bytes"] = str(chance.choice((300, 600)))
    elif Ingredient.RETENTION in among and chance.random() < 0.6:
        settings["retention.segments.count"] = str(chance.choice((2, 3, 6)))
        settings["log.segment.bytes"] = str(chance.choice((300, 600)))
    if Ingredient.UNCLEAN in among and chance.random() < 0.5:
        settings["unclean.leader.election"] = "true"
    if Ingredient.KAFKA in among and chance.random() < 0.6:
        settings["log.format"] = "kafka"
    return Wanted(f"t{number}", chance.choice((1, 2)), factor, settings)
