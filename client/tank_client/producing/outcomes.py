"""What became of a producer's bundles, told to those who wait for it: futures, flushes, and who needs room.

Every method is called with the lanes' lock held, but for `raise_first`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from tank_client import errors
from tank_client.model import Stored
from tank_client.producing.accumulator import Lanes
from tank_client.producing.partition_queue import Delivery, PendingBundle
from tank_client.producing.verdict import fallen

REMEMBERED_FAILURES: Final = 64
"""Enough to find one that the program has not looked at, and bounded for a program that never flushes."""


class Outcomes:
    """Settles bundles and takes them out of the lanes. `on_room` is called whenever memory became free."""

    def __init__(self, lanes: Lanes, on_room: Callable[[], None]) -> None:
        self._lanes = lanes
        self._on_room = on_room
        # Flushes by the order up to which they wait, rising.
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._failed: deque[tuple[Delivery, errors.TankError]] = deque(maxlen=REMEMBERED_FAILURES)
        """Since the last flush, without those that the program had looked at when another one came."""

    def finished(self) -> asyncio.Future[None] | None:
        """Done when every bundle that is there now has its outcome; None: all have."""
        if not self._lanes.unfinished:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._lanes.next_order, future))
        return future

    def raise_first(self) -> None:
        """Raises the first failure since the last time whose delivery the program has not looked at: one that
        it awaited is its own to handle."""
        failed = [error for delivery, error in self._failed if not delivery.seen]
        self._failed.clear()
        if failed:
            raise failed[0]

    def give_up(
        self, given_up: list[PendingBundle], cause: PendingBundle | None, error: errors.TankError | None
    ) -> None:
        """These fail: `cause` with the error, the others because of it."""
        for bundle in given_up:
            self.finish(bundle, None, error if bundle is cause else fallen(bundle))

    def finish(self, bundle: PendingBundle, stored: Stored | None, error: errors.TankError | None) -> None:
        """The bundle is stored, or failed with this error."""
        self._lanes.release(bundle)
        bundle.batch = None
        if not bundle.delivery.done():
            if stored is not None:
                bundle.delivery.set_result(stored)
            else:
                assert error is not None
                bundle.delivery.set_exception(error)
                self._remember(bundle.delivery, error)
        oldest = next(iter(self._lanes.unfinished), None)
        while self._flushes and (oldest is None or oldest >= self._flushes[0][0]):
            _, future = self._flushes.pop(0)
            if not future.done():
                future.set_result(None)
        self._on_room()

    def _remember(self, delivery: Delivery, error: errors.TankError) -> None:
        if len(self._failed) == REMEMBERED_FAILURES:
            unseen = [entry for entry in self._failed if not entry[0].seen]
            self._failed = deque(unseen, maxlen=REMEMBERED_FAILURES)
        if len(self._failed) < REMEMBERED_FAILURES:  # the first ones count
            self._failed.append((delivery, error))
