"""The controller's state machine at scale: 1,000 brokers, 1,000,000 partitions of three replicas.

.venv/bin/python -m benchmarks.metadata [--brokers N] [--partitions N] [--led N] [--state FILE] [PART ...]

Prints the time per command, bytes per partition in memory and in the snapshot, the time to write and to read
a snapshot, and the time of the failover of a broker that leads N partitions: of the controller's command, and
of its effect on a broker's view. There is no disk and no network. Name a PART for a shorter run; with --state
the state is made once, and read by the next run.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.liveness import BrokerLiveness
from tank_controller.leader.tasks import LeaderTasks
from tank_controller.state.state import ClusterState
from tank_controller.state.view_parts import WHOLE_PART_BYTES
from tank_node.cluster.view import ClusterView, WholeState
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb

RACKS = 20
PARTITIONS_PER_TOPIC = 1000
REPEATS = 300

Piece = TypeVar("Piece")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--brokers", type=int, default=1000)
    arguments.add_argument("--partitions", type=int, default=1_000_000)
    arguments.add_argument("--led", type=int, default=10_000)
    arguments.add_argument("--state", type=Path, help="a file that keeps the state for the next run")
    arguments.add_argument("parts", metavar="PART", nargs="*", help=f"{', '.join(PARTS)}, failover")
    options = arguments.parse_args()
    wanted = options.parts or [*PARTS, "failover"]
    if unknown := set(wanted) - {*PARTS, "failover"}:
        arguments.error(f"no such part: {', '.join(sorted(unknown))}")
    if chosen := [part for part in PARTS if part in wanted]:
        state = begun(options.brokers, options.partitions, options.state)
        for part in chosen:
            PARTS[part](state)
    if "failover" in wanted:
        measure_failover(options.led)


def begun(brokers: int, partitions: int, kept: Path | None) -> ClusterState:
    """The state of a healthy cluster of this size."""
    before = resident_bytes()
    if kept is not None and kept.exists():
        snapshot = kept.read_bytes()
        began = time.perf_counter()
        state = ClusterState.load(snapshot)
        show(
            "start from a snapshot",
            f"{time.perf_counter() - began:.1f} s, {state.partition_count:,} partitions",
        )
    else:
        state = cluster(brokers)
        began = time.perf_counter()
        topics = partitions // PARTITIONS_PER_TOPIC - 1  # below the limit: the measurements add topics
        for number in range(topics):
            create(state, f"t{number}", PARTITIONS_PER_TOPIC)
        seconds = time.perf_counter() - began
        count = state.partition_count
        show("create", f"{seconds / count * 1e6:.1f} µs a partition, {count:,} of 3 replicas")
    gc.collect()
    show("memory", f"{(resident_bytes() - before) / state.partition_count:.0f} bytes a partition")
    if kept is not None and not kept.exists():
        kept.write_bytes(state.snapshot())
    return state


def show(name: str, figures: str) -> None:
    print(f"{name:>24}: {figures}", flush=True)


def resident_bytes() -> int:
    """The resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def apply(state: ClusterState, command: pb.Command) -> CommandOutcome:
    outcome = commands.apply(state, state.index + 1, command)
    assert outcome.rejection is None, outcome.rejection
    return outcome


def register(broker_id: int, process: bytes = b"1") -> pb.Command:
    return pb.Command(
        register_broker=pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=process + broker_id.to_bytes(15, "big"),
            disk_uuid=broker_id.to_bytes(16, "big"),
            tail_sure=True,
            endpoints=[pb.Endpoint(name="tank", host=f"broker-{broker_id}", port=11011)],
            rack=f"rack-{broker_id % RACKS}",
            replicates=True,
            min_level=OWN.lowest,
            max_level=OWN.highest,
        )
    )


def cluster(brokers: int) -> ClusterState:
    """A state with this many brokers, all alive."""
    state = ClusterState()
    for broker_id in range(1, brokers + 1):
        apply(state, register(broker_id))
        unfence = pb.UnfenceBroker(broker_id=broker_id, epoch=state.brokers[broker_id].epoch)
        apply(state, pb.Command(unfence_broker=unfence))
    return state


def create(state: ClusterState, name: str, partitions: int) -> CommandOutcome:
    topic = pb.CreateTopic(name=name, partitions=partitions, replication_factor=3)
    return apply(state, pb.Command(create_topic=topic))


def in_sync(state: ClusterState, topic_id: int, numbers: range, members: int) -> pb.Command:
    """The first `members` replicas, for partitions that one broker leads."""
    topic = state.topics[topic_id]
    leader = topic.partitions[numbers[0]].leader
    sets = []
    for number in numbers:
        partition = topic.partitions[number]
        chosen = [leader, *[each for each in partition.replicas if each != leader][: members - 1]]
        sets.append(
            pb.InSyncSet(
                topic_id=topic_id,
                partition=number,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                in_sync=[
                    pb.InSyncMember(broker_id=each, broker_epoch=state.brokers[each].epoch) for each in chosen
                ],
            )
        )
    change = pb.ChangeInSync(broker_id=leader, broker_epoch=state.brokers[leader].epoch, sets=sets)
    return pb.Command(change_in_sync=change)


