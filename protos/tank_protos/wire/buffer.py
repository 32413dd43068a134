"""The type of the bytes that codecs read and write."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes, which may be a view of another object's memory: decoded messages hold slices of their payload."""
