"""Told stories of Kafka's clients, where one mistake would lose, repeat or hide a message. A leads, B leads
next, C last."""

from collections.abc import Callable

from tests.simulation.books.kafka_ages import AGES, NEWEST, Age
from tests.simulation.clients.clients import Client
from tests.simulation.clients.consumers import Consumer
from tests.simulation.clients.kafka_clients import KafkaClient
from tests.simulation.clients.kafka_consumers import KafkaConsumer
from tests.simulation.clients.kafka_deleter import KafkaDeleter
from tests.simulation.clients.kafka_lines import NOWHERE, HostPort
from tests.simulation.clients.kafka_producers import KafkaIdempotentProducer, KafkaProducer
from tests.simulation.clients.producers import IN_FLIGHT, IdempotentProducer
from tests.simulation.told.told import ToldStory, telling
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.serving import KAFKA_PORT
from tests.simulation.world.world import MS, SECOND, must

SYNCED = {"flush": "disk", "log.format": "kafka"}
IN_BUNDLES = {"flush": "disk", "log.format": "tank"}
OF_ANYBODY = {
    "flush": "replicated",
    "min.insync.replicas": "1",
    "unclean.leader.election": "true",
    "log.format": "kafka",
}
PAUSE_US = 5 * MS
OF_2_4 = next(age for age in AGES if age.name == "2.4")
"""The last age whose consumers ask where an epoch ends, and don't say the epoch of what they have."""


def _address(machine: BrokerMachine) -> HostPort:
    return machine.host, KAFKA_PORT


def _begin(story: ToldStory, machine: BrokerMachine, *clients: Client) -> None:
    """These begin at this broker."""
    for client in clients:
        story.send_in(client, machine)


def _reader(story: ToldStory, age: Age = NEWEST) -> KafkaConsumer:
    return KafkaConsumer(story.world, story.books, story.target, PAUSE_US, f"reader {age.name}", age)


def _producer(story: ToldStory) -> KafkaProducer:
    return KafkaProducer(story.world, story.books, story.target, PAUSE_US, "producer", age=NEWEST)


def _end(story: ToldStory) -> int:
    return story.books.of(story.key).end


def _write(story: ToldStory, producer: KafkaProducer, machine: BrokerMachine, times: int = 3) -> None:
    """Some messages, acknowledged by this broker, and no more."""
    answered = producer.answered
    producer.active = True
    producer.line.turn_to(machine.broker_id)
    story.until(lambda: producer.answered >= answered + times, "the answers to the producer", 20 * SECOND)
    _rest(story, producer)


def _rest(story: ToldStory, *producers: Client) -> None:
    """They begin nothing new, and what they have begun ends."""
    for producer in producers:
        producer.active = False
    story.go_on(500 * MS)


def _until_led_by(story: ToldStory, machine: BrokerMachine) -> None:
    story.until(lambda: story.placed.leader == machine.broker_id, "another leader", 30 * SECOND)
    story.until(lambda: story.at(machine).leader_epoch == story.placed.leader_epoch, "its taking office")


def _until_read(story: ToldStory, *readers: Consumer) -> None:
    story.until(
        lambda: all(reader.has_all and reader.next > _end(story) for reader in readers),
        "their reading all",
        20 * SECOND,
    )


def a_kafka_producer_repeats_over_a_leader_change() -> None:
    """A commits a batch of an idempotent producer, and its answer is lost; A dies. The producer finds B, and
    sends the batch again: it is stored once, and the answer says where it is."""
    with telling(SYNCED) as story:
        a, b, _ = story.cast
        producer = KafkaIdempotentProducer(
            story.world, story.books, story.target, PAUSE_US, "producer", age=NEWEST
        )
        _begin(story, a, producer)
        story.until(lambda: producer.answered > 2, "answers of A")
        answered = producer.answered
        story.part(a, producer.name, one_way=True)
        story.until(
            lambda: any(sent.values[0] in story.books.of(story.key).payloads for sent in producer.unknown),
            "a batch that is committed and not answered",
        )
        story.go_on(SECOND)  # B hears that it is committed
        story.break_streams(a, producer.name)
        a.end(False)
        story.rejoin(a, producer.name)
        _until_led_by(story, b)
        story.until(lambda: producer.answered > answered + 2, "answers of B", 20 * SECOND)
        must(story.world.counts["idempotent produces repeated"] > 0, "nothing was repeated")
        _rest(story, producer)
        for numbers in story.books.of(story.key).payloads.values():
            must(len(numbers) == 1, "a message is stored at %s", numbers)
        story.rest()


def two_protocols_write_over_a_leaders_death() -> None:
    """An idempotent producer of each protocol has several batches under way when A is cut off, and dies. Both
    go on at B: what was acknowledged is there, once, and in the order of its producer. Readers of both
    protocols see the same."""
    for settings in (SYNCED, IN_BUNDLES):
        _write_over_a_death(settings)


