"""Told stories of replication, where one mistake would lose a message. A leads, B leads next, C last."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tank_node.partition.leader import PartitionLeader
from tank_node.partition.waiters import ProducerStamp
from tests.simulation.books.message_books import Key
from tests.simulation.clients.consumers import FollowersConsumer
from tests.simulation.clients.producers import Producer
from tests.simulation.told.told import LIMITS, ToldStory, lose_power, telling
from tests.simulation.world.world import MS, SECOND, must
from tests.support.nodes.faults import claimed_epoch, leader_of

SYNCED = {"flush": "disk"}
_STARTS_AT_1 = (6).to_bytes(8, "little") + (1).to_bytes(8, "little") + (1).to_bytes(4, "little")
"""In a push of one batch: the mark, the log start, the number of batches."""
ALONE_IS_ENOUGH = {"flush": "disk", "min.insync.replicas": "1"}
IN_MEMORY = {"flush": "replicated"}


def an_old_leader_goes_on_pushing() -> None:
    """A leader that nobody but C can hear has been replaced. What it gives C now may not take the place of
    what its successor has committed there, and an fsync of C is told to the successor, whatever came
    between."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, b.name, *story.controllers)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(b).leader_epoch == story.placed.leader_epoch, "its taking office")
        story.append(b)
        story.until(lambda: story.at(b).high_water_mark == 3, "the new leader's mark")
        story.go_on(SECOND)  # C hears of it
        story.append(a, 2)
        story.go_on(SECOND)
        must(story.at(c).log.written == 3, "who has been replaced was obeyed")
        c.slow_until = story.world.now + 50 * MS  # one fsync
        story.append(b)
        story.until(lambda: story.at(c).log.written == 4, "the append at C")
        story.append(a)
        story.until(lambda: story.at(b).high_water_mark == 4, "what C has synced")
        story.rest()


def a_former_leader_has_more_below_the_new_ones_start() -> None:
    """A writes a batch of an idempotent producer that B and C never get. B leads, and its log begins behind a
    gap that a client left. A follows, leads again, and gets the batch once more: it is stored, and not taken
    for a repeat of what was never committed."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        stamp = ProducerStamp(7, 0, 0)
        story.part(a, b.name, c.name, *story.controllers)
        story.append_again(a, stamp, 1)
        story.until(lambda: story.at(a).log.written == 1, "the append at A")
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(b).leader_epoch == story.placed.leader_epoch, "its taking office")
        story.append(b, first=2)
        story.until(lambda: story.at(b).high_water_mark == 2, "its mark")
        story.rejoin(a, b.name, c.name, *story.controllers)
        story.until(lambda: story.are_in_sync(a, b, c), "A's return", 20 * SECOND)
        story.part(b, a.name, c.name, *story.controllers)
        story.until(lambda: story.placed.leader == a.broker_id, "A's turn")
        story.until(lambda: story.at(a).leader_epoch == story.placed.leader_epoch, "its taking office")
        story.append_again(a, stamp, 1)
        story.until(lambda: story.at(a).high_water_mark == 3, "the batch, stored", 20 * SECOND)
        story.rest()


def a_leader_epoch_is_made_up() -> None:
    """A process of a replica pushes in an epoch that the controllers have given to nobody. Who is pushed to
    believes it until the controllers have been asked, and obeys the leader of the view again after that; the
    leader's own claim, from then on, waits for the view."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        with claimed_epoch(leader_of(story.at(a)), 2**32 - 1):
            story.append(a)
            story.until(lambda: story.at(c).leader_epoch == 2**32 - 1, "its being believed")
        story.until(lambda: story.at(c).leader_epoch < 2**32 - 1, "its being refuted", 5 * SECOND)
        story.until(lambda: story.are_in_sync(a, b, c), "C's return", 20 * SECOND)
        story.rest()


