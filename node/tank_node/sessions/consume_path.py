"""The short way of the commonest fetch: the partition that the connection asked for the last time, from where
a read has ended."""

from struct import Struct
from typing import TYPE_CHECKING

from tank_node.log.errors import StorageError
from tank_node.metrics import OK
from tank_node.partition import Partition
from tank_protos.error_codes import ConsumeFlag

if TYPE_CHECKING:
    from tank_node.sessions.tank import TankSession

MESSAGE_ID = 2
_START_BYTES = 7
"""Frame header and client version: as long as the request is as long, they stay the same."""
_PREFIX_AT = 11
"""Behind the request id: what stays the same up to the number asked for."""
_WANTED_BYTES = 12
"""The number and the fetch size, at the end."""
_COUNTED = (MESSAGE_ID, OK)


class ConsumePath:
    """What the last consume of a connection looked like, with one topic and one partition.

    The next one will likely have the same bytes but for its request id, the number and the fetch size. What
    does not match goes through the generated decoder, which knows everything and is slower.
    """

    __slots__ = (
        "answer",
        "frame_bytes",
        "header",
        "name",
        "number",
        "partition",
        "prefix",
        "start",
        "wanted",
    )

    def __init__(self) -> None:
        self.partition: Partition | None = None
        """None: nothing was learned. Once it is removed it is unreadable, so an old one does no harm."""
        self.frame_bytes = 0
        self.start = b""
        self.prefix = b""
        self.name = b""
        """Of the topic, as it stands in requests and answers, and the count of partitions."""
        self.number = 0
        self.wanted = Struct("")
        """Reads request id, sequence number and fetch size."""
        self.answer = Struct("")
        """Writes an answer with data, up to the chunk."""
        self.header = 0
        """The length of the answer's header, as it stands there."""

    def learn(self, payload: memoryview, client_version: int, partition: Partition) -> None:
        """Remembers a request that names this partition alone. Its payload is whole and was decoded."""
        name = partition.topic_name.encode("utf-8", "surrogateescape")
        self.partition = partition
        self.number = partition.number
        self.frame_bytes = 5 + len(payload)
        self.start = Struct("<BIH").pack(MESSAGE_ID, len(payload), client_version)
        self.prefix = bytes(payload[_PREFIX_AT - 5 : len(payload) - _WANTED_BYTES])
        self.wanted = Struct(f"<{_START_BYTES}xI{len(self.prefix)}xQI")
        self.name = bytes((len(name),)) + name + b"\x01"
        self.answer = Struct(f"<BIIIB{len(self.name)}sHBQQI")
        self.header = self.answer.size - 9  # behind frame header and its own length


def fetch_again(session: "TankSession", buffer: bytearray, at: int, end: int) -> int:
    """Answers the consume that begins at `at` if it is like the last one and finds data where a read has
    ended; returns where its frame ends.

    -1: nothing was done, take the long way.
    """
    path = session.fetches
    partition = path.partition
    stop = at + path.frame_bytes
    if (
        partition is None
        or partition.unreadable
        or stop > end
        or not buffer.startswith(path.start, at)
        or not buffer.startswith(path.prefix, at + _PREFIX_AT)
    ):
        return -1
    request_id, number, fetch_bytes = path.wanted.unpack_from(buffer, at)
    log = partition.log
    mark = partition.high_water_mark
    if number > mark or number not in log.cursors:  # whose numbers are all available
        return -1
    most = session.limits.fetch_bytes
    try:
        stretch = log.read(number, fetch_bytes if fetch_bytes < most else most, mark)
    except StorageError:
        return -1  # the long way meets it again, and tells of it
    if stretch is None:
        return -1
    _, _, length, first, _, sparse_first = stretch
    if sparse_first:
        stretch.file.release()
        return -1
    header = path.header
    answer = path.answer.pack(
        MESSAGE_ID, 4 + header + length, header, request_id,
        1, path.name, path.number, _DATA, first, mark, length,
    )  # fmt: skip
    out = session.out
    if not out:
        session.ready()
    out.append(answer)
    out.append(stretch)
    session.out_bytes += len(answer)
    session.has_chunks = True
    metrics = session.metrics
    metrics.consumed_now += 1
    metrics.consumed_bytes += length
    metrics.requests[_COUNTED] += 1
    return stop


_DATA = ConsumeFlag.DATA.value