def _write_over_a_death(settings: dict[str, str]) -> None:
    with telling(settings) as story:
        a, b, c = story.cast
        names = "tank", "kafka"
        producers = (
            IdempotentProducer(
                story.world, story.books, story.target, PAUSE_US, names[0], in_flight=IN_FLIGHT
            ),
            KafkaIdempotentProducer(
                story.world,
                story.books,
                story.target,
                PAUSE_US,
                names[1],
                in_flight=IN_FLIGHT,
                age=NEWEST,
            ),
        )
        readers = story.reader(a), _reader(story)
        _begin(story, a, *producers, readers[1])
        story.until(lambda: all(each.answered > 20 for each in producers), "answers of A", 20 * SECOND)
        answered = [each.answered for each in producers]
        story.part(a, b.name, c.name)
        story.go_on(200 * MS)
        must(all(each.unknown for each in producers), "nothing is under way")
        a.end(False)
        _until_led_by(story, b)
        story.until(
            lambda: all(
                each.answered > before + 20 for each, before in zip(producers, answered, strict=True)
            ),
            "answers of B",
            20 * SECOND,
        )
        _rest(story, *producers)
        _until_read(story, *readers)
        _check_orders(story, names)
        story.rest()


def _check_orders(story: ToldStory, names: tuple[str, ...]) -> None:
    """Each producer counts its messages: they are stored in that order, once."""
    payloads = story.books.of(story.key).payloads
    for name in names:
        own = [value for value in payloads if value.startswith(name.encode() + b":")]
        numbers = [payloads[value] for value in sorted(own, key=lambda value: int(value.partition(b":")[2]))]
        must(len(numbers) > 40, "%s has stored %s messages", name, len(numbers))
        flat = [number for each in numbers for number in each]
        must(
            len(flat) == len(own) and flat == sorted(flat), "the messages of %s are stored at %s", name, flat
        )


def what_a_kafka_consumer_has_read_is_lost() -> None:
    """C is left behind, and is all that is left when A and B die: it leads, without what the consumers have
    read last, and takes other messages in its place. The consumers are told where the logs went apart: one by
    the epoch of its last record, which its fetch says, one by its question where that epoch ends."""
    with telling(OF_ANYBODY) as story:
        a, b, c = story.cast
        producer, readers = _producer(story), (_reader(story), _reader(story, OF_2_4))
        _begin(story, a, producer, *readers)
        _write(story, producer, a)
        story.until(lambda: story.at(c).high_water_mark == _end(story), "C's hearing of it")
        kept = _end(story)
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        _write(story, producer, a, 5)
        _until_read(story, *readers)
        lost = _end(story)
        must(lost > kept, "there is nothing to lose")
        for reader in readers:
            story.network.cut([reader.name], [c.name], one_way=False)
        for machine in (a, b):
            machine.end(False)
        c.start()
        _until_led_by(story, c)
        while _end(story) <= lost:
            _write(story, producer, c)
        for reader in readers:
            story.rejoin(c, reader.name)
        _until_read(story, *readers)
        for reader in readers:
            must(reader.truncations == 1, "%s was told %s times", reader.name, reader.truncations)
            found = story.books.of(story.key).payloads
            must(
                all(found.get(value) == [number] for number, value, _ in reader.held),
                "%s holds what is not in the log",
                reader.name,
            )
        story.rest()


def what_a_kafka_consumer_has_read_is_retained_no_more() -> None:
    """A consumer has read all that A led. B leads, and retention takes all of A's time: nothing that the
    consumer has read was lost, and it isn't told so when it asks where A's epoch ended."""
    settings = SYNCED | {"log.segment.bytes": "300", "retention.segments.count": "2"}
    with telling(settings) as story:
        a, b, c = story.cast
        producer, reader = _producer(story), _reader(story, OF_2_4)
        story.books.of(story.key).retains = True
        _begin(story, a, producer, reader)
        _write(story, producer, a)
        _until_read(story, reader)
        story.part(a, reader.name)
        story.stop(a)
        _until_led_by(story, b)
        story.network.cut([reader.name], [b.name, c.name], one_way=False)
        epochs = story.at(b).log.epochs
        while not epochs or epochs[0][0] == 1:
            _write(story, producer, b)
            story.go_on(SECOND)  # retention is at work
        story.rejoin(b, reader.name)
        _until_read(story, reader)
        must(not reader.truncations, "what it has read was lost, it is told")
        a.start()
        story.rest()