def an_epoch_is_heard_before_the_view_has_it() -> None:
    """B has been elected, and C knows it by B's push alone: neither A nor C hears the controllers. However
    long that takes, C takes no orders of A again."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, b.name, *story.controllers)
        story.part(c, *story.controllers)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(c).leader_epoch == story.placed.leader_epoch, "C's hearing of it")
        story.go_on(3 * SECOND)
        story.append(a, 2)
        story.go_on(2 * SECOND)
        must(story.at(c).log.written == 2, "who has been replaced was obeyed")
        story.rest()


def messages_are_deleted_from_the_front() -> None:
    """A deletes all before number 4, which lies within a batch. B hears of it though nothing follows, and
    begins there when it leads. C was away, and gets the batch whole before it begins there."""
    with telling(IN_MEMORY | {"retention.segments.count": "100"}) as story:
        a, b, c = story.cast
        story.stop(c)
        story.append(a, keys=[b"1", b"2"])
        story.append(a, keys=[b"3", b"4", b"5"])
        story.until(lambda: story.at(a).high_water_mark == 5, "their being committed")
        books = story.books.of(story.key)
        books.retained = 4
        start = story.at(a).start
        story.part(a, b.name)
        story.do(a, lambda: start.raise_to(4, story.at(a).leadership))
        story.go_on(300 * MS)
        must(start.lowest(story.at(a).leadership) < 4, "A counts on what B has not heard")
        story.rejoin(a, b.name)
        story.until(lambda: start.lowest(story.at(a).leadership) == 4, "B's hearing of it")
        must(story.at(b).log.first_available == 4, "B has not begun there")
        c.start()
        story.until(lambda: story.are_in_sync(a, b, c), "C's return", 20 * SECOND)
        story.until(lambda: story.at(c).log.first_available == 4, "C's hearing of it")
        must(story.at(c).log.segments[0].first == 3, "C has not got the whole batch")
        story.stop(a)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(b).leader_epoch == story.placed.leader_epoch, "its taking office")
        story.append(b)
        story.until(lambda: story.at(b).high_water_mark == 6, "a message")
        must(story.at(b).log.first_available == 4, "what was deleted is back")
        a.start()
        story.until(lambda: story.are_in_sync(a, b, c), "A's return", 20 * SECOND)
        story.rest()


def a_push_changes_on_its_way() -> None:
    """A bit of a push to C flips: it says that all which A has begins far behind. C takes nothing of it; A
    connects again, and C has what it had."""
    with telling(SYNCED | {"log.segment.bytes": "100"}) as story:
        a, b, c = story.cast
        story.append(a, 6)
        story.until(lambda: story.at(c).high_water_mark == 6, "C's hearing that they are committed")
        for stream in story.network.streams.values():
            if (stream.near.machine, stream.far.machine) == (a.name, c.name):
                stream.far.received = partial(_with_log_start, stream.far.received)
        story.append(a)
        story.until(lambda: story.at(a).high_water_mark == 7, "a message", 20 * SECOND)
        story.until(lambda: story.are_in_sync(a, b, c), "C's return", 20 * SECOND)
        must(story.at(c).log.first_available == 1, "C has dropped what it had")
        story.rest()


def _with_log_start(received: Callable[[object], None], data: object) -> None:
    """What arrives, with a log start of 5 in each push of one partition that says 1."""
    if isinstance(data, bytes) and (at := data.find(_STARTS_AT_1)) >= 0:
        data = data[: at + 8] + (5).to_bytes(8, "little") + data[at + 16 :]
    received(data)


def a_proposal_is_overtaken() -> None:
    """A proposes to take C in beside B, and is not heard; meanwhile B leaves, and A commits without it. Then
    the proposal arrives, and names a B that is registered and runs, and lacks what was committed."""
    with telling(ALONE_IS_ENOUGH) as story:
        a, b, c = story.cast
        story.append(a, 2)
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")

        def strike() -> None:
            story.part(a, *story.controllers, one_way=True)
            story.part(b, a.name, c.name, *story.controllers)
            story.break_streams(b, *story.controllers)

        story.when_proposed(a, c, strike)
        c.start()
        story.until(lambda: story.are_in_sync(a), "B's leaving")
        story.go_on(100 * MS)
        story.append(a)
        story.until(lambda: story.at(a).high_water_mark == 3, "a message without B")
        story.rejoin(b, *story.controllers)
        story.until(lambda: story.is_back(b), "B's return", 2 * SECOND)
        must(story.placed.leader == a.broker_id, "A was fenced too early")
        story.rejoin(a, *story.controllers)
        story.go_on(SECOND)
        story.rest()


def a_member_restarts_as_it_is_proposed() -> None:
    """C has caught up in memory, and A proposes it; before anybody hears of it, C's machine loses its power.
    The process behind it has another epoch than the one that was proposed."""
    with telling({**IN_MEMORY, "min.insync.replicas": "1"}) as story:
        a, b, c = story.cast
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.append(a, 3)
        story.go_on(100 * MS)
        struck: list[bool] = []

        def strike() -> None:
            story.part(a, *story.controllers, one_way=True)
            struck.append(True)

        story.when_proposed(a, c, strike)
        c.start()
        story.until(lambda: bool(struck), "the proposal")
        story.part(c, a.name, b.name)
        story.break_streams(c, *story.controllers)  # else they would wait until its first process is silent
        lose_power(c)
        c.start()
        story.until(lambda: story.is_back(c), "C's return", 2 * SECOND)
        must(story.placed.leader == a.broker_id, "A was fenced too early")
        must(story.at(c).log.written < 3, "C has lost nothing")
        story.rejoin(a, *story.controllers)
        story.go_on(SECOND)
        story.rest()


def a_new_leader_knows_an_old_mark() -> None:
    """A commits a message that C lacks, and dies before B has heard that it is committed. B leads, and its
    mark is still below that message: C is no member before it has synced what B's epoch began with."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, c.name)
        story.append(a)
        reader = story.reader(a)
        story.until(lambda: story.at(a).high_water_mark == 3, "a message without C")
        story.part(a, b.name, one_way=True)
        story.until(lambda: reader.next == 4, "its being read")
        must(story.at(b).high_water_mark == 2, "B has heard of it")
        a.end(False)
        c.slow_until = story.world.now + 5 * SECOND
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(b).leader_epoch == story.placed.leader_epoch, "its taking office")
        reader.line.turn_to(b.broker_id)
        story.until(lambda: reader.line.is_open, "the reader's coming")
        story.go_on(100 * MS)  # it asks for what comes behind all that it has read
        must(story.at(b).high_water_mark == 2, "the reader came too late")
        story.go_on(3 * SECOND)
        story.rest()


