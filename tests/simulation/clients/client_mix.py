"""The clients of a partition in a random story: of which kinds and protocols they are."""

from collections.abc import Iterator

from tests.simulation.books.message_books import MessageBooks
from tests.simulation.clients.clients import PAUSES_US, Client, Target
from tests.simulation.clients.consumers import Consumer, FollowersConsumer, Keeper
from tests.simulation.clients.kafka_consumers import KafkaConsumer
from tests.simulation.clients.kafka_deleter import KafkaDeleter
from tests.simulation.clients.kafka_producers import KafkaIdempotentProducer, KafkaProducer
from tests.simulation.clients.producers import IN_FLIGHT, IdempotentProducer, Mirror, Producer
from tests.simulation.ingredients import Ingredient, Wanted
from tests.simulation.world.world import World

_BETWEEN_DELETIONS = 10
"""Pauses of other clients."""
_PROTOCOLS = ((True, False), (False, True), (True, True))
"""Whether there is a client of TANK's protocol, and one of Kafka's."""


def clients_of(
    world: World,
    books: MessageBooks,
    among: frozenset[Ingredient],
    wanted: Wanted,
    target: Target,
    partitions: int,
) -> Iterator[Client]:
    """Those of one partition, in a story of so many. Where both protocols have a client of a kind, each does
    half as much: a story is not to take longer."""

    def protocols() -> tuple[bool, bool, int]:
        tank, kafka = world.random.choice(_PROTOCOLS) if Ingredient.KAFKA in among else (True, False)
        return tank, kafka, pause * 2 if tank and kafka else pause

    pause = world.random.choice(PAUSES_US) * partitions
    acks = 0
    if Ingredient.REQUIRED_ACKS in among:
        acks = world.random.choice((0, wanted.replication_factor - 1, 255))
    in_flight = world.random.choice((2, IN_FLIGHT)) if Ingredient.IN_FLIGHT in among else 1
    name = f"{wanted.name}-{wanted.topic_id}/{target.partition}"
    keyed = wanted.compacts
    tank, kafka, each = protocols()
    if tank:
        yield Producer(world, books, target, each, f"p{name}", acks, keyed=keyed)
    if kafka:
        yield KafkaProducer(world, books, target, each, f"kp{name}", keyed=keyed)
    tank, kafka, each = protocols()
    if tank:
        yield IdempotentProducer(
            world, books, target, each, f"i{name}", acks, keyed=keyed, in_flight=in_flight
        )
    if kafka:
        yield KafkaIdempotentProducer(
            world, books, target, each, f"ki{name}", keyed=keyed, in_flight=in_flight
        )
    tank, kafka, each = protocols()
    if tank:
        reads = FollowersConsumer if (wanted.topic_id + target.partition) % 3 == 0 else Consumer
        yield reads(world, books, target, each, f"r{name}")
    if kafka:
        yield KafkaConsumer(world, books, target, each, f"kr{name}")
    if Ingredient.DELETIONS in among and not keyed:
        yield KafkaDeleter(world, books, target, _BETWEEN_DELETIONS * pause, f"kd{name}")
    if Ingredient.CLIENT_NUMBERS in among:
        yield Mirror(world, books, target, pause, f"m{name}", acks, keyed=keyed)
    if Ingredient.POSITIONS in among and target.partition == 0:
        yield Keeper(world, books, target, pause, f"g{name}")
