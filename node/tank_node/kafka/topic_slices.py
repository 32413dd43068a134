"""The topics of a long answer to Metadata, encoded slice by slice.

The objects of 100,000 partitions take 70 MB, and half a second to make and encode. The generated encoder
takes a whole message: each slice is a message of its own here, from which the bytes of its topics are cut.
"""

from struct import Struct
from typing import Final

from tank_protos.generated.kafka import MetadataResponse, MetadataResponseTopicCollection
from tank_protos.wire.varint import encode as encode_varint

_FLEXIBLE_SINCE: Final = 9
_count: Final = Struct(">i").pack


class TopicSlices:
    """Takes the topics, and gives the body of the answer."""

    __slots__ = ("_before", "_behind", "_pieces", "_version", "count")

    def __init__(self, version: int) -> None:
        """version: of the answer."""
        self._version = version
        self._pieces: list[bytes] = []
        self.count = 0
        """The topics so far."""
        self._behind = _bytes_behind_topics(version)
        empty = b"".join(MetadataResponse().encode(version))
        self._before = len(empty) - self._behind - len(self._encoded(0))
        """The bytes before the number of topics, in an answer without brokers."""

    def add(self, topics: MetadataResponseTopicCollection) -> None:
        """Adds topics behind the others."""
        whole = b"".join(MetadataResponse(topics=topics).encode(self._version))
        self._pieces.append(whole[self._before + len(self._encoded(len(topics))) : len(whole) - self._behind])
        self.count += len(topics)

    def body(self, response: MetadataResponse) -> list[bytes]:
        """Returns the body of the answer in pieces. response: the answer without topics."""
        around = b"".join(response.encode(self._version))
        end = len(around) - self._behind
        head = around[: end - len(self._encoded(0))]
        return [head + self._encoded(self.count), *self._pieces, around[end:]]

    def _encoded(self, count: int) -> bytes:
        """The number of topics, as it stands before them."""
        return bytes(encode_varint(count + 1)) if self._version >= _FLEXIBLE_SINCE else _count(count)


def _bytes_behind_topics(version: int) -> int:
    """The length of the fields behind the topics: what the client may do with the cluster, an error code, and
    no tags."""
    operations = 4 if 8 <= version <= 10 else 0
    error_code = 2 if version >= 13 else 0
    tags = 1 if version >= _FLEXIBLE_SINCE else 0
    return operations + error_code + tags
