"""Commands that register, fence, drain and remove brokers. Pure.

The registration of a new broker process fences it, until its view holds the registration's entry
(`UnfenceBroker`). The same command takes the broker out of every in-sync set, and marks those of its eligible
replicas that may have lost messages, so that no election can come between.
"""

from collections.abc import Callable

from tank_controller import limits
from tank_controller.commands import levels
from tank_controller.commands.elections import Elections
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.codec import broker_message
from tank_controller.state.keys import key_of
from tank_controller.state.model import BrokerState, TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def check_register_broker(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    register = command.register_broker
    if not 1 <= register.broker_id <= limits.MAX_BROKER_ID:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"a broker id is between 1 and {limits.MAX_BROKER_ID}")
    if len(register.incarnation) != 16:
        raise Rejected(ErrorCode.INVALID_REQUEST, "an incarnation has 16 bytes")
    levels.check_registration(state, register)
    if state.replicates and not register.replicates:
        message = (
            "the brokers of this cluster replicate, and this one was started to be alone (`tank serve`): "
            "start it as a `tank-node`"
        )
        raise Rejected(ErrorCode.INVALID_REQUEST, message)
    if not register.replicates:
        return
    if len(register.disk_uuid) != 16:
        raise Rejected(ErrorCode.INVALID_REQUEST, "a disk's UUID has 16 bytes")
    if register.broker_id not in state.brokers and len(state.brokers) >= limits.MAX_BROKERS:
        message = f"there are {limits.MAX_BROKERS} brokers: remove those that are gone"
        raise Rejected(ErrorCode.OVERLOADED, message)
    for other in _others_at(state, register):
        if not other.fenced:
            message = (
                f"broker {other.broker_id} is reached at one of these addresses: advertise others, or wait "
                "until it is fenced"
            )
            raise Rejected(ErrorCode.IN_USE, message)


