"""What became of a producer's bundles, told to those who wait for it: futures, flushes, and who needs room.

Every method is called with the lanes' lock held, but for `raise_first`.
"""

import asyncio
from collections.abc import Callable

from tank_client import errors
from tank_client.lane import PendingBundle
from tank_client.lanes import Lanes
from tank_client.model import Stored
from tank_client.verdict import fallen


class Outcomes:
    """Settles bundles and takes them out of the lanes. `on_room` is called whenever memory became free."""

    def __init__(self, lanes: Lanes, on_room: Callable[[], None]) -> None:
        self._lanes = lanes
        self._on_room = on_room
        # Flushes by the order up to which they wait, rising.
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._first_error: errors.TankError | None = None

    def finished(self) -> asyncio.Future[None] | None:
        """Done when every bundle that is there now has its outcome; None: all have."""
        if not self._lanes.unfinished:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._lanes.next_order, future))
        return future

    def raise_first(self) -> None:
        """Raises the first failure since the last time."""
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

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
                bundle.delivery.exception()  # nobody has to look at it: flush and close raise it too
        if error is not None and self._first_error is None:
            self._first_error = error
        oldest = next(iter(self._lanes.unfinished), None)
        while self._flushes and (oldest is None or oldest >= self._flushes[0][0]):
            _, future = self._flushes.pop(0)
            if not future.done():
                future.set_result(None)
        self._on_room()
