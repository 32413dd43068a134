"""What a session hands to the server: bytes, and ranges of files that are sent without being read."""

from typing import TypeAlias

from tank_node.log.open_files import OpenFile
from tank_node.log.segment import Stretch

Output: TypeAlias = bytes | Stretch
"""Whoever holds a stretch last calls `file.release`."""


class Chunk:
    """What is left of a stretch while it is being sent."""

    __slots__ = ("file", "length", "position")

    def __init__(self, stretch: Stretch) -> None:
        self.file: OpenFile = stretch.file
        self.position = stretch.position
        self.length = stretch.length

    def skip(self, count: int) -> None:
        """So many bytes went out."""
        self.position += count
        self.length -= count
