"""Producer ids: how they are given out, and how a higher generation of a name ends the earlier one. Pure."""

from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.model import NamedProducer
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import MAX_BLOCK_IDS, MAX_PRODUCER_NAME_BYTES

BLOCK_IDS = 1000
"""The size of a block for a broker that names none: the broker gives these ids out one by one."""
FIRST_OF_BLOCKS = 1 << 50
"""The first id of blocks. Ids below are indexes of log entries, which never become so large."""


def known_producer(state: ClusterState, name: str, generation: int) -> NamedProducer | None:
    """The producer, when this is its name's present generation."""
    producer = state.producers.get(name)
    return producer if producer is not None and producer.generation == generation else None


def check_init_producer(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    init = command.init_producer
    if not init.name:
        if init.block_ids > MAX_BLOCK_IDS:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"a block has at most {MAX_BLOCK_IDS} producer ids")
        return
    if len(init.name.encode()) > MAX_PRODUCER_NAME_BYTES:
        message = f"a producer's name has at most {MAX_PRODUCER_NAME_BYTES} bytes"
        raise Rejected(ErrorCode.INVALID_NAME, message)
    producer = state.producers.get(init.name)
    if producer is not None and init.generation < producer.generation:
        message = (
            f"generation {init.generation} of this producer was ended by generation {producer.generation}"
        )
        raise Rejected(ErrorCode.STALE_PRODUCER_EPOCH, message)
    if producer is None and len(state.producers) >= limits.MAX_NAMED_PRODUCERS:
        oldest = next(iter(state.producers.values()))
        if command.now_ms - oldest.used_ms < limits.PRODUCER_NAME_KEPT_MS:
            message = (
                f"{limits.MAX_NAMED_PRODUCERS} producer names are in use: use fewer, or ids without a name"
            )
            raise Rejected(ErrorCode.OVERLOADED, message)


def init_producer(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Gives out a new id, a block of ids, or the id of a named producer's generation."""
    init = command.init_producer
    outcome.producer_id = state.index
    if not init.name:
        if init.block:
            outcome.producer_id = FIRST_OF_BLOCKS + state.index * MAX_BLOCK_IDS
            outcome.producer_ids = init.block_ids or BLOCK_IDS
        return
    producer = state.producers.pop(init.name, None)
    if producer is None:
        producer = NamedProducer(init.generation, state.index, (), 0)
        if len(state.producers) >= limits.MAX_NAMED_PRODUCERS:
            forgotten = state.producers.pop(next(iter(state.producers)))
            outcome.delta.forgotten_producers.extend(forgotten.ended)
    elif init.generation > producer.generation:
        outcome.delta.ended_producers.append(producer.producer_id)
        ended = (*producer.ended, producer.producer_id)
        kept = ended[-limits.MAX_ENDED_IDS_PER_NAME :]
        outcome.delta.forgotten_producers.extend(ended[: -len(kept)])
        producer = NamedProducer(init.generation, state.index, kept, producer.used_ms)
    used_ms = max(producer.used_ms, command.now_ms)
    state.producers[init.name] = replace(producer, used_ms=used_ms)
    outcome.producer_id = producer.producer_id
