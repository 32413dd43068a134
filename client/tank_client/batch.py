"""A batch of messages of one partition, as columns."""

from collections.abc import Iterator

from tank_protos.bundle import Message


class MessageBatch:
    """Messages of one partition, in order; decoded on first use of a column.

    topic, partition, first (number of its first message), last, len(batch), size_bytes, high_water_mark."""

    topic: str
    partition: int
    first: int
    last: int
    high_water_mark: int

    @property
    def values(self) -> list[bytes]:
        raise NotImplementedError

    @property
    def keys(self) -> list[bytes | None]:
        raise NotImplementedError

    @property
    def numbers(self) -> list[int]:
        raise NotImplementedError

    @property
    def timestamps_ms(self) -> list[int]:
        raise NotImplementedError

    def messages(self) -> Iterator[Message]:
        raise NotImplementedError
