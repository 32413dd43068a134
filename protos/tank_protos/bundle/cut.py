"""Computes how many messages fill a bundle, for producers."""

from __future__ import annotations

from collections.abc import Sequence

from tank_protos.kernel import twin

_BLOCK = 128


@twin("bundle_cut")
def fill(
    values: Sequence[bytes], keys: Sequence[bytes | None] | None, start: int, most: int, room: int
) -> tuple[int, int]:
    """Returns how many messages from `start` on fit into `room` bytes: (index behind the last, bytes of all
    of them).

    At least one message is taken, at most `most`; the last may exceed the room. Bytes are those of values and
    keys. `start` is the index of a message, `most` above 0.
    """
    size, end = 0, min(start + most, len(values))
    while start < end:
        stop = min(start + _BLOCK, end)
        block = _size(values, keys, start, stop)
        if size + block >= room:
            break
        start, size = stop, size + block
    # The first block that does not fit is counted message by message.
    for at in range(start, end):
        size += _size(values, keys, at, at + 1)
        start = at + 1
        if size >= room:
            break
    return start, size


def _size(values: Sequence[bytes], keys: Sequence[bytes | None] | None, start: int, stop: int) -> int:
    size = sum(map(len, values[start:stop]))
    return size if keys is None else size + sum(map(len, filter(None, keys[start:stop])))
