"""The short way of the commonest fetch: a partition that the connection has asked for before, in the same
words, from where a read has ended."""

import contextlib
from typing import TYPE_CHECKING, Final

from tank_node.log.errors import StorageError
from tank_node.log.segment import Stretch
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import LateAnswer, Waiter
from tank_node.tank.fetch import FetchWait, Wanted
from tank_node.tank.fetch_templates import MESSAGE_ID, ConsumePath
from tank_node.tank.redirect import KNOWS_LEADERS
from tank_protos.error_codes import ConsumeFlag

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

_COUNTED: Final = (MESSAGE_ID, OK)
_DATA: Final = ConsumeFlag.DATA.value


def answer_with(
    session: "TankSession", path: ConsumePath, request_id: int, stretch: Stretch, mark: int
) -> None:
    """Queues a header and its chunk."""
    length = stretch.length
    header = path.header_bytes
    answer = path.answer(
        MESSAGE_ID, 4 + header + length, header, request_id,
        1, path.name, path.partition.number, _DATA, stretch.first, mark, length,
    )  # fmt: skip
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
    """Takes the consume that begins at `at`, which has the prefix of `path`, if all of it is like that one
    and it begins where a read has ended: answers it, or lets it wait. Returns where its frame ends.

    -1: nothing was done, take the long way.
    """
    partition = path.partition
    stop = at + path.frame_bytes
    if partition.unreadable or stop > end or not buffer.startswith(path.start, at):
        return -1
    request_id, number, fetch_bytes = path.wanted(buffer, at)
    log = partition.log
    if number not in log.cursors:  # whose numbers are all available, or come next
        return -1
    most = session.fetch_bytes
    if fetch_bytes > most:
        fetch_bytes = most
    mark = partition.high_water_mark
    if number > mark:
        if not path.wait_ms or number > log.last + 1 or not session.may_wait((partition,), 1):
            return -1
        wait_ms = min(path.wait_ms, session.limits.max_wait_ms)
        session.begin_wait(NextWait(session, path, request_id, number, fetch_bytes), (partition,), wait_ms)
        return stop
    try:
        stretch = log.read(number, fetch_bytes, mark)
    except StorageError:
        return -1  # the long way meets it again, and tells of it
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
    """A fetch up to the end, where its tick may append: it gets that too. Else whoever follows a busy
    partition gets each batch a round trip late, for his next fetch comes with the next batch.

    What was there when it came is pinned, and is the answer if there is no more.
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
        stretch: Stretch,
    ) -> None:
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
            with contextlib.suppress(StorageError):  # what was there is still the answer
                more = partition.log.read(self.number, self.fetch_bytes, partition.high_water_mark)
                if more is not None:
                    stretch.file.release()
                    stretch, self.mark = more, partition.high_water_mark
        answer_with(session, self.path, self.request_id, stretch, self.mark)


class NextWait(FetchWait):
    """The same wait, for one partition and from where a read has ended. What is no plain data is answered in
    the long way."""

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
        self.looking = False
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

    def settled(self, partition: Partition) -> None:
        """It waits for the next number, which is never beyond the end."""

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
        wanted = Wanted(path.partition.number, path.partition, self.number, self.fetch_bytes)
        self.topics = [(path.topic_name, 1, [wanted])]
