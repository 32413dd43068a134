"""What is looked at, and said, around an operator's change: by the HTTP API and by `tank cluster`. Pure.

The state machine judges commands by what must hold; here is what an operator should be kept from besides, and
its short answers in words.
"""

from tank_controller.leader.report import Row
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class RefusedError(Exception):
    """Why something isn't done, in one sentence."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def error_code(number: int) -> ErrorCode:
    """As a message has it; of a newer controller's, which this version doesn't know: INVALID_REQUEST."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.INVALID_REQUEST


def load_of(found: pb.OverviewAnswer, broker_id: int) -> pb.BrokerLoad:
    """The broker and what it holds. RefusedError when there is none."""
    for load in found.brokers:
        if load.broker.broker_id == broker_id:
            return load
    known = ", ".join(str(load.broker.broker_id) for load in found.brokers) or "none"
    raise RefusedError(ErrorCode.UNKNOWN_BROKER, f"There is no broker {broker_id}, but {known}.")


def drain_problem(found: pb.OverviewAnswer, broker_id: int) -> str:
    """Why the broker can't be drained: fewer others live than a topic has replicas. Empty: it can.
    RefusedError when there is no such broker."""
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
        f"There are topics of {found.widest} replicas, and only {_count(len(takers), 'broker')} that live "
        f"and stay without broker {broker_id}{full}: start another one first."
    )


def draining(broker_id: int, *, on: bool) -> pb.SetBroker:
    """What drains a broker, or lets it hold and lead partitions again; also one that had no room: where it
    still has none, it says so again at once."""
    change = pb.SetBroker(broker_id=broker_id, draining=on)
    if not on:
        change.no_room = False
    return change


def check_remove(load: pb.BrokerLoad) -> None:
    """RefusedError while the broker holds something, or runs."""
    broker_id = load.broker.broker_id
    if load.replicas:
        held = _count(load.replicas, "replica")
        raise RefusedError(ErrorCode.IN_USE, f"Broker {broker_id} holds {held}: drain it first.")
    if not load.broker.fenced_index:
        message = f"Broker {broker_id} is running: stop it, and wait until it is shown as fenced."
        raise RefusedError(ErrorCode.IN_USE, message)


def cancel_problem(row: Row) -> str:
    """Why there is no move to end. Empty: there is one."""
    if pb.MOVING in row.troubles:
        return ""
    return f"{row.place} is not being moved: it is at {','.join(map(str, row.partition.replicas))}."


def check_partition(outcome: pb.ProposalOutcome, row: Row, *, unclean: bool = False) -> None:
    """RefusedError when a command about this one partition was refused. `unclean`: that was its election."""
    error = outcome.results[0] if outcome.results else ErrorCode.NONE
    if error == ErrorCode.NONE:
        return
    known, place = error_code(error), row.place
    if error == ErrorCode.NOT_ELECTABLE and unclean:
        brokers = ",".join(map(str, row.partition.replicas))
        raise RefusedError(known, f"{place}: none of its brokers lives ({brokers}): start one of them.")
    if error == ErrorCode.NOT_ELECTABLE:
        message = f"Nobody can lead {place}: the leaderless partitions are listed with whom they wait for."
        raise RefusedError(known, message)
    if error == ErrorCode.IN_USE:
        raise RefusedError(known, f"{place} is being moved already: wait, or cancel that first.")
    if error == ErrorCode.NOT_ENOUGH_REPLICAS:
        message = "too few of the old replicas are in sync to do without the added ones: let it go on"
        raise RefusedError(known, f"{place}: {message}.")
    raise RefusedError(
        known, f"{place}: {_REASONS.get(error, f'the controller refuses it (error {error})')}."
    )


_REASONS: dict[int, str] = {
    ErrorCode.UNKNOWN_PARTITION: "there is no such partition any more",
    ErrorCode.UNKNOWN_TOPIC: "there is no such topic any more",
    ErrorCode.INVALID_REPLICATION_FACTOR: "name as many brokers as the topic has replicas, each once",
    ErrorCode.OVERLOADED: "a broker among them holds as much as one may",
    ErrorCode.UNKNOWN_BROKER: "there is no such broker among them",
    ErrorCode.INELIGIBLE_REPLICA: "a broker among them is being drained, or has no room",
}


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