def a_kafka_consumer_comes_to_a_former_leader() -> None:
    """A has been replaced, and hears nobody but clients; what it takes is not committed, and not shown. A
    consumer that has read on at B comes to A: A knows no such epoch, and says nothing of its own log. One
    that knows A's epoch alone is told at B that it is over."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        producer, reader, other = _producer(story), _reader(story), _reader(story)
        other.name = "one of before"
        reader.asks_for_end = other.asks_for_end = 0.0  # a refusal of that would send them to B, too
        _begin(story, a, producer, reader, other)
        _write(story, producer, a)
        _until_read(story, reader, other)
        story.part(a, b.name, c.name, *story.controllers)
        other.active = False
        written = story.at(a).log.written
        producer.active = True
        story.until(lambda: story.at(a).log.written > written, "a message that A can't commit")
        _rest(story, producer)
        must(reader.next == written + 1, "%s has read what is not committed", reader.name)
        _until_led_by(story, b)
        first, second = story.at(a).leader_epoch, story.at(b).leader_epoch
        must(first < second, "A has heard of B")
        _write(story, producer, b, 5)
        reader.line.go_to(_address(b), NOWHERE)
        _until_read(story, reader)
        must(reader.next > story.at(a).log.written + 1, "A has more than B")
        _ask_at(story, reader, a, second, "unknown_leader_epoch")
        _ask_at(story, other, b, first, "fenced_leader_epoch")
        must(reader.truncations == other.truncations == 0, "they were told of another log")
        story.rejoin(a, b.name, c.name, *story.controllers)
        _until_read(story, reader, other)
        story.rest()


def _ask_at(story: ToldStory, reader: KafkaClient, machine: BrokerMachine, epoch: int, refusal: str) -> None:
    """A consumer that knows this epoch asks there, and is refused so."""
    name = f"fetches refused: {refusal}"
    before = story.world.counts[name]
    reader.active = True
    reader.line.hang_up()
    reader.line.go_to(_address(machine), epoch)
    reader.line.epoch = epoch
    story.until(lambda: story.world.counts[name] > before, f"{refusal} at {machine.name}")


def a_kafka_consumer_asks_a_new_leader_for_the_end() -> None:
    """A commits messages that C lacks, and dies before B has heard that they are committed. B leads, and its
    mark is still below them: consumers are shown no end there before B's mark is above it."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        producer, reader, asks = _producer(story), _reader(story), _reader(story)
        asks.name, asks.asks_for_end = "asks for the end", 1.0
        _begin(story, a, producer, reader, asks)
        _write(story, producer, a)
        _until_read(story, reader)
        story.go_on(SECOND)
        asks.active = False
        before = _end(story)
        story.part(a, c.name)
        producer.active = True
        story.until(lambda: _end(story) > before, "messages without C", 20 * SECOND)
        story.part(a, b.name, one_way=True)
        producer.active = False
        end = _end(story)
        story.until(lambda: reader.next > end, "their being read")
        shown = story.books.of(story.key).shown
        asks.active = True
        story.until(lambda: max(shown.values(), default=0) >= end, "its being shown the end")
        asks.active = False
        must(story.at(b).high_water_mark < end, "B has heard of it")
        a.end(False)
        c.slow_until = story.world.now + 5 * SECOND
        _until_led_by(story, b)
        asks.active = True
        for client in (reader, asks):
            client.line.go_to(_address(b), story.placed.leader_epoch)
        story.go_on(3 * SECOND)
        story.rest()


def deleted_records_outlive_their_leader() -> None:
    """A client deletes the oldest records at A, and is not answered before B and C have heard of it. Then A
    dies: B begins where it was said, and so does A when it comes back."""
    for settings in (SYNCED, IN_BUNDLES):
        _delete_over_a_death(settings)


def _delete_over_a_death(settings: dict[str, str]) -> None:
    with telling(settings) as story:
        a, b, c = story.cast
        producer, reader = _producer(story), _reader(story)
        deleter = KafkaDeleter(story.world, story.books, story.target, PAUSE_US, "deleter")
        _begin(story, a, producer)
        _write(story, producer, a, 10)
        story.part(a, b.name, c.name, one_way=True)
        _begin(story, a, deleter)
        story.until(lambda: deleter.offset > 0, "the request")
        answered = deleter.answered  # those that delete nothing are answered at once
        story.go_on(SECOND)
        must(deleter.answered == answered, "it was answered though A alone has heard of it")
        story.rejoin(a, b.name, c.name)
        story.until(lambda: deleter.answered > answered, "its being answered", 20 * SECOND)
        deleter.retire()
        first = deleter.deleted + 1
        a.end(False)
        _until_led_by(story, b)
        must(story.at(b).log.first_available >= first, "B begins at %s", story.at(b).log.first_available)
        _begin(story, b, reader)
        _write(story, producer, b)
        _until_read(story, reader)
        must(reader.held[0][0] >= first, "a reader is shown %s", reader.held[0])
        a.start()
        story.until(lambda: story.are_in_sync(a, b, c), "A's return", 20 * SECOND)
        must(story.at(a).log.first_available >= first, "A begins at %s", story.at(a).log.first_available)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    a_kafka_producer_repeats_over_a_leader_change,
    two_protocols_write_over_a_leaders_death,
    what_a_kafka_consumer_has_read_is_lost,
    what_a_kafka_consumer_has_read_is_retained_no_more,
    a_kafka_consumer_comes_to_a_former_leader,
    a_kafka_consumer_asks_a_new_leader_for_the_end,
    deleted_records_outlive_their_leader,
)
