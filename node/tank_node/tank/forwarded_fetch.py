"""Consume (2) of partitions that other brokers lead: asks the leaders, and joins their answers into one.

A request goes in rounds. A round asks all leaders, and reads the partitions that are here; the answer leaves
when data or an error was found, or the client's time is over. If one broker leads all partitions, the request
waits at that broker; else it waits at none, because data that one leader found late would be lost once
another had answered.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.broker.forwarding import FORWARDED_VERSION, Forwarded, UnexpectedAnswer, by_topic
from tank_node.partition.numbering import END, FIRST_AVAILABLE
from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Waiter
from tank_node.tank.fetch import (
    TAKES_RECORD_BATCHES,
    FetchTarget,
    RemoteResult,
    RemoteTarget,
    Topics,
    answer,
    consume_here,
    hide_unknown_ends,
    look,
    resolve,
)
from tank_node.tank.redirect import KNOWS_LEADERS, check_mark, forwards_to
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
)
from tank_protos.generated.tank.fast_writers import (
    bounds_entry,
    data_entry,
    records_entry,
    sparse_entry,
)
from tank_protos.wire.framing import frame

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

Places: TypeAlias = dict[int, list[tuple[str, RemoteTarget]]]
"""By leader: the partitions that it is asked for, each with its topic's name, in the request's order."""


def consume(session: "TankSession", payload: memoryview) -> None:
    """Answers like `fetch.consume`, but asks other brokers for the partitions that they lead."""
    request = ConsumeRequest.decode(payload)
    session.client_id = request.client_id
    check_mark(session, request.client_version)
    topics = resolve(session, request)
    places = _places(session, request, topics)
    if places:
        ElsewhereFetch(session, request).begin(topics, places)
    else:
        consume_here(session, payload, request, topics)


def _places(session: "TankSession", request: ConsumeRequest, topics: Topics) -> Places:
    """Finds the partitions to ask other brokers for, and makes each a RemoteTarget in `topics`."""
    places: Places = {}
    for name, _, wanted in topics:
        for i, one in enumerate(wanted or ()):
            partition = one.partition
            if partition is None:
                is_elsewhere = one.found is ConsumeFlag.OTHER_LEADER
            else:
                is_elsewhere = partition.refusal is Refusal.OTHER_LEADER
            if not is_elsewhere or one.is_readable:
                continue
            leader = forwards_to(session, request.client_version, name, one.number)
            if leader:
                assert wanted is not None
                wanted[i] = elsewhere = RemoteTarget(one)
                places.setdefault(leader, []).append((name, elsewhere))
    return places


def _may_wait(topics: Topics) -> bool:
    """Whether the request may wait at the one leader of all its partitions. Not while it names "the end"
    instead of a number: if that leader died, the number would be unknown."""
    for _, _, wanted in topics:
        for one in wanted or (None,):
            if not isinstance(one, RemoteTarget) or one.sequence_number == END:
                return False
    return True


class ForwardedFetch(Forwarded):
    """The request to one leader in one round."""

    def __init__(
        self,
        fetch: "ElsewhereFetch",
        wanted: list[tuple[str, RemoteTarget]],
        wait_ms: int,
        deadline_ms: int,
    ) -> None:
        self._fetch = fetch
        self._wanted = wanted
        limits = fetch.session.limits
        share = max(limits.forwarded_fetch_bytes // len(wanted), limits.forwarded_share_bytes)
        topics = [
            ConsumeTopic(
                name, [ConsumePartition(e.number, e.sequence_number, min(e.fetch_bytes, share)) for e in some]
            )
            for name, some in by_topic(wanted)
        ]
        asked = fetch.request
        min_bytes = min(asked.min_bytes, limits.forwarded_fetch_bytes)
        flags = asked.flags & TAKES_RECORD_BATCHES
        message = ConsumeRequest(FORWARDED_VERSION, 0, asked.client_id, wait_ms, min_bytes, flags, topics)
        super().__init__(bytearray().join(frame(message.ID, message.encode())), deadline_ms)

    def answered(self, payload: memoryview) -> None:
        if self._fetch.done:
            return
        response = ConsumeResponse.decode(payload)
        found = self._matched(response)
        chunks = memoryview(response.chunks)
        at = 0
        for one, told in found:
            if told is None:
                self._fetch.found_nothing(one)
                continue
            length = told.chunk_length if told.flag in _WITH_CHUNK else 0
            self._fetch.found(one, told, bytes(chunks[at : at + length]))
            at += length
        self._fetch.one_less()

    def _matched(self, response: ConsumeResponse) -> list[tuple[RemoteTarget, FetchedPartition | None]]:
        """Pairs each partition with its part of the answer; None: the leader doesn't know the topic. Raises
        UnexpectedAnswer when they don't match."""
        found: list[tuple[RemoteTarget, FetchedPartition | None]] = []
        length = 0
        for topic in response.topics:
            of_topic = self._wanted[len(found) : len(found) + topic.partition_count]
            if len(of_topic) != topic.partition_count or any(name != topic.name for name, _ in of_topic):
                break
            if topic.unknown:
                found += [(one, None) for _, one in of_topic]
                continue
            for (_, one), told in zip(of_topic, topic.partitions, strict=True):
                if told.partition != one.number:
                    raise UnexpectedAnswer(f"partition {told.partition} where {one.number} was asked for")
                length += told.chunk_length if told.flag in _WITH_CHUNK else 0
                found.append((one, told))
        if len(found) != len(self._wanted) or length != len(response.chunks):
            raise UnexpectedAnswer("an answer to another consume")
        return found

    def failed(self, *, sent: bool) -> None:
        for _, one in self._wanted:
            self._fetch.found_nothing(one)
        self._fetch.one_less()


