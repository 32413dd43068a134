"""What a failure means for a bundle: whether it may be stored, and whether it is sent again; pure."""

from typing import NamedTuple

from tank_client import errors
from tank_client.producing.partition_queue import Lane, PendingBundle

MAYBE_DONE = (
    errors.ConnectionLost,
    errors.ProtocolViolation,
    errors.NotAcknowledgedInTime,
    errors.StorageFailure,
)
"""After these the request may have been carried out, wholly or in part."""


class Verdict(NamedTuple):
    """`retry`: send it again; else it fails with `error`."""

    retry: bool
    error: errors.TankError


def judge(lane: Lane, bundle: PendingBundle, error: errors.TankError, *, at_least_once: bool) -> Verdict:
    """Judges a bundle in flight that was not acknowledged, and notes in it whether it may be stored."""
    if isinstance(error, MAYBE_DONE):
        bundle.maybe_stored = True
        if lane.idempotent or at_least_once:
            return Verdict(True, error)
        if isinstance(error, errors.ConnectionLost | errors.ProtocolViolation):
            error = errors.OutcomeUnknown(
                f"a bundle for {lane.topic}/{lane.partition} was sent and not answered; "
                f"it may be stored ({error})"
            )
        return Verdict(False, error)
    if isinstance(error, errors.UnknownProducer):
        # Either the broker has stored nothing of this producer yet, because the bundles before this one did
        # not pass: then it goes again behind them. Or it has forgotten it, and cannot tell whether it has
        # the bundle: then only one that surely was not stored goes on.
        if not lane.gap_can_close(bundle):
            lane.forget_identity()
        return Verdict(True, error)
    if isinstance(error, errors.OutOfOrderSequence):
        # Were it stored, the broker would know it as a repeat.
        bundle.maybe_stored = False
        if lane.gap_can_close(bundle):
            return Verdict(True, error)
        lane.forget_identity()
        return Verdict(False, error)
    if not error.retriable:
        bundle.maybe_stored = False
    return Verdict(error.retriable, error)


def timed_out(bundle: PendingBundle, timeout_ms: int) -> errors.TankError:
    """A bundle's delivery timeout is over."""
    reason = str(bundle.last_error) if bundle.last_error else "it was never sent"
    return errors.DeliveryTimedOut(
        bundle.topic, bundle.partition, timeout_ms, maybe_stored=bundle.maybe_stored, reason=reason
    )


def fallen(bundle: PendingBundle) -> errors.TankError:
    """A bundle is given up because of another one, see `partition_queue`."""
    return errors.OutcomeUnknown(
        f"a bundle for {bundle.topic}/{bundle.partition} may be stored, and was not sent again: "
        f"the broker can no longer tell a repeat ({bundle.last_error})"
    )
