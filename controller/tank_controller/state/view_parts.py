"""Cuts deltas into messages of bounded size. Pure.

A delta may be megabytes, as when a broker with ten thousand leaderships is fenced. `view_image` does the same
for the whole state.
"""

from collections.abc import Iterator

from tank_protos.generated import control_pb2 as pb

PART_BYTES = 1024 * 1024
"""The size of one message; a single larger item, such as a topic of tens of thousands of partitions, goes
alone.
"""
WHOLE_PART_BYTES = 64 * 1024
"""The size of one message of a whole state: about 2,400 partitions. A broker handles one message in one turn
of its loop, during which clients and followers wait.
"""


def view_updates(delta: pb.Delta) -> list[pb.ViewUpdate]:
    """The messages that carry a delta, in order; all but the last say that more follow."""
    if delta.ByteSize() <= PART_BYTES:
        return [pb.ViewUpdate(delta=delta)]
    parts = list(_parts(delta))
    return [pb.ViewUpdate(delta=part, more=part is not parts[-1]) for part in parts]


def _parts(delta: pb.Delta) -> Iterator[pb.Delta]:
    part = pb.Delta(index=delta.index)
    size = 0
    for field, items in delta.ListFields():
        if field.name == "index":
            continue
        if isinstance(items, int):
            setattr(part, field.name, items)
            continue
        for item in items:
            item_size = 10 if isinstance(item, int) else item.ByteSize() + 6
            if size and size + item_size > PART_BYTES:
                yield part
                part, size = pb.Delta(index=delta.index), 0
            getattr(part, field.name).append(item)
            size += item_size
    yield part
