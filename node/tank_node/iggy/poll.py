"""Polls messages of one partition, and stores the consumer's offset if it wants that (100)."""

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tank_node.cluster.view import TopicView
from tank_node.iggy.consumers import NamedConsumer, consumer_of, wanted_partition
from tank_node.iggy.coordinator_wait import ask_patiently
from tank_node.iggy.numbers import partition_of, topic_of
from tank_node.iggy.refusals import IggyFault, of_code, of_stored, refusal
from tank_node.iggy.waits import IggyPause
from tank_node.peers.iggy.iggy_memberships import memberships_of
from tank_node.peers.iggy.iggy_offsets import offsets_of
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Fetched, StoredWanted
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.stored.strategy import StoredStrategy
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import PollMessagesRequest
from tank_protos.iggy.eras import SEED, V11
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.kinds import PollingKind
from tank_protos.iggy.polled_messages import NO_ASSIGNMENT, PollAnswer, PollSource
from tank_protos.kafka.limits import MAX_UNPACKED_BYTES
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_MOST_NUMBER: Final = 2**63 - 1
_STRATEGIES: Final = {
    PollingKind.OFFSET: StoredStrategy.NUMBER,
    PollingKind.TIMESTAMP: StoredStrategy.TIME,
    PollingKind.FIRST: StoredStrategy.FIRST,
    PollingKind.LAST: StoredStrategy.LAST,
}
_EMPTY: Final = 0
_HOW: Final = Struct("<BQIB")
"""What a request ends with in all eras: strategy, its value, count, and whether the offset is stored."""


class _Subject(NamedTuple):
    """What a request is about."""

    topic: TopicView
    consumer: NamedConsumer
    wanted: int | None
    """The partition, as the wire has it; None: it names none."""


class _Poll:
    """A request, until it is answered."""

    __slots__ = (
        "_answer", "_call", "_commits", "_consumer", "_count", "_kind", "_named", "_partition", "_seen",
        "_topic", "_value", "_wait_ms",
    )  # fmt: skip

    def __init__(self, call: "IggyCall", subject: _Subject, how: tuple[int, int, int, int]) -> None:
        strategy, value, count, auto_commit = how
        self._call = call
        self._topic = subject.topic
        self._consumer = subject.consumer
        self._count = count
        self._commits = auto_commit != 0
        self._kind = _kind_of(strategy)
        self._value = value
        self._partition = 0
        self._named: int | None = None
        """The partition that a group's member names; None: the next of its own is polled."""
        self._seen: int | None = None
        """The stored offset behind which it polls; None: nothing is stored."""
        self._wait_ms = call.session.settings.poll_wait_ms
        self._answer: PollAnswer | None = None

    def of_partition(self, partition: int) -> None:
        """Polls this partition."""
        self._partition = partition
        call = self._call
        if self._kind is PollingKind.NEXT:
            place = IggyPlace(self._consumer.key, self._topic.topic_id, partition)
            get = offsets_of(call.session.broker).get
            ask_patiently(call, partial(get, place, call.session), self._know_offset)
            return
        value = self._value
        if self._kind is PollingKind.OFFSET:
            value = min(value + 1, _MOST_NUMBER)
        self._fetch(_STRATEGIES[self._kind], value)

    def of_group(self, wanted: int | None) -> None:
        """Polls a partition of this member: the one that it names, where clients have to, else the next of
        its own."""
        call, group = self._call, self._consumer.group
        session = call.session
        assert group is not None
        self._named = (
            None if wanted is None or call.era is not V11 else partition_of(call, self._topic, wanted)
        )
        found = self._judged()
        if not isinstance(found, ErrorCode):
            self.of_partition(found)
        elif found is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            memberships_of(session.broker).when_heard(group.born, session.serial, self._is_heard)
        else:
            self._is_refused(found)

    def _judged(self) -> int | ErrorCode:
        """The partition that the member polls now, or why it polls none. `_end` has to follow."""
        group, session, named = self._consumer.group, self._call.session, self._named
        assert group is not None
        memberships = memberships_of(session.broker)
        if named is None:
            return memberships.next_partition(group.born, session.serial)
        return memberships.begin_poll(group.born, session.serial, named) or named

    def _is_heard(self) -> None:
        if self._call.session.closed:
            return
        found = self._judged()
        if isinstance(found, ErrorCode):
            self._is_refused(found)
        else:
            self.of_partition(found)

    def _is_refused(self, error: ErrorCode) -> None:
        call = self._call
        is_out = error is ErrorCode.UNKNOWN_MEMBER
        if error is ErrorCode.NOTHING_ASSIGNED or (is_out and call.era is V11):
            partition = NO_ASSIGNMENT if call.era is V11 else 0
            call.answer(PollAnswer(call.era, self._topic.topic_id, partition, 0).payload())
        else:
            call.fail(of_code(error))

    def _know_offset(self, error: ErrorCode, offset: int | None) -> None:
        if self._call.session.closed:
            return
        if error:
            self._fail(of_code(error))
            return
        self._seen = offset
        if offset is None:
            self._fetch(StoredStrategy.FIRST, 0)
        else:
            self._fetch(StoredStrategy.NUMBER, min(offset + 2, _MOST_NUMBER))

    def _fetch(self, strategy: StoredStrategy, value: int) -> None:
        call = self._call
        call.on_close = None
        session = call.session
        unpacking = session.broker.unpacking
        if not unpacking.may_begin(self, partial(self._fetch, strategy, value)):
            call.on_close = partial(unpacking.leave, self)
            return
        wanted = StoredWanted(strategy, value, self._count, 0, self._wait_ms)
        place = self._topic.topic_id, self._partition
        stored_partitions(session.broker).fetch(place, wanted, session, self._fetched)

    def _fetched(self, fetched: Fetched) -> None:
        call = self._call
        if fetched.outcome is not StoredOutcome.DONE:
            self._fail(of_stored(fetched.outcome))
            return
        answer = PollAnswer(call.era, self._topic.topic_id, self._partition, max(fetched.mark - 1, 0))
        next_number = self._add(answer, fetched)
        if fetched.batches and not answer.messages:
            self._pass_hole(next_number)
            return
        if answer.lost_headers:
            call.session.metrics.converted["iggy_lost_headers"] += answer.lost_headers
        self._answer = answer
        last = answer.last_offset
        if last is None or not self._commits:
            self._finish(last, stored=False)
            return
        place = IggyPlace(self._consumer.key, self._topic.topic_id, self._partition)
        offsets = offsets_of(call.session.broker)
        if self._kind is PollingKind.NEXT:
            offsets.advance(place, self._seen, last, call.session, self._committed)
        else:
            offsets.store(place, last, call.session, self._committed, is_auto=True)

    def _add(self, answer: PollAnswer, fetched: Fetched) -> int:
        """Adds messages as far as they are wanted and the answer may be long; returns the number to go on
        with. What is unpacked counts, too, and a batch that can't be read as much as it could have cost: it
        is a hole, because it stays as it is."""
        session, left = self._call.session, self._count
        broker, most_bytes = session.broker, session.limits.iggy_poll_bytes
        wasted_bytes, next_number = 0, fetched.next
        for batch in fetched.batches:
            if not left or max(answer.bytes, answer.unpacked_bytes, wasted_bytes) >= most_bytes:
                next_number = batch.first
                break
            source = PollSource(batch.data, batch.append_ms, batch.first, fetched.is_bundles)
            try:
                left -= answer.add(source, max(fetched.start - 1, 0), left)
            except WireError as error:
                wasted_bytes += MAX_UNPACKED_BYTES
                place = f"topic {self._topic.name}, partition {self._partition}, number {batch.first}"
                broker.refusals.note("iggy_unreadable_batch", f"{place}: {error}", broker.tick.monotonic_ms)
        broker.tick.unpacked_bytes += answer.unpacked_bytes + wasted_bytes
        return next_number

    def _pass_hole(self, number: int) -> None:
        """Reads on behind batches without a message for this client, when others had their turn."""
        call = self._call
        session = call.session
        pause = IggyPause(session.broker.deadlines, session, lambda: self._go_on(number))
        call.on_close = pause.begin()

    def _go_on(self, number: int) -> None:
        self._fetch(StoredStrategy.NUMBER, number)

    def _committed(self, error: ErrorCode) -> None:
        """An offset that was not stored leads to the messages again, and to no loss: they are answered."""
        call = self._call
        if call.session.closed:
            return
        if error:
            call.session.metrics.refused["iggy_auto_commit"] += 1
        assert self._answer is not None
        self._finish(self._answer.last_offset, stored=not error)

    def _finish(self, last: int | None, *, stored: bool) -> None:
        call, group, answer = self._call, self._consumer.group, self._answer
        session = call.session
        assert answer is not None
        if group is not None:
            memberships = memberships_of(session.broker)
            memberships.polled(group.born, session.serial, self._partition, last)
            if stored and last is not None:
                memberships.stored(group.born, session.serial, self._partition, last)
        call.answer(answer.payload())

    def _fail(self, fault: IggyFault) -> None:
        call, group = self._call, self._consumer.group
        session = call.session
        if group is not None:
            memberships_of(session.broker).polled(group.born, session.serial, self._partition, None)
        call.fail(fault)


