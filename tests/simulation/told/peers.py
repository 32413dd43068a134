"""Told stories of connections that end and are made again, forwarded clients, and damage found in a running
broker. A leads, B leads next, C last."""

from collections.abc import Callable
from functools import partial

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.partition import waiters
from tank_node.segment.index import TAIL_RECORDS
from tank_protos.error_codes import ConsumeFlag, ErrorCode, ProduceError
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.tank import ConsumeResponse, ProduceResponse
from tests.simulation.books.message_books import Key
from tests.simulation.clients.consumers import Consumer
from tests.simulation.clients.producers import IdempotentProducer, Producer
from tests.simulation.told.brokers import FIRST_BATCH, LAST_BATCH, notice, spoil
from tests.simulation.told.told import ToldStory, telling
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import Weather
from tests.simulation.world.world import MS, SECOND, must

SYNCED = {"flush": "disk"}
SMALL_SEGMENTS = {"flush": "disk", "min.insync.replicas": "2", "log.segment.bytes": "300"}
FORWARDED = ForwardingPolicy.AUTO


def a_leader_connects_again() -> None:
    """A has not heard C on one connection, and makes another. What comes on the old one after that is not
    looked at: the new one would never hear what C has synced."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        let_go = story.hold(a, c)
        story.append(a)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.until(lambda: story.are_in_sync(a, b, c), "its return on a new connection", 20 * SECOND)
        c.slow_until = story.world.now + 100 * MS  # one fsync
        story.append(a)
        story.until(lambda: story.at(c).log.written == 4, "the append at C")
        let_go()
        story.until(lambda: story.at(a).high_water_mark == 4, "what C has synced", 2 * SECOND)
        story.rest()


def a_replica_loses_its_log_as_it_is_proposed() -> None:
    """A has committed what B has, and B doesn't know that it is. B leads, and C has caught up and is proposed
    for it; before anybody hears of that, C finds its log bad. Filled anew it would be whole by B's low
    mark, and then the proposal makes it a member: nothing is sent to it until that is settled."""
    with telling(SMALL_SEGMENTS) as story:
        a, b, c = story.cast
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.append(a, 4)
        story.go_on(SECOND)
        story.network.weather = Weather(usual_us=20 * MS)  # B hears of it later than this story looks
        story.append(a, 16)
        story.until(lambda: story.at(a).high_water_mark == 20, "their being committed")
        story.part(a, b.name, one_way=True)
        must(story.at(b).high_water_mark == 4, "B has heard of it")
        story.network.weather = Weather()
        a.end(False)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        struck: list[bool] = []

        def strike() -> None:
            story.part(b, *story.controllers, one_way=True)
            spoil(story, c, FIRST_BATCH)
            partition = story.at(c)
            story.do(c, lambda: notice(partition))
            story.network.weather = Weather(usual_us=40 * MS)
            struck.append(True)

        story.when_proposed(b, c, strike)
        c.start()
        story.until(lambda: bool(struck), "the proposal")
        deadline = story.world.now + 3 * SECOND
        while story.world.now < deadline and story.at(c).log.written == 20:
            story.go_on(MS)
        story.part(b, c.name)  # it has more than B's mark, if it was sent anything
        story.network.weather = Weather()
        story.rejoin(b, *story.controllers)
        story.go_on(500 * MS)
        b.end(False)
        story.go_on(3 * SECOND)
        story.rest()


class OldProducer(Producer):
    """Of a client that knows the old document alone: it has one address, and has never heard of leaders."""

    version = 0

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        error = ProduceResponse.decode(payload).results[0].error
        knows = error not in (ProduceError.OTHER_LEADER, ProduceError.NO_LEADER)
        must(knows, "%s is told %#x, which its document doesn't have", self.name, error)
        super()._take(message_id, payload, key, epoch)

    def _refused(self, error: int) -> None:
        """It stays where it is."""


class OldConsumer(Consumer):
    """The same."""

    version = 0

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        flag = ConsumeResponse.decode(payload).topics[0].partitions[0].flag
        knows = flag not in (ConsumeFlag.NOT_OPENED, ConsumeFlag.OTHER_LEADER, ConsumeFlag.NO_LEADER)
        must(knows, "%s is told %#x, which its document doesn't have", self.name, flag)
        super()._take(message_id, payload, key, epoch)


def _old_producer(story: ToldStory, machine: BrokerMachine) -> OldProducer:
    producer = OldProducer(story.world, story.books, story.target, 5 * MS, "old")
    story.send_in(producer, machine)
    story.until(lambda: producer.answered > 3, "answers", 5 * SECOND)
    return producer


def old_clients_know_one_broker() -> None:
    """They write and read at C, whoever leads. A dies, and C brings them to B; then B's answers don't come:
    nothing is called not stored that may be."""
    with telling(SYNCED, forwarding=FORWARDED) as story:
        a, b, c = story.cast
        producer = _old_producer(story, c)
        reader = OldConsumer(story.world, story.books, story.target, 5 * MS, "reader")
        story.send_in(reader, c)
        story.until(lambda: reader.next > 4, "its reading", 5 * SECOND)
        a.end(False)
        answered, read = producer.answered, reader.next
        story.until(lambda: producer.answered > answered + 3, "answers of B", 20 * SECOND)
        story.until(lambda: reader.next > read + 3, "its reading there", 20 * SECOND)
        a.start()
        story.until(lambda: story.are_in_sync(a, b, c), "A's return", 20 * SECOND)
        story.part(b, c.name, one_way=True)
        story.go_on(5 * SECOND)
        story.rejoin(b, c.name)
        story.go_on(10 * SECOND)
        producer.active = False
        story.until(lambda: reader.has_all, "its reading all that is committed", 20 * SECOND)
        reader.retire()
        story.rest()


def what_is_sent_on_keeps_its_order() -> None:
    """C brings messages of a client to A, and hears nothing: the client is told that they may not be stored,
    and sends others, which C brings there on a new connection. What still comes on the old one is not stored
    behind them."""
    with telling(SYNCED, forwarding=FORWARDED) as story:
        a, _, c = story.cast
        producer = _old_producer(story, c)
        let_go = story.hold(c, a)
        answered = producer.answered
        story.until(lambda: producer.answered > answered + 3, "answers on a new connection", 30 * SECOND)
        producer.active = False
        story.go_on(5 * SECOND)
        let_go()
        story.go_on(SECOND)
        payloads = story.books.of(story.key).payloads
        counts = [int(value.split(b":")[1]) for value in sorted(payloads, key=lambda value: payloads[value])]
        must(counts == sorted(counts), "its messages have changed places: %s", counts)
        story.rest()


def a_running_leader_finds_damage() -> None:
    """Nobody writes or reads. Who leads checks what it has: a batch is bad, and it gives up leading
    to be filled anew. It happens to the next one, too."""
    with telling(SYNCED) as story:
        story.append(story.cast[0], 3)
        story.go_on(SECOND)
        for _ in range(2):
            leader = story.cast[0]
            spoil(story, leader, FIRST_BATCH)
            gone = partial(_is_led_by_another, story, leader)
            story.until(gone, "its leaving", 60 * SECOND)
            story.until(lambda: len(story.placed.in_sync) == 3, "its being filled anew", 60 * SECOND)
        must(story.placed.lossy_elections == 0, "an election was lossy")
        story.append(story.cast[0])
        story.rest()


def _is_led_by_another(story: ToldStory, machine: BrokerMachine) -> bool:
    return story.placed.leader != machine.broker_id


def an_end_changes_while_its_process_is_down() -> None:
    """B's last batch is another one after a kill that took nothing. It is missing there, and not cut as what
    a loss of power leaves: B doesn't lead when it is all that is left, though it counts as one of three."""
    with telling({"flush": "disk", "min.insync.replicas": "3"}) as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.until(lambda: story.at(a).high_water_mark == 3, "their being committed")
        for machine in story.cast:
            machine.end(False)
        spoil(story, b, LAST_BATCH)
        b.start()
        story.go_on(10 * SECOND)
        a.start()
        c.start()
        story.until(lambda: len(story.placed.in_sync) == 3, "their coming together", 30 * SECOND)
        story.rest()


