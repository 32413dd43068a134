"""The output of a session: bytes, and ranges of files, which are sent without being read into memory."""

from typing import TypeAlias

from tank_node.segment.segment import FileRange

Output: TypeAlias = bytes | FileRange
"""A file range is pinned: its last holder calls `file.release`."""