def poll_messages(call: "IggyCall", payload: memoryview) -> None:
    """Answers with at most as many messages as wanted, up to the last that all in-sync replicas have."""
    subject = _subject_of(call, payload)
    topic, consumer, wanted = subject
    how = _HOW.unpack_from(payload, len(payload) - _HOW.size)
    _, _, count, _ = how
    if not topic.partitions:
        raise refusal(IggyError.NO_PARTITIONS)
    if count == _EMPTY and call.era is SEED:
        raise refusal(IggyError.INVALID_MESSAGES_COUNT)
    poll = _Poll(call, subject, how)
    if count == _EMPTY:
        number = 0 if wanted is None else partition_of(call, topic, wanted)
        call.answer(PollAnswer(call.era, topic.topic_id, number, 0).payload())
    elif consumer.group is not None:
        poll.of_group(wanted)
    elif wanted is None and call.era is SEED:
        raise refusal(IggyError.PARTITION_NOT_FOUND)
    else:
        poll.of_partition(0 if wanted is None else partition_of(call, topic, wanted))


def _subject_of(call: "IggyCall", payload: memoryview) -> _Subject:
    """What a request is about, which can be read. Raises WireError."""
    session = call.session
    head = bytes(payload[: -_HOW.size])
    found = session.learned.find(head, session.broker.link.view, session.principal, call.era)
    if isinstance(found, _Subject):
        return found
    request = PollMessagesRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.POLL)
    consumer = consumer_of(call, request.consumer, topic)
    subject = _Subject(topic, consumer, wanted_partition(call, request.has_partition, request.partition))
    session.learned.keep(head, subject)
    return subject


def _kind_of(wire: int) -> PollingKind:
    try:
        return PollingKind(wire)
    except ValueError:
        raise refusal(IggyError.INVALID_COMMAND) from None
