"""What codecs read from and write: bytes, in whatever holds them."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that somebody else may own. Decoded messages hold slices of the payload that they came from."""
