"""Books of messages, written by hand."""

from tank_node.segment.record import Record
from tank_protos import bundle
from tests.simulation.books.committed import Committed
from tests.simulation.books.stored_batches import Batch

KEY = (7, 0)


def committed(books: Committed, first: int, *values: bytes, epoch: int = 1, key: bytes | None = None) -> None:
    """The next batch is committed."""
    data = bundle.as_batch(bundle.encode(list(values), timestamps=1, keys=[key] * len(values)))
    record = Record._make([first, len(values) - 1, 0, len(data), *[0] * (len(Record._fields) - 4)])
    books.commit(Batch.of(record, data), epoch)
