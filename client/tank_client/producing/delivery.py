"""The outcome of a bundle: whether a failure is final, and the deliveries and flushes that wait for the
bundle.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from tank_client import errors
from tank_client.model import Stored
from tank_client.producing.accumulator import Accumulator
from tank_client.producing.partition_queue import Delivery, PartitionQueue, PendingBundle

REMEMBERED_FAILURES: Final = 64
"""How many failures are remembered for the next flush; bounded for a program that never flushes."""


class RetryDecision(NamedTuple):
    """`retry`: the bundle is sent again; otherwise it fails with `error`."""

    retry: bool
    error: errors.TankError


def judge(
    queue: PartitionQueue, bundle: PendingBundle, error: errors.TankError, *, at_least_once: bool
) -> RetryDecision:
    """Decides whether a bundle in flight that failed is sent again, and notes in the bundle whether it may be
    stored.
    """
    if isinstance(error, errors.MAYBE_CARRIED_OUT):
        bundle.maybe_stored = True
        if queue.idempotent or at_least_once:
            return RetryDecision(True, error)
        if isinstance(error, errors.ConnectionLost | errors.ProtocolViolation):
            error = errors.OutcomeUnknown(
                f"a bundle for {queue.topic}/{queue.partition} was sent and not answered; "
                f"it may be stored ({error})"
            )
        return RetryDecision(False, error)
    if isinstance(error, errors.UnknownProducer):
        # Either the broker has stored nothing of this producer yet, because the bundles before this one
        # failed: then this bundle is sent again behind them. Or the broker has forgotten the producer, and
        # could not recognize a repeat: then only a bundle that surely was not stored is sent again.
        if not queue.gap_can_close(bundle):
            queue.forget_identity()
        return RetryDecision(True, error)
    if isinstance(error, errors.OutOfOrderSequence):
        # If the bundle were stored, the broker would recognize it as a repeat.
        bundle.maybe_stored = False
        if queue.gap_can_close(bundle):
            return RetryDecision(True, error)
        queue.forget_identity()
        return RetryDecision(False, error)
    if not error.retriable:
        bundle.maybe_stored = False
    return RetryDecision(error.retriable, error)


def timed_out(bundle: PendingBundle, timeout_ms: int) -> errors.TankError:
    """The error of a bundle whose delivery timeout is over."""
    reason = str(bundle.last_error) if bundle.last_error else "it was never sent"
    return errors.DeliveryTimedOut(
        bundle.topic, bundle.partition, timeout_ms, maybe_stored=bundle.maybe_stored, reason=reason
    )


def fallen(bundle: PendingBundle) -> errors.TankError:
    """The error of a bundle that is given up because of another one, see `partition_queue`."""
    return errors.OutcomeUnknown(
        f"a bundle for {bundle.topic}/{bundle.partition} may be stored, and was not sent again: "
        f"the broker can no longer recognize a repeat ({bundle.last_error})"
    )


class Deliveries:
    """Completes the deliveries of bundles and takes the bundles out of the accumulator. Each method but
    `raise_first` is called with the accumulator's lock held. `on_room` is called when memory became free."""

    def __init__(self, accumulator: Accumulator, on_room: Callable[[], None]) -> None:
        self._accumulator = accumulator
        self._on_room = on_room
        # Flushes by the order up to which they wait, rising.
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._failed: deque[tuple[Delivery, errors.TankError]] = deque(maxlen=REMEMBERED_FAILURES)
        """Failed deliveries since the last flush; those that the program has looked at are dropped when
        another one fails.
        """

    def finished(self) -> asyncio.Future[None] | None:
        """A future that is done when all present bundles have their outcome; None: all have it already."""
        if not self._accumulator.unfinished:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._accumulator.next_order, future))
        return future

    def raise_first(self) -> None:
        """Raises the first failure since the last call whose delivery the program has not looked at; the
        program handles those that it awaited.
        """
        failed = [error for delivery, error in self._failed if not delivery.seen]
        self._failed.clear()
        if failed:
            raise failed[0]

    def give_up(
        self, given_up: list[PendingBundle], cause: PendingBundle | None, error: errors.TankError | None
    ) -> None:
        """Fails these bundles: `cause` with the error, the others because of `cause`."""
        for bundle in given_up:
            self.finish(bundle, None, error if bundle is cause else fallen(bundle))

    def finish(self, bundle: PendingBundle, stored: Stored | None, error: errors.TankError | None) -> None:
        """Completes a bundle's delivery: it is stored, or failed with this error."""
        self._accumulator.release(bundle)
        bundle.batch = None
        if not bundle.delivery.done():
            if stored is not None:
                bundle.delivery.set_result(stored)
            else:
                assert error is not None
                bundle.delivery.set_exception(error)
                self._remember(bundle.delivery, error)
        oldest = next(iter(self._accumulator.unfinished), None)
        while self._flushes and (oldest is None or oldest >= self._flushes[0][0]):
            _, future = self._flushes.pop(0)
            if not future.done():
                future.set_result(None)
        self._on_room()

    def _remember(self, delivery: Delivery, error: errors.TankError) -> None:
        if len(self._failed) == REMEMBERED_FAILURES:
            unseen = [entry for entry in self._failed if not entry[0].seen]
            self._failed = deque(unseen, maxlen=REMEMBERED_FAILURES)
        if len(self._failed) < REMEMBERED_FAILURES:  # only the first failures are remembered
            self._failed.append((delivery, error))
