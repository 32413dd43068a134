"""The list of a long answer, encoded slice by slice, because a whole one would hold up the event loop.

The generated encoder takes a whole message: each slice is a message of its own here, from which the bytes of
its elements are cut.
"""

from struct import Struct
from typing import Final

from tank_protos.wire.message import Message
from tank_protos.wire.varint import encode as encode_varint

_count: Final = Struct(">i").pack


class ListSlices:
    """Takes the slices of one list, and gives the body of the answer. What stands before the list may have
    another length there than in the slices."""

    __slots__ = ("_before", "_behind", "_is_flexible", "_pieces", "_version", "count")

    def __init__(self, version: int, empty: Message, behind: int, *, is_flexible: bool) -> None:
        """version: of the answer. empty: an answer without elements, as slices have it around theirs. behind:
        the length of the fields behind the list. is_flexible: whether the version is a flexible one."""
        self._version = version
        self._behind = behind
        self._is_flexible = is_flexible
        self._pieces: list[bytes] = []
        self.count = 0
        """The elements so far."""
        whole = b"".join(empty.encode(version))
        self._before = len(whole) - behind - len(self._encoded(0))
        """The bytes before the number of elements, in a slice."""

    def add(self, portion: Message, count: int) -> None:
        """Adds elements behind the others. portion: as `empty`, with these elements."""
        whole = b"".join(portion.encode(self._version))
        self._pieces.append(whole[self._before + len(self._encoded(count)) : len(whole) - self._behind])
        self.count += count

    def body(self, answer: Message) -> list[bytes]:
        """Returns the body of the answer in pieces. answer: without elements."""
        around = b"".join(answer.encode(self._version))
        end = len(around) - self._behind
        head = around[: end - len(self._encoded(0))]
        return [head + self._encoded(self.count), *self._pieces, around[end:]]

    def _encoded(self, count: int) -> bytes:
        """The number of elements, as it stands before them."""
        return bytes(encode_varint(count + 1)) if self._is_flexible else _count(count)