def a_follower_has_more_than_its_leader() -> None:
    """C has messages of A that nobody else has, and A dies. B leads, and C agrees with it as far as B has
    gone: what lies behind that counts for nothing."""
    with telling({**IN_MEMORY, "min.insync.replicas": "2"}) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, b.name)
        story.append(a, 3)
        story.until(lambda: story.at(c).log.written == 5, "the append at C")
        a.end(False)
        story.until(lambda: story.are_in_sync(b, c), "another leader")
        story.until(lambda: story.at(b).leader_epoch == story.placed.leader_epoch, "its taking office")
        story.go_on(500 * MS)  # B and C agree
        story.part(b, c.name)
        story.append(b)
        story.go_on(20 * MS)
        b.end(False)
        story.until(lambda: story.placed.leader == c.broker_id, "the next leader")
        story.go_on(SECOND)
        story.rest()


def two_brokers_at_one_address() -> None:
    """B and C say that they are reached at the same address: whoever answers there counts once."""
    with telling(ALONE_IS_ENOUGH) as story:
        a, b, c = story.cast
        story.append(a, 2)
        for machine in (b, c):
            machine.end(False)
        story.until(lambda: story.are_in_sync(a), "their leaving")
        story.append(a, 2)
        story.go_on(100 * MS)
        host, b.host = b.host, c.host
        b.start()
        story.go_on(SECOND)
        c.start()
        story.go_on(8 * SECOND)
        b.end(False)
        b.host = host
        story.rest()