def measure_commands(state: ClusterState) -> None:
    """Measures single commands, at full size."""
    first = next(iter(state.topics))
    position = pb.Position(topic_id=first, partition=0, sequence_number=5)

    def ref(number: int) -> list[pb.PartitionRef]:
        return [pb.PartitionRef(topic_id=first, partition=number % PARTITIONS_PER_TOPIC)]

    makers: dict[str, Callable[[int], pb.Command]] = {
        "in-sync change": lambda n: in_sync(state, first, range(n % 100, n % 100 + 1), 2 + n // 100 % 2),
        "elect leader": lambda n: pb.Command(elect_leader=pb.ElectLeader(partitions=ref(n))),
        "create topic": lambda n: pb.Command(
            create_topic=pb.CreateTopic(name=f"one{n}", partitions=1, replication_factor=3)
        ),
        "delete topic": lambda n: pb.Command(
            delete_topic=pb.DeleteTopic(topic_id=state.topic_ids[f"one{n}"])
        ),
        "producer id": lambda n: pb.Command(init_producer=pb.InitProducer(name=f"p{n}")),
        "commit positions": lambda n: pb.Command(
            commit_positions=pb.CommitPositions(group=f"g{n % 10}", positions=[position])
        ),
    }
    for name, make in makers.items():
        taken = []
        for number in range(REPEATS):
            command = pb.Command.FromString(make(number).SerializeToString())
            began = time.perf_counter()
            apply(state, command)
            taken.append(time.perf_counter() - began)
        taken.sort()
        worst, median = taken[-1] * 1e6, taken[len(taken) // 2] * 1e6
        show(name, f"{median:.0f} µs (median of {REPEATS}), {worst:.0f} µs at worst")


def measure_leader(state: ClusterState) -> None:
    """Measures the leader's periodic tasks."""
    tasks, liveness = LeaderTasks(), BrokerLiveness()
    liveness.lead(0)
    taken = {"the leader's tasks, a tick": [0.0], "liveness, a tick": [0.0]}
    for now_ms in range(0, 5000, 500):
        began = time.perf_counter()
        tasks.tick(state, now_ms)
        between = time.perf_counter()
        liveness.tick(state, now_ms)
        taken["the leader's tasks, a tick"].append(between - began)
        taken["liveness, a tick"].append(time.perf_counter() - between)
    for name, seconds in taken.items():
        show(name, f"{max(seconds) * 1e3:.1f} ms at worst")


def measure_fencing(state: ClusterState) -> None:
    """Measures the fencing and unfencing of one of many brokers."""
    broker = state.brokers[len(state.brokers) // 2]
    held, led = len(state.held_by(broker.broker_id)), state.derived.led[broker.broker_id]
    began = time.perf_counter()
    apply(state, pb.Command(fence_broker=pb.FenceBroker(broker_id=broker.broker_id, epoch=broker.epoch)))
    fenced = time.perf_counter()
    apply(state, pb.Command(unfence_broker=pb.UnfenceBroker(broker_id=broker.broker_id, epoch=broker.epoch)))
    ended = time.perf_counter()
    show("fence one broker", f"{(fenced - began) * 1e3:.1f} ms: holds {held:,}, leads {led:,}")
    show("unfence it", f"{(ended - fenced) * 1e3:.1f} ms")


def measure_failover(led: int) -> None:
    """Measures the failover of one of three brokers, which leads `led` of three times as many partitions, and
    has a replica of all."""
    state = cluster(3)
    for start in range(0, 3 * led, 10_000):
        create(state, f"t{start}", min(10_000, 3 * led - start))
    view = ClusterView("c", 1)
    list(taken_in(view, [state.delta().SerializeToString()]))
    broker = max(state.brokers.values(), key=lambda each: state.derived.led[each.broker_id])
    leads, held = state.derived.led[broker.broker_id], len(state.held_by(broker.broker_id))
    fence = pb.Command(fence_broker=pb.FenceBroker(broker_id=broker.broker_id, epoch=broker.epoch))
    began = time.perf_counter()
    delta = apply(state, fence).delta.SerializeToString()
    decided = time.perf_counter()
    view.apply(pb.Delta.FromString(delta))
    ended = time.perf_counter()
    show("failover, decided", f"{(decided - began) * 1e3:.0f} ms: leads {leads:,}, holds {held:,}")
    show("failover, in a view", f"{(ended - decided) * 1e3:.0f} ms, of {len(delta):,} bytes")


def timed_pieces(begin: Callable[[], Iterator[Piece]]) -> tuple[list[Piece], list[float]]:
    """The pieces of a snapshot, and the seconds that each took; the first time is that of the image."""
    began = time.perf_counter()
    pieces = begin()
    taken = [time.perf_counter() - began]
    made = []
    began = time.perf_counter()
    for piece in pieces:
        made.append(piece)
        taken.append(time.perf_counter() - began)
        began = time.perf_counter()
    return made, taken


def measure_view(state: ClusterState) -> None:
    """Measures a whole view for a broker that has none: the leader's part, and the broker's."""
    made, taken = timed_pieces(lambda: state.whole_view(limits.VIEW_PART, WHOLE_PART_BYTES))
    updates = [update for update in made if update is not None]
    size = sum(update.ByteSize() for update in updates)
    show("a whole view", f"{sum(taken):.1f} s, {size:,} bytes in {len(updates):,} messages")
    turns = len(made) - len(updates)
    show(
        "a piece of it", f"{sum(taken) / turns * 1e3:.1f} ms on the average, {max(taken) * 1e3:.1f} at worst"
    )
    view = ClusterView("c", 1)
    parts = [update.delta.SerializeToString() for update in updates]
    for known in ("empty before", "the same before"):
        _, taken = timed_pieces(lambda: taken_in(view, parts))
        figures = f"{sum(taken):.1f} s, {max(taken[:-1]) * 1e3:.0f} ms a message at worst"
        show(f"in a view, {known}", f"{figures}, {taken[-1] * 1e3:.0f} ms the last stroke")


def taken_in(view: ClusterView, parts: Sequence[bytes]) -> Iterator[None]:
    """Applies a whole view as a broker does: one step for each message, and the last one that takes it
    over."""
    whole = WholeState(view)
    for part in parts:
        whole.add(pb.Delta.FromString(part))
        yield
    view.replace(whole)
    yield


def measure_snapshot(state: ClusterState) -> None:
    """Measures writing a snapshot, and a start from it."""
    made, taken = timed_pieces(state.snapshot_pieces)
    snapshot = b"".join(made)
    count = state.partition_count
    show("snapshot", f"{len(snapshot) / count:.0f} bytes a partition, {len(snapshot):,} in all")
    show("write a snapshot", f"{sum(taken):.1f} s in {len(made):,} pieces")
    show(
        "a piece of it",
        f"{sorted(taken)[len(taken) // 2] * 1e3:.1f} ms (median), {max(taken) * 1e3:.1f} at worst",
    )
    show("its image", f"{taken[0] * 1e3:.1f} ms")
    began = time.perf_counter()
    again = ClusterState.load(snapshot)
    ended = time.perf_counter()
    assert again.index == state.index
    show("start from a snapshot", f"{ended - began:.1f} s")
    began = time.perf_counter()
    apply(again, pb.Command(create_topic=pb.CreateTopic(name="next", partitions=1, replication_factor=3)))
    show("first topic after it", f"{(time.perf_counter() - began) * 1e3:.1f} ms")


def measure_outage(state: ClusterState) -> None:
    """Measures a power failure of all brokers: each is fenced, registers again, and is unfenced."""
    taken: dict[str, list[float]] = {"fence": [], "register": [], "unfence": [], "the leader's tasks": []}

    def timed(name: str, command: pb.Command) -> None:
        began = time.perf_counter()
        apply(state, command)
        taken[name].append(time.perf_counter() - began)

    for broker in list(state.brokers.values()):
        fence = pb.FenceBroker(broker_id=broker.broker_id, epoch=broker.epoch)
        timed("fence", pb.Command(fence_broker=fence))
    show("leaderless then", f"{len(state.derived.leaderless):,} partitions")
    tasks = LeaderTasks()
    for number, broker_id in enumerate(list(state.brokers)):
        timed("register", register(broker_id, b"2"))
        unfence = pb.UnfenceBroker(broker_id=broker_id, epoch=state.brokers[broker_id].epoch)
        timed("unfence", pb.Command(unfence_broker=unfence))
        if number % 100 == 0:
            began = time.perf_counter()
            tasks.tick(state, number * 5000)
            taken["the leader's tasks"].append(time.perf_counter() - began)
    for name, seconds in taken.items():
        seconds.sort()
        worst, median = seconds[-1] * 1e3, seconds[len(seconds) // 2] * 1e3
        show(f"{name}, all away", f"{median:.1f} ms (median of {len(seconds)}), {worst:.1f} at worst")


PARTS: dict[str, Callable[[ClusterState], None]] = {
    "commands": measure_commands,
    "leader": measure_leader,
    "fencing": measure_fencing,
    "view": measure_view,
    "snapshot": measure_snapshot,
    "outage": measure_outage,
}
"""The measurements of one state, in this order: the last one leaves it changed."""

if __name__ == "__main__":
    main()
