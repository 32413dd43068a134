"""The topics of a long answer to Metadata, encoded slice by slice.

The objects of 100,000 partitions take 70 MB, and half a second to make and encode.
"""

from typing import Final

from tank_node.kafka.list_slices import ListSlices
from tank_protos.generated.kafka import MetadataResponse, MetadataResponseTopicCollection

_FLEXIBLE_SINCE: Final = 9


class TopicSlices:
    """Takes the topics, and gives the body of the answer."""

    __slots__ = ("_slices",)

    def __init__(self, version: int) -> None:
        """version: of the answer."""
        is_flexible, behind = version >= _FLEXIBLE_SINCE, _bytes_behind_topics(version)
        self._slices = ListSlices(version, MetadataResponse(), behind, is_flexible=is_flexible)

    @property
    def count(self) -> int:
        """The topics so far."""
        return self._slices.count

    def add(self, topics: MetadataResponseTopicCollection) -> None:
        """Adds topics behind the others."""
        self._slices.add(MetadataResponse(topics=topics), len(topics))

    def body(self, response: MetadataResponse) -> list[bytes]:
        """Returns the body of the answer in pieces. response: the answer without topics."""
        return self._slices.body(response)


def _bytes_behind_topics(version: int) -> int:
    """The length of the fields behind the topics: what the client may do with the cluster, an error code, and
    no tags."""
    operations = 4 if 8 <= version <= 10 else 0
    error_code = 2 if version >= 13 else 0
    tags = 1 if version >= _FLEXIBLE_SINCE else 0
    return operations + error_code + tags
