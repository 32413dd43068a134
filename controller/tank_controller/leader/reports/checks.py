"""Checks before an operator's change, and short answers in words, for the HTTP API and `tank cluster`. Pure.

The state machine refuses commands that would break an invariant; these checks also refuse those that an
operator would regret.
"""

from tank_controller.leader.reports.report import Row
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class CheckRefusedError(Exception):
    """An operator's change that is refused, with the reason in one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def error_code(number: int) -> ErrorCode:
    """The error code of this number; INVALID_REQUEST for one that only a newer version knows."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.INVALID_REQUEST


def load_of(found: pb.OverviewAnswer, broker_id: int) -> pb.BrokerLoad:
    """The broker and its load. Raises CheckRefusedError where there is no such broker."""
    for load in found.brokers:
        if load.broker.broker_id == broker_id:
            return load
    known = ", ".join(str(load.broker.broker_id) for load in found.brokers) or "none"
    raise CheckRefusedError(ErrorCode.UNKNOWN_BROKER, f"There is no broker {broker_id}, but {known}.")


def drain_problem(found: pb.OverviewAnswer, broker_id: int) -> str:
    """Returns why the broker can't be drained: too few other brokers live for a topic's replicas. Empty: it
    can. Raises CheckRefusedError where there is no such broker.
    """
    load = load_of(found, broker_id)
    takers = [
        each.broker
        for each in found.brokers
        if not (each.broker.fenced_index or each.broker.draining or each.broker.broker_id == broker_id)
    ]
    with_room = sum(not each.no_room for each in takers)
    if not load.replicas or found.widest <= with_room:
        return ""
    full = f", of which {len(takers) - with_room} without room" if with_room < len(takers) else ""
    return (
        f"There are topics with {found.widest} replicas, and only {_count(len(takers), 'broker')} that live "
        f"and stay without broker {broker_id}{full}: start another one first."
    )


def draining(broker_id: int, *, on: bool) -> pb.SetBroker:
    """The command that begins or ends a drain. It also clears the mark of a broker that had no room; where
    the volume is still full, the broker reports it again at once.
    """
    change = pb.SetBroker(broker_id=broker_id, draining=on)
    if not on:
        change.no_room = False
    return change


def check_remove(load: pb.BrokerLoad) -> None:
    """Raises CheckRefusedError while the broker holds partitions, or runs."""
    broker_id = load.broker.broker_id
    if load.replicas:
        held = _count(load.replicas, "replica")
        raise CheckRefusedError(ErrorCode.IN_USE, f"Broker {broker_id} holds {held}: drain it first.")
    if not load.broker.fenced_index:
        message = f"Broker {broker_id} is running: stop it, and wait until it is shown as fenced."
        raise CheckRefusedError(ErrorCode.IN_USE, message)


def cancel_problem(row: Row) -> str:
    """The reason why no move can be ended; empty where one can."""
    if pb.MOVING in row.troubles:
        return ""
    return f"{row.place} is not being moved: it is at {','.join(map(str, row.partition.replicas))}."


def check_partition(outcome: pb.ProposalOutcome, row: Row, *, unclean: bool = False) -> None:
    """Raises CheckRefusedError when a command about this partition was refused. `unclean`: an election."""
    error = outcome.results[0] if outcome.results else ErrorCode.NONE
    if error == ErrorCode.NONE:
        return
    known, place = error_code(error), row.place
    if error == ErrorCode.NOT_ELECTABLE and unclean:
        brokers = ",".join(map(str, row.partition.replicas))
        raise CheckRefusedError(known, f"{place}: none of its brokers lives ({brokers}): start one of them.")
    if error == ErrorCode.NOT_ELECTABLE:
        message = f"No replica can lead {place}: the list of leaderless partitions says what each waits for."
        raise CheckRefusedError(known, message)
    if error == ErrorCode.IN_USE:
        raise CheckRefusedError(known, f"{place} is being moved already: wait, or cancel that first.")
    if error == ErrorCode.NOT_ENOUGH_REPLICAS:
        message = "too few of the old replicas are in sync without the added ones: let the move go on"
        raise CheckRefusedError(known, f"{place}: {message}.")
    raise CheckRefusedError(
        known, f"{place}: {_REASONS.get(error, f'the controller refuses it (error {error})')}."
    )


_REASONS: dict[int, str] = {
    ErrorCode.UNKNOWN_PARTITION: "there is no such partition any more",
    ErrorCode.UNKNOWN_TOPIC: "there is no such topic any more",
    ErrorCode.INVALID_REPLICATION_FACTOR: "name as many brokers as the topic has replicas, each once",
    ErrorCode.OVERLOADED: "one of these brokers holds as many replicas as a broker may",
    ErrorCode.UNKNOWN_BROKER: "one of these brokers doesn't exist",
    ErrorCode.INELIGIBLE_REPLICA: "one of these brokers is being drained, or has no room",
}


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
