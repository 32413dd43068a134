"""The asynchronous producer."""

import asyncio
from collections.abc import Sequence

from tank_client.model import Stored


class Producer:
    """Sends messages in bundles. Made by `client.producer()`; an async context manager that flushes at its end."""

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[Stored]":
        """Waits for room only. The future is the bundle's, shared by its messages."""
        raise NotImplementedError

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | int | None = None,
    ) -> "list[asyncio.Future[Stored]]":
        """Many at once: much cheaper per message."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Waits until everything sent so far is acknowledged; raises the first failure since the last flush."""
        raise NotImplementedError

    async def close(self) -> None:
        """flush, then no more."""
        raise NotImplementedError