def a_leader_stands_still() -> None:
    """A waits for fsyncs of B and C, and stands still for longer than a member may lag. They have told it
    meanwhile: nobody leaves."""
    limits = replace(LIMITS, replica_lag_ms=1200)
    with telling(SYNCED, limits=limits) as story:
        a, b, c = story.cast
        story.on_in_sync(lambda members: must(len(members) == 3, "only %s are in sync", members))
        for machine in (b, c):
            machine.slow_until = story.world.now + SECOND
        story.append(a)
        assert a.life is not None
        a.life.frozen = True
        story.go_on(2 * SECOND)
        story.world.thaw(a.life)
        story.go_on(5 * SECOND)
        story.rest()


def a_member_joins_that_would_not_stay() -> None:
    """A can commit nothing alone, so its mark is easily reached. C comes back, and lacks what A has held for
    long: it joins when it has that, and not before."""
    with telling({**SYNCED, "min.insync.replicas": "2"}) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, b.name, c.name)
        story.append(a)
        story.until(lambda: story.are_in_sync(a), "their leaving")
        story.go_on(SECOND)

        leadership = story.at(a).leadership
        assert isinstance(leadership, PartitionLeader)
        known = leadership.in_sync.replicas[c.broker_id]

        def look(members: tuple[int, ...]) -> None:
            must(c.broker_id not in members or known.synced == 3, "C joins with %s", known.synced)

        story.on_in_sync(look)
        c.slow_until = story.world.now + 3 * SECOND
        story.rejoin(a, c.name)
        story.until(lambda: known.matched == 3, "what C has in its memory")
        story.part(c, a.name, one_way=True)  # and not on its disk yet, as far as A knows
        story.go_on(SECOND)
        story.rejoin(c, a.name)
        story.until(lambda: story.are_in_sync(a, c), "C's joining")
        story.rest()


class Demanding(Producer):
    """Wants more in sync than the topic does, when it asks and when it is answered."""

    story: ToldStory

    def _stored_at(self, key: Key) -> None:
        in_sync = len(self.story.placed.in_sync)
        must(
            in_sync > self.required_acks, "%s is told that it is stored, with %s in sync", self.name, in_sync
        )
        super()._stored_at(key)


def too_few_are_left_when_the_answer_is_due() -> None:
    """A producer wants three in sync. Three are, when its message comes; C dies before it is committed."""
    with telling(ALONE_IS_ENOUGH) as story:
        a, _, c = story.cast
        producer = Demanding(story.world, story.books, story.target, 5 * MS, "demanding", 2)
        producer.story = story
        story.send_in(producer, a)
        story.until(lambda: producer.answered > 3, "answers")
        story.part(a, c.name)
        story.go_on(50 * MS)  # it has sent another, which C does not get
        answered = producer.answered
        c.end(False)
        story.until(lambda: len(story.placed.in_sync) == 2, "C's leaving")
        story.go_on(5 * SECOND)
        must(producer.answered == answered, "too few were in sync")
        producer.active = False
        story.rest()


def a_follower_is_read_up_to_its_mark() -> None:
    """B, which follows in sync, is read by one who prefers it. C is cut off: what B has and C has not is not
    committed, and not shown."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.until(lambda: story.at(b).high_water_mark == 2, "B's hearing that they are committed")
        story.part(c, a.name, b.name)
        story.append(a)
        story.until(lambda: story.at(b).log.written == 3, "the third one at B")
        reader = story.reader(b, kind=FollowersConsumer)
        story.until(lambda: reader.next > 1, "its reading at B")
        story.go_on(100 * MS)
        must(reader.next == 3, "a follower shows what is not committed")
        story.rejoin(c, a.name, b.name)
        story.until(lambda: reader.next == 4, "its reading on at B", 20 * SECOND)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    an_old_leader_goes_on_pushing,
    a_former_leader_has_more_below_the_new_ones_start,
    a_follower_is_read_up_to_its_mark,
    a_leader_epoch_is_made_up,
    an_epoch_is_heard_before_the_view_has_it,
    messages_are_deleted_from_the_front,
    a_push_changes_on_its_way,
    a_proposal_is_overtaken,
    a_member_restarts_as_it_is_proposed,
    a_new_leader_knows_an_old_mark,
    a_follower_has_more_than_its_leader,
    two_brokers_at_one_address,
    a_leader_stands_still,
    a_member_joins_that_would_not_stay,
    too_few_are_left_when_the_answer_is_due,
)