def register_broker(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Registers a new process of a broker. From a known process it takes the addresses and the rack."""
    register = command.register_broker
    before = state.brokers.get(register.broker_id)
    if register.replicates:
        _take_addresses(state, register, outcome)
    if before is not None and before.incarnation == register.incarnation:
        _keep(state, before, register, outcome)
        return
    broker = BrokerState(
        broker_id=register.broker_id,
        incarnation=register.incarnation,
        epoch=state.index,
        endpoints=_endpoints(register),
        rack=register.rack,
        disk_uuid=register.disk_uuid,
        fenced_index=state.index if register.replicates else 0,
        draining=before is not None and before.draining,
        scaled_down=before is not None and before.scaled_down,
        clock_off=before is not None and before.clock_off,
        no_room=before is not None and before.no_room,
        replicates=register.replicates,
        flush_replicated=register.flush_replicated,
        served_epoch=_served_before(before),
    )
    state.brokers[broker.broker_id] = broker
    _remember_its_default(state, before)
    _add_to_delta(state, broker, outcome)
    _note_replication(state)
    if before is None:
        return
    if register.replicates:
        _leave_in_sync_sets(state, before, register, outcome)
    else:
        _end_epochs_led_by(state, broker.broker_id, outcome)


def _keep(
    state: ClusterState, broker: BrokerState, register: pb.RegisterBroker, outcome: CommandOutcome
) -> None:
    endpoints = _endpoints(register)
    if (broker.endpoints, broker.rack) != (endpoints, register.rack):
        broker.endpoints, broker.rack = endpoints, register.rack
        _add_to_delta(state, broker, outcome)


def _served_before(before: BrokerState | None) -> int:
    """The `served_epoch` that the next process of this broker begins with."""
    if before is None:
        return 0
    return before.epoch if before.has_served else before.served_epoch


def is_put_back(before: BrokerState, register: pb.RegisterBroker) -> bool:
    """Whether the data folder was restored from an earlier copy, and may lack messages acknowledged since.

    A process stores its broker epoch before it is unfenced. If the last process ended before that, the folder
    holds the epoch of the last process that was unfenced.
    """
    if not register.HasField("folder_epoch"):
        return False
    known = register.folder_epoch
    return known != before.epoch and (before.has_served or known != before.served_epoch)


def _leave_in_sync_sets(
    state: ClusterState, before: BrokerState, register: pb.RegisterBroker, outcome: CommandOutcome
) -> None:
    """Takes a new process out of the in-sync sets and leaderships of the process before it."""
    broker_id = register.broker_id
    lost = before.disk_uuid != register.disk_uuid or is_put_back(before, register)
    damaged = {key_of(ref.topic_id, ref.partition) for ref in register.damaged}
    # Each leader decided by the default of its own process whether messages in memory were acknowledged.
    replicated_default = state.some_default_replicated

    def impaired(key: int, topic: TopicState) -> bool:
        unsure = not register.tail_sure and topic.may_be_unsynced(replicated_default)
        return lost or unsure or register.all_damaged or key in damaged

    _leave_all(state, broker_id, impaired, outcome)


def _remember_its_default(state: ClusterState, gone: BrokerState | None) -> None:
    """Marks topics as ones that may hold messages acknowledged in memory alone, when the last process whose
    default was `flush=replicated` has gone.
    """
    if gone is None or not gone.flush_replicated or state.some_default_replicated:
        return
    for topic in state.topics.values():
        topic.was_replicated |= topic.acknowledges_unsynced(True)


def _end_epochs_led_by(state: ClusterState, broker_id: int, outcome: CommandOutcome) -> None:
    """Begins new leader epochs: a restarted process must not lead in those of the process before it."""
    changes = Elections(state).changes
    for key in state.held_by(broker_id):
        _, partition = state.find(key)
        if partition.leader == broker_id:
            changes.touch(key, partition)
            partition.leader_epoch += 1
    changes.finish(outcome.delta)


def _leave_all(
    state: ClusterState, broker_id: int, impaired: Callable[[int, TopicState], bool], outcome: CommandOutcome
) -> None:
    """Takes a fenced broker out of all in-sync sets; other brokers lead in its place."""
    elections = Elections(state)
    for key in state.held_by(broker_id):
        topic, partition = state.find(key)
        if broker_id in partition.in_sync or broker_id in partition.eligible:
            elections.leave(key, topic, partition, broker_id, impaired=impaired(key, topic))
            elections.settle(key, topic, partition)
    elections.changes.finish(outcome.delta)


# --- fencing ---


def check_fence_broker(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the command names another process of the broker."""
    fence = command.fence_broker
    process(state, fence.broker_id, fence.epoch)


def fence_broker(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Fences a broker: it leads nothing, and is in no in-sync set."""
    broker = state.brokers[command.fence_broker.broker_id]
    if broker.fenced:
        return
    broker.fenced_index = state.index
    _add_to_delta(state, broker, outcome)
    _leave_all(state, broker.broker_id, lambda key, topic: False, outcome)


def check_unfence_broker(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the command names another process of the broker."""
    unfence = command.unfence_broker
    process(state, unfence.broker_id, unfence.epoch)


def unfence_broker(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Ends a broker's fencing: it may lead again, and becomes the leader of the partitions that waited for
    it.
    """
    broker = state.brokers[command.unfence_broker.broker_id]
    if not broker.fenced:
        return
    broker.fenced_index = 0
    _add_to_delta(state, broker, outcome)
    elections = Elections(state)
    leaderless = state.derived.leaderless
    for key in [key for key in state.held_by(broker.broker_id) if key in leaderless]:
        topic, partition = state.find(key)
        elections.settle(key, topic, partition, returned=broker.broker_id)
    elections.changes.finish(outcome.delta)


# --- leaving ---


def check_set_broker(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    change = command.set_broker
    if change.epoch or change.HasField("shutting_down"):
        process(state, change.broker_id, change.epoch)
    else:
        known(state, change.broker_id)


def set_broker(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Sets or clears a broker's marks: draining, shutting down, scaled down, clock off, no room."""
    change = command.set_broker
    broker = state.brokers[change.broker_id]
    draining = change.draining if change.HasField("draining") else broker.draining
    stops = change.shutting_down if change.HasField("shutting_down") else broker.shutting_down
    scaled_down = change.scaled_down if change.HasField("scaled_down") else broker.scaled_down
    scaled_down = scaled_down and draining
    clock_off = change.clock_off if change.HasField("clock_off") else broker.clock_off
    no_room = change.no_room if change.HasField("no_room") else broker.no_room
    before = broker.draining, broker.shutting_down, broker.scaled_down, broker.clock_off, broker.no_room
    if (draining, stops, scaled_down, clock_off, no_room) == before:
        return
    begins_to_stop = stops and not broker.shutting_down
    broker.draining, broker.shutting_down = draining, stops
    broker.scaled_down, broker.clock_off, broker.no_room = scaled_down, clock_off, no_room
    _add_to_delta(state, broker, outcome)
    if begins_to_stop and not broker.fenced:
        _hand_over(state, broker.broker_id, outcome)


def _hand_over(state: ClusterState, broker_id: int, outcome: CommandOutcome) -> None:
    """Moves leaderships from the broker to other replicas where possible, and takes it out of the in-sync
    sets that are large enough without it.
    """
    elections = Elections(state)
    for key in state.held_by(broker_id):
        topic, partition = state.find(key)
        if broker_id not in partition.in_sync:
            continue
        best = elections.best(partition.in_sync)
        if partition.leader == broker_id and not state.brokers[best].shutting_down:
            elections.lead(key, partition, best)
        if partition.leader != broker_id and len(partition.in_sync) > topic.min_insync:
            elections.leave(key, topic, partition, broker_id, impaired=False)
    elections.changes.finish(outcome.delta)


def check_remove_broker(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the broker lives or holds partitions. An unknown broker counts as removed."""
    broker = state.brokers.get(command.remove_broker.broker_id)
    if broker is None:
        return
    if held := len(state.held_by(broker.broker_id)):
        message = (
            f"broker {broker.broker_id} holds {held} partitions: drain it first, and wait until it is empty"
        )
        raise Rejected(ErrorCode.IN_USE, message)
    if not broker.fenced:
        raise Rejected(ErrorCode.IN_USE, f"broker {broker.broker_id} is running: stop it first")


def remove_broker(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Forgets a broker."""
    broker_id = command.remove_broker.broker_id
    if (removed := state.brokers.pop(broker_id, None)) is not None:
        _remember_its_default(state, removed)
        state.spread.touch((broker_id,))
        outcome.delta.removed_brokers.append(broker_id)
        _note_replication(state)


# --- for all commands ---


def known(state: ClusterState, broker_id: int) -> BrokerState:
    """Returns the broker; raises Rejected when it is unknown."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise Rejected(ErrorCode.UNKNOWN_BROKER, f"there is no broker {broker_id}")
    return broker


def process(state: ClusterState, broker_id: int, epoch: int) -> BrokerState:
    """Returns the broker; raises Rejected unless `epoch` is that of its last process."""
    broker = known(state, broker_id)
    if broker.epoch != epoch:
        message = f"broker {broker_id} is in epoch {broker.epoch}, not {epoch}: register again"
        raise Rejected(ErrorCode.STALE_EPOCH, message)
    return broker


def _add_to_delta(state: ClusterState, broker: BrokerState, outcome: CommandOutcome) -> None:
    state.spread.touch((broker.broker_id,))
    outcome.delta.brokers.append(broker_message(broker))


def _note_replication(state: ClusterState) -> None:
    all_do = bool(state.brokers) and all(broker.replicates for broker in state.brokers.values())
    state.replicates = state.replicates or all_do


def _endpoints(register: pb.RegisterBroker) -> tuple[tuple[str, str, int], ...]:
    return tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in register.endpoints)


def _others_at(state: ClusterState, register: pb.RegisterBroker) -> list[BrokerState]:
    """The other brokers that are registered with one of these addresses."""
    addresses = {(endpoint.host, endpoint.port) for endpoint in register.endpoints}
    return [
        broker
        for _, broker in sorted(state.brokers.items())
        if broker.broker_id != register.broker_id
        and any((host, port) in addresses for _, host, port in broker.endpoints)
    ]


def _take_addresses(state: ClusterState, register: pb.RegisterBroker, outcome: CommandOutcome) -> None:
    """Takes these addresses from fenced brokers that had them before."""
    addresses = {(endpoint.host, endpoint.port) for endpoint in register.endpoints}
    for other in _others_at(state, register):
        other.endpoints = tuple(each for each in other.endpoints if each[1:] not in addresses)
        _add_to_delta(state, other, outcome)
