"""Commands as tests write them, and strategies that make any."""

from hypothesis import strategies as st

from tank_controller.commands import commands
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import KAFKA, OWN
from tank_protos.generated import control_pb2 as pb

DAY_MS = 86_400_000


def register(
    broker_id: int = 1,
    incarnation: bytes = b"i" * 16,
    rack: str = "",
    host: str = "127.0.0.1",
    port: int = 11011,
) -> pb.Command:
    endpoint = pb.Endpoint(name="tank", host=host, port=port)
    return pb.Command(
        register_broker=pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=incarnation,
            disk_uuid=b"d" * 16,
            endpoints=[endpoint],
            rack=rack,
            min_level=OWN.lowest,
            max_level=OWN.highest,
        )
    )


def create(name: str, partitions: int = 1, replication_factor: int = 0, **settings: str) -> pb.Command:
    pairs = [pb.Setting(key=key.replace("__", "."), value=value) for key, value in settings.items()]
    return pb.Command(
        create_topic=pb.CreateTopic(
            name=name, partitions=partitions, replication_factor=replication_factor, settings=pairs
        )
    )


def create_internal(name: str = "__consumer_offsets", partitions: int = 1) -> pb.Command:
    """As a broker asks for a topic of its own."""
    return pb.Command(create_topic=pb.CreateTopic(name=name, partitions=partitions, internal=True))


def raise_level(level: int = KAFKA) -> pb.Command:
    """All processes know this level, by what the leading controller has seen."""
    return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=1 << 40))


def alter(
    topic_id: int, partitions: int = 0, settings: dict[str, str] | None = None, unset: tuple[str, ...] = ()
) -> pb.Command:
    pairs = [pb.Setting(key=key, value=value) for key, value in (settings or {}).items()]
    return pb.Command(
        alter_topic=pb.AlterTopic(topic_id=topic_id, partitions=partitions, set=pairs, unset=unset)
    )


def delete(topic_id: int) -> pb.Command:
    return pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic_id))


def init_producer(name: str = "", generation: int = 0, now_ms: int = 0) -> pb.Command:
    return pb.Command(now_ms=now_ms, init_producer=pb.InitProducer(name=name, generation=generation))


def commit(
    group: str, *positions: tuple[int, int, int], metadata: bytes = b"", now_ms: int = 0
) -> pb.Command:
    held = [
        pb.Position(topic_id=topic_id, partition=partition, sequence_number=number, metadata=metadata)
        for topic_id, partition, number in positions
    ]
    return pb.Command(now_ms=now_ms, commit_positions=pb.CommitPositions(group=group, positions=held))


def apply(state: ClusterState, command: pb.Command) -> CommandOutcome:
    """The command as the log's next entry."""
    return commands.apply(state, state.index + 1, command)


def applied(*given: pb.Command) -> ClusterState:
    """The state after these, none of which may be rejected."""
    state = ClusterState()
    for command in given:
        outcome = apply(state, command)
        assert outcome.rejection is None, outcome.rejection
    return state


def error_of(state: ClusterState, command: pb.Command) -> ErrorCode:
    """Why the command is rejected, and that it changed nothing."""
    before = state.snapshot()
    outcome = apply(state, command)
    state.index -= 1
    assert state.snapshot() == before
    assert outcome.rejection is not None, "it was accepted"
    assert outcome.rejection.message
    assert not outcome.delta.topics
    return outcome.rejection.error


names = st.sampled_from(["flights", "weather", "a", "bad name", ""])
small = st.integers(0, 12)
commands_of_any_kind: st.SearchStrategy[pb.Command] = st.one_of(
    st.builds(
        register,
        broker_id=st.integers(0, 4),
        incarnation=st.sampled_from([b"a" * 16, b"b" * 16, b"short"]),
        rack=st.sampled_from(["", "r1", "r2"]),
        port=st.integers(1, 3),
    ),
    st.builds(create, names, st.integers(0, 5), st.integers(0, 4)),
    st.builds(create, names, flush=st.sampled_from(["disk", "replicated", "never"])),
    st.builds(
        alter,
        small,
        st.integers(0, 7),
        st.dictionaries(
            st.sampled_from(["flush", "min.insync.replicas", "colour"]), st.sampled_from(["disk", "1", "3"])
        ),
        st.lists(st.sampled_from(["flush", "colour"]), max_size=1).map(tuple),
    ),
    st.builds(delete, small),
    st.builds(init_producer, st.sampled_from(["", "p", "q"]), st.integers(0, 3), st.integers(0, 5)),
    st.builds(
        lambda group, positions, metadata, now_ms: commit(
            group, *positions, metadata=metadata, now_ms=now_ms
        ),
        st.sampled_from(["g", "h", ""]),
        st.lists(st.tuples(small, st.integers(0, 3), st.integers(0, 2**64 - 1)), max_size=4),
        st.sampled_from([b"", b"\xff note", b"x" * 5000]),
        st.integers(0, 5),
    ),
    st.just(pb.Command()),
)
histories = st.lists(commands_of_any_kind, max_size=30).map(lambda rest: [register(1), register(2), *rest])
