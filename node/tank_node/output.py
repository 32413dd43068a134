"""What a session hands to the server: bytes, and ranges of files that are sent without being read."""

from typing import TypeAlias

from tank_node.log.segment import Stretch

Output: TypeAlias = bytes | Stretch
"""Whoever holds a stretch last calls `file.release`."""
