"""What a session hands to the server: bytes, and ranges of files that are sent without being read."""

from typing import TypeAlias

from tank_node.log.open_files import OpenFile
from tank_node.log.segment import Stretch


class Chunk:
    """A range of a segment's file that is to be sent. Whoever holds it last calls `file.release`."""

    __slots__ = ("file", "length", "position")

    def __init__(self, stretch: Stretch) -> None:
        self.file: OpenFile = stretch.file
        self.position = stretch.position
        self.length = stretch.length


Output: TypeAlias = bytes | Chunk