def _shows_nothing(one: FetchTarget) -> bool:
    """Whether the end of this partition is unknown in this round."""
    if isinstance(one, RemoteTarget):
        return not one.is_shown
    return not one.is_readable


_WITH_CHUNK: Final = (ConsumeFlag.DATA, ConsumeFlag.SPARSE, ConsumeFlag.RECORD_BATCHES)


class Pause(Waiter[Partition]):
    """The wait between two rounds."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: "ElsewhereFetch") -> None:
        super().__init__()
        self._fetch = fetch
        self.asked_by = fetch.session

    def expired(self) -> None:
        self._fetch.session.broker.deadlines.forget(self)
        self._fetch.go_on(self)


class ElsewhereFetch(Waiter[Partition]):
    """A consume request for partitions of which other brokers lead some."""

    __slots__ = (
        "_began_us", "_missing", "_pause", "_pause_ms", "_redirects", "_shown", "_topics", "_until_ms",
        "_waits", "request", "session",
    )  # fmt: skip

    def __init__(self, session: "TankSession", request: ConsumeRequest) -> None:
        super().__init__()
        self.session = session
        self.request = request
        self._redirects = request.client_version >= KNOWS_LEADERS
        tick = session.broker.tick
        self._began_us = tick.monotonic_us
        wait_ms = min(request.max_wait_ms, session.limits.max_wait_ms)
        self._waits = wait_ms > 0
        self._until_ms = tick.monotonic_ms + wait_ms
        self._topics: Topics = []
        self._missing = 0
        """The number of leaders that have not answered in this round, plus 1 until all were asked."""
        self._shown: dict[tuple[str, int], RemoteTarget] = {}
        """The ends that leaders named in earlier rounds, by topic and partition."""
        self._pause: Pause | None = None
        """The pause before the next round; None: a round is under way."""
        self._pause_ms = session.limits.forwarded_pause_ms
        """The length of the next pause."""

    def begin(self, topics: Topics, places: Places) -> None:
        """Begins the wait, and the first round."""
        session = self.session
        here = tuple(
            {
                one.partition: None
                for _, _, wanted in topics
                for one in wanted or ()
                if one.partition is not None and one.is_readable
            }
        )
        self.entries = sum(count for _, count, _ in topics)
        if not session.may_wait(here, self.entries):
            if self._redirects:
                for wanted in places.values():
                    for _, one in wanted:
                        one.found = ConsumeFlag.NO_LEADER
            hide_unknown_ends(topics, redirects=self._redirects)
            answer(session, self.request.request_id, topics, woken=False)
            return
        session.asked_bytes += session.limits.forwarded_fetch_cost_bytes
        # Leaders that answer at the last moment are still heard.
        wait_ms = self._until_ms - session.broker.tick.monotonic_ms + session.limits.forwarded_answer_ms
        session.begin_wait(self, here, wait_ms)
        self._round(topics, places)

    def _round(self, topics: Topics, places: Places) -> None:
        session = self.session
        limits = session.limits
        forwarding = session.broker.forwarding
        now_ms = session.broker.tick.monotonic_ms
        self._topics = topics
        self._pause = None
        self._missing = 1
        wait_ms = 0
        if len(places) == 1 and _may_wait(topics):
            wait_ms = min(max(self._until_ms - now_ms, 0), limits.forwarded_wait_ms)
        deadline_ms = now_ms + wait_ms + limits.forwarded_answer_ms
        for leader, wanted in places.items():
            asked = ForwardedFetch(self, wanted, wait_ms, deadline_ms)
            self._missing += 1
            if not forwarding.send(leader, asked, session):
                asked.failed(sent=False)
        self.one_less()

    # --- answers of leaders ----------------------------------------------------------------------

    def found(self, one: RemoteTarget, told: FetchedPartition, chunk: bytes) -> None:
        """Takes a leader's answer for one partition."""
        flag, number, mark = told.flag, one.number, told.high_water_mark
        if flag == ConsumeFlag.DATA and not chunk:
            one.is_shown, one.first_available, one.mark = True, told.base_sequence_number, mark
        elif flag == ConsumeFlag.DATA:
            one.found = RemoteResult(data_entry(number, told.base_sequence_number, mark, len(chunk)), chunk)
        elif flag == ConsumeFlag.SPARSE:
            one.found = RemoteResult(sparse_entry(number, mark, len(chunk)), chunk)
        elif flag == ConsumeFlag.RECORD_BATCHES:
            entry = records_entry(number, mark, len(chunk), told.first_available)
            one.found = RemoteResult(entry, chunk)
        elif flag == ConsumeFlag.OUT_OF_BOUNDS:
            entry = bounds_entry(number, 0, mark, 0, told.first_available)
            one.found = RemoteResult(entry, error="out_of_bounds")
        elif flag == ConsumeFlag.NOT_OPENED and self._redirects:
            one.found = ConsumeFlag.NOT_OPENED
        else:
            self.found_nothing(one)

    def found_nothing(self, one: RemoteTarget) -> None:
        """Notes that the leader couldn't be asked, or doesn't know the partition, not yet or not any more."""
        if self._redirects:
            one.found = ConsumeFlag.NO_LEADER

    def one_less(self) -> None:
        """Counts a leader that has answered, or failed to. After the last one, answers the client or plans
        the next round."""
        self._missing -= 1
        if self._missing or self.done:
            return
        now_ms = self.session.broker.tick.monotonic_ms
        if self._look() or now_ms >= self._until_ms:
            self._finish()
            return
        pause_ms = 0
        if not self._pin():
            pause_ms = self._pause_ms
            self._pause_ms = min(2 * pause_ms, self.session.limits.forwarded_pause_most_ms)
        self._pause = pause = Pause(self)
        self.session.broker.deadlines.wait(pause, (), min(pause_ms, self._until_ms - now_ms))

    def _look(self) -> bool:
        """Reads the partitions that are here. Returns whether any partition has data or an error to
        answer."""
        left = self.session.answer_bytes
        for _, _, wanted in self._topics:
            for one in wanted or ():
                if isinstance(one.found, RemoteResult):
                    left -= len(one.found.chunk)
        return look(self._topics, left, redirects=self._redirects)

    def _pin(self) -> bool:
        """Replaces "the end" in the request by the end's number, where that is known. Returns whether it did
        so for a partition of another broker."""
        pinned = False
        for asked, (_, _, wanted) in zip(self.request.topics, self._topics, strict=True):
            for entry, one in zip(asked.partitions, wanted or (), strict=False):
                if entry.sequence_number != END:
                    continue
                if isinstance(one, RemoteTarget):
                    if not one.is_shown:
                        continue
                    # A log that never held a message may begin anywhere.
                    entry.sequence_number = one.mark + 1 if one.mark else FIRST_AVAILABLE
                    pinned = True
                elif one.partition is not None and one.is_readable:
                    entry.sequence_number = one.partition.next_number(END)
        return pinned

    # --- events between the rounds ---------------------------------------------------------------

    def go_on(self, pause: Pause) -> None:
        """Begins the next round after its pause, with the leaders that the view has now."""
        if self.done or self._pause is not pause:
            return
        for name, _, wanted in self._topics:
            for one in wanted or ():
                if isinstance(one, RemoteTarget) and one.is_shown:
                    self._shown[name, one.number] = one
        topics = resolve(self.session, self.request)
        self._round(topics, _places(self.session, self.request, topics))

    def _interrupt(self) -> None:
        """Ends a pause early, because a partition that is here has changed."""
        if (pause := self._pause) is not None:
            self._pause_ms = self.session.limits.forwarded_pause_ms
            self.session.broker.deadlines.forget(pause)
            self.go_on(pause)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        self._interrupt()

    def end_known(self, partition: Partition) -> None:
        self._interrupt()

    def lost(self, partition: Partition) -> None:
        self._interrupt()

    def expired(self) -> None:
        self._end_pause()  # damage that `_look` finds shall begin no other round
        self._look()
        self._finish()

    def _end_pause(self) -> None:
        if self._pause is not None:
            self.session.broker.deadlines.forget(self._pause)
            self._pause = None

    def _finish(self) -> None:
        session = self.session
        self._end_pause()
        for name, _, wanted in self._topics:
            for i, one in enumerate(wanted or ()):
                if isinstance(one, RemoteTarget) and one.found is Reach.WAIT and not one.is_shown:
                    self.found_nothing(one)
                shown = self._shown.get((name, one.number))
                if shown is not None and one.found is Reach.WAIT and _shows_nothing(one):
                    assert wanted is not None
                    wanted[i] = shown
        hide_unknown_ends(self._topics, redirects=self._redirects)
        session.end_wait(self)
        session.asked_bytes -= session.limits.forwarded_fetch_cost_bytes
        took_us = session.broker.tick.monotonic_us - self._began_us
        metrics = session.metrics
        latency = metrics.wait_latency if self._waits else metrics.consume_latency
        latency.add(took_us / 1_000_000)
        answer(session, self.request.request_id, self._topics, woken=self._waits)
