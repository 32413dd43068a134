"""The asynchronous consumer."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tank_client.batch import MessageBatch
    from tank_protos.bundle import Message


class Consumer:
    """Reads partitions in order. `async for batch in consumer`, or `async for message in consumer.messages()`."""

    def __aiter__(self) -> "AsyncIterator[MessageBatch]":
        raise NotImplementedError

    async def __anext__(self) -> "MessageBatch":
        raise NotImplementedError

    async def poll(self, max_wait_ms: int = 0) -> "MessageBatch | None":
        """The next batch, or None when there is none within max_wait_ms."""
        raise NotImplementedError

    def messages(self) -> "AsyncIterator[Message]":
        raise NotImplementedError

    def position(self, topic: str, partition: int) -> int:
        """The next number that will be handed out."""
        raise NotImplementedError

    def positions(self) -> dict[tuple[str, int], int]:
        raise NotImplementedError

    async def seek(self, topic: str, partition: int, number: int) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        """Keeps the positions of everything handed out so far, for the group."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