def a_producers_memory_cannot_be_read() -> None:
    """The leader has forgotten what a producer wrote, and its disk fails as it looks it up. That batch is
    refused, and nothing else ends by it; when the disk answers again, the same batch is stored."""
    with telling(SYNCED) as story:
        a, many = story.cast[0], 2 * TAIL_RECORDS + 1
        for sequence in range(many):
            story.append_again(a, waiters.ProducerStamp(7, 0, sequence), 1)
        story.go_on(SECOND)
        story.at(a).log.producers.forget()
        for fails in (100, 0):
            a.disk.failing_reads = fails
            story.append_again(a, waiters.ProducerStamp(7, 0, many), 1)
        must(story.refusals == [ErrorCode.STORAGE], "refused with %s", story.refusals)
        story.until(lambda: story.at(a).high_water_mark == many + 1, "its being stored")
        story.rest()


def a_producer_outlives_what_it_wrote() -> None:
    """It is silent until retention has taken all that it wrote. B's disk is emptied, and filled by A from the
    first message that is left; then B leads. It still knows the producer."""
    with telling(SYNCED | {"retention.segments.count": "2", "log.segment.bytes": "100"}) as story:
        a, b, c = story.cast
        producer = IdempotentProducer(story.world, story.books, story.target, 40 * MS, "producer")
        story.send_in(producer, a)
        story.until(lambda: producer.answered > 2, "its first answers")
        producer.active = False
        story.go_on(SECOND)
        written = story.at(a).log.written
        for _ in range(6):
            story.append(a, 2)
            story.go_on(100 * MS)
        story.until(lambda: story.at(a).log.first_available > written, "retention", 60 * SECOND)
        b.empty()
        story.until(lambda: story.are_in_sync(a, c), "B's leaving")
        b.start()
        story.until(lambda: story.are_in_sync(a, b, c), "B's being filled", 20 * SECOND)
        a.end(False)
        story.until(lambda: story.placed.leader == b.broker_id, "B's leading")
        answered = producer.answered
        producer.active = True
        producer.line.turn_to(b.broker_id)
        story.until(lambda: producer.answered > answered, "an answer of B")
        story.rest()


