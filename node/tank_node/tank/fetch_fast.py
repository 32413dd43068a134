"""The fast path of the most common consume request: for a partition that the connection has consumed before,
with the same bytes but for the number, from where an earlier read ended."""

import contextlib
from typing import TYPE_CHECKING, Final

from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import LateAnswer, Waiter
from tank_node.segment.errors import StorageError
from tank_node.segment.segment import FileRange
from tank_node.tank.fetch import FetchTarget, FetchWait
from tank_node.tank.fetch_templates import MESSAGE_ID, ConsumePath
from tank_node.tank.redirect import KNOWS_LEADERS

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

_COUNTED: Final = (MESSAGE_ID, OK)


def answer_with(
    session: "TankSession", path: ConsumePath, request_id: int, stretch: FileRange, mark: int
) -> None:
    """Queues an answer: a header, and the chunk as a range of a file."""
    length = stretch.length
    answer = path.answer(request_id, stretch.first, mark, length, length)
    out = session.out
    if not out:
        session.ready()
    out.append(answer)
    out.append(stretch)
    session.out_bytes += len(answer)
    session.has_chunks = True
    metrics = session.metrics
    metrics.consumed_bytes += length
    metrics.requests[_COUNTED] += 1


def fetch_again(session: "TankSession", path: ConsumePath, buffer: bytearray, at: int, end: int) -> int:
    """Takes the consume request at `at`, which has the prefix of `path`, if all its bytes match and it
    continues where an earlier read ended: answers it, or lets it wait.

    Returns the end of its frame, or -1 when nothing was done: the caller decodes the request then.
    """
    partition = path.partition
    stop = at + path.frame_bytes
    if partition.unreadable or stop > end or not buffer.startswith(path.start, at):
        return -1
    request_id, number, fetch_bytes = path.wanted(buffer, at)
    log = partition.log
    if number not in log.cursors.places:  # the numbers in `places` are available, or the next one
        return -1
    most = session.fetch_bytes
    if fetch_bytes > most:
        fetch_bytes = most
    mark = partition.high_water_mark
    if number > mark:
        if not path.wait_ms or number > log.tail.last + 1 or not session.may_wait((partition,), 1):
            return -1
        wait_ms = min(path.wait_ms, session.limits.max_wait_ms)
        session.begin_wait(NextWait(session, path, request_id, number, fetch_bytes), (partition,), wait_ms)
        return stop
    try:
        stretch = log.read(number, fetch_bytes, mark)
    except StorageError:
        return -1  # the slow path meets the error again, and answers with it
    if stretch is None:
        return -1
    if stretch.sparse_first:
        stretch.file.release()
        return -1
    session.metrics.consumed_now += 1
    if stretch.last >= mark:
        late = LateFetch(session, path, request_id, number, fetch_bytes, mark, stretch)
        session.broker.tick.late.append(late)
    else:
        answer_with(session, path, request_id, stretch, mark)
    return stop


class LateFetch(LateAnswer):
    """A consume request that reads up to the end of a partition: it is answered after the tick's appends, and
    gets these too. Else a consumer of a busy partition would get each batch a round trip late.

    The batches that it found at first stay pinned, and are the answer when nothing was appended.
    """

    __slots__ = ("fetch_bytes", "mark", "number", "path", "request_id", "session", "stretch")

    def __init__(
        self,
        session: "TankSession",
        path: ConsumePath,
        request_id: int,
        number: int,
        fetch_bytes: int,
        mark: int,
        stretch: FileRange,
    ) -> None:
        super().__init__(session)
        self.session = session
        self.path = path
        self.request_id = request_id
        self.number = number
        self.fetch_bytes = fetch_bytes
        self.mark = mark
        self.stretch = stretch
        session.in_flight += 1

    def make(self) -> None:
        session, partition, stretch = self.session, self.path.partition, self.stretch
        session.in_flight -= 1
        if session.closed:
            stretch.file.release()
            return
        if partition.high_water_mark > self.mark and not partition.unreadable:
            with contextlib.suppress(StorageError):  # then the first batches are the answer
                more = partition.log.read(self.number, self.fetch_bytes, partition.high_water_mark)
                if more is not None:
                    stretch.file.release()
                    stretch, self.mark = more, partition.high_water_mark
        answer_with(session, self.path, self.request_id, stretch, self.mark)


class NextWait(FetchWait):
    """A FetchWait for one partition, at the number where an earlier read ended. Every answer but plain data
    is made by FetchWait."""

    __slots__ = ("fetch_bytes", "number", "path")

    def __init__(
        self, session: "TankSession", path: ConsumePath, request_id: int, number: int, fetch_bytes: int
    ) -> None:
        Waiter.__init__(self)
        self.session = session
        self.path = path
        self.request_id = request_id
        self.number = number
        self.fetch_bytes = fetch_bytes
        self.min_bytes = min(path.min_bytes, session.fetch_bytes)
        self.gathered = 0
        self.looking = self.was_lost = False
        self.began_us = session.broker.tick.monotonic_us
        self.entries = 1

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        mark = partition.high_water_mark
        if self.number > mark:
            return
        self.gathered += appended_bytes
        if self.gathered < self.min_bytes:
            return
        at_least = min(self.gathered, self.session.fetch_bytes)
        try:
            stretch = partition.log.read(self.number, max(self.fetch_bytes, at_least), mark)
        except StorageError:
            stretch = None
        if stretch is not None:
            self._end()
            answer_with(self.session, self.path, self.request_id, stretch, mark)
        else:
            self._spell_out()
            self._look(at_least)

    def end_known(self, partition: Partition) -> None:
        """Does nothing: this request waits for the next number, which is never beyond the end."""

    def lost(self, partition: Partition) -> None:
        if not (self.looking or self.done):
            self._spell_out()
        super().lost(partition)

    def expired(self) -> None:
        self._spell_out()
        super().expired()

    def _spell_out(self) -> None:
        path = self.path
        self.redirects = path.client_version >= KNOWS_LEADERS
        partition = path.partition
        wanted = FetchTarget(partition.number, partition, self.number, self.fetch_bytes, as_stored=False)
        self.topics = [(path.topic_name, 1, [wanted])]