class _Deaf:
    """The line of a process that nobody hears about."""

    def send(self, message: pb.BrokerDown) -> None:
        """It doesn't matter what."""

    def end(self) -> None:
        """The same."""


def a_second_process_says_that_it_is_a_broker() -> None:
    """A process with another folder registers as B, again and again, while B runs. B stays in sync: it is not
    put aside for it."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        epoch = story.state.brokers[b.broker_id].epoch
        register = pb.RegisterBroker(
            broker_id=b.broker_id,
            incarnation=b"second".ljust(16),
            disk_uuid=b"another".ljust(16),
            endpoints=[pb.Endpoint(name="tank", host="second", port=1)],
            replicates=True,
            min_level=OWN.lowest,
            max_level=OWN.highest,
        )
        for _ in range(8):
            leader = story.cluster.leader()
            assert leader is not None
            assert leader.life is not None
            assert leader.brokers is not None
            to, up = leader.brokers, pb.BrokerUp(register=pb.BrokerRegister(broker=register))
            story.world.guarded(leader.life, lambda to=to, up=up: to.received(to.opened(_Deaf()), up))  # type: ignore[misc]
            story.go_on(SECOND)
            must(story.state.brokers[b.broker_id].epoch == epoch, "B was put aside while it lives")
        must(story.are_in_sync(a, b, c), "somebody has left")
        story.append(a)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    a_leader_connects_again,
    a_replica_loses_its_log_as_it_is_proposed,
    old_clients_know_one_broker,
    what_is_sent_on_keeps_its_order,
    a_running_leader_finds_damage,
    an_end_changes_while_its_process_is_down,
    a_producers_memory_cannot_be_read,
    a_producer_outlives_what_it_wrote,
    a_second_process_says_that_it_is_a_broker,
)
