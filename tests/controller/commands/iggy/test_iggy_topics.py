"""Topics of Iggy's clients: their places, names and settings."""

import pytest

from tank_controller import limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import FlushPolicy, LogFormat
from tests.controller.commands.iggy.iggy_cluster import IggyCluster, option
from tests.controller.commands_for_tests import alter, delete

NEVER = 2**64 - 1


def test_they_get_the_lowest_free_number_of_their_stream_and_are_found_by_brokers() -> None:
    cluster = IggyCluster()
    main, other = cluster.stream(), cluster.stream("other")
    first, second = cluster.topic_in(main, "a"), cluster.topic_in(main, "b")
    elsewhere = cluster.topic_in(other, "a")
    assert [cluster.part(each).number for each in (first, second, elsewhere)] == [0, 1, 0]
    cluster.do(delete(first))
    assert cluster.part(cluster.topic_in(main, "c")).number == 0, "a deleted topic's number is free"
    seen = cluster.view.iggy
    assert seen.topic(0, 1) is cluster.view.topic_by_id(second)
    assert seen.topic_by_name(0, "b") is cluster.view.topic_by_id(second)
    assert seen.topic_by_name(1, "a") is cluster.view.topic_by_id(elsewhere)
    assert seen.topic_by_name(0, "a") is None
    assert (seen.topic_count(0), seen.topic_count(1), seen.topic_count(2)) == (2, 1, 0)
    assert [topic.iggy.name for topic in seen.topics(0) if topic.iggy] == ["c", "b"], "by number"


def test_a_client_may_choose_the_number() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    assert cluster.do(cluster.create_in(stream, "a", number=8)).number == 8
    assert cluster.error(cluster.create_in(stream, "b", number=8)) is ErrorCode.NUMBER_TAKEN
    assert cluster.error(cluster.create_in(stream, "a", number=9)) is ErrorCode.TOPIC_EXISTS


def test_its_name_in_the_cluster_is_stream_and_name_where_that_is_legal_and_free() -> None:
    cluster = IggyCluster()
    stream, deep = cluster.stream("main"), cluster.stream("main.a")
    cluster.topic("main.taken")
    names = {
        name: cluster.of(cluster.topic_in(where, name))
        for where, name in (
            (stream, "orders"), (stream, "a.b"), (deep, "b"), (stream, "taken"), (stream, "with space"),
            (stream, "x" * 245),
        )
    }  # fmt: skip
    assert names["orders"].name == "main.orders"
    assert names["a.b"].name == "main.a.b"
    for odd in ("b", "taken", "with space", "x" * 245):
        assert names[odd].name == f"iggy-{names[odd].topic_id:x}"


def test_even_a_name_made_of_the_id_may_be_taken() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    next_id = cluster.state.index + 2
    cluster.topic(f"iggy-{next_id:x}")
    assert cluster.of(cluster.topic_in(stream, "with space")).name == f"iggy-{next_id:x}-1"


def test_renames_change_iggys_names_alone() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    topic = cluster.topic_in(stream, "orders")
    cluster.topic_in(stream, "taken")
    cluster.do(cluster.rename_stream(stream, "renamed"))
    rename = pb.AlterIggyTopic(topic_id=topic, name="bills")
    cluster.do(pb.Command(alter_iggy_topic=rename))
    assert cluster.of(topic).name == "main.orders"
    assert cluster.part(topic).name == "bills"
    seen = cluster.view.iggy.topic_by_name(0, "bills")
    assert seen is not None
    assert seen.name == "main.orders"
    assert cluster.view.iggy.topic_by_name(0, "orders") is None
    for name, error in (("taken", ErrorCode.TOPIC_EXISTS), ("", ErrorCode.INVALID_NAME)):
        command = pb.Command(alter_iggy_topic=pb.AlterIggyTopic(topic_id=topic, name=name))
        assert cluster.error(command) is error
    again = cluster.do(pb.Command(alter_iggy_topic=rename))
    assert not again.delta.topics, "it has the name already"
    gone = pb.AlterIggyTopic(topic_id=999, name="x")
    assert cluster.error(pb.Command(alter_iggy_topic=gone)) is ErrorCode.UNKNOWN_TOPIC


def test_partitions_are_0_to_1000() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    empty = cluster.topic_in(stream, "empty", 0)
    assert cluster.seen(empty).partitions == []
    assert cluster.error(cluster.create_in(stream, "b", 1001)) is ErrorCode.INVALID_PARTITIONS
    cluster.do(alter(empty, 2))
    assert len(cluster.seen(empty).partitions) == 2
    assert cluster.error(alter(empty, 1001)) is ErrorCode.INVALID_PARTITIONS
    assert cluster.error(cluster.create_in(stream, "c", factor=4)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.of(cluster.do(cluster.create_in(stream, "c", factor=0)).topic_id).replication_factor == 3


# --- settings ---


def values(**said: object) -> pb.IggyValues:
    return pb.IggyValues(compression=1, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "derived"),
    [
        (values(), {}),
        (values(expiry_us=NEVER, max_bytes=NEVER), {}),
        (values(expiry_us=1), {"log.retention.secs": "1"}),
        (values(expiry_us=60_000_001), {"log.retention.secs": "61"}),
        (values(max_bytes=1000), {"log.retention.bytes": "250"}),
        (values(max_bytes=3), {"log.retention.bytes": "1"}),
        (values(max_bytes=1000, per_partition=True), {"log.retention.bytes": "1000"}),
        (values(max_bytes=2**60), {}),
        (values(options=[option("segment_size", 4096)]), {"log.segment.bytes": "4096"}),
        (values(options=[option("segment_size", "512 MiB")]), {"log.segment.bytes": str(512 << 20)}),
        (values(options=[option("segment_size", 0)]), {}),
        (values(options=[option("durability", "replicated")]), {"flush": "replicated"}),
        (values(options=[option("durability", "persisted")]), {"flush": "disk"}),
        (values(options=[option("consumer_offset_durability", "whatever")]), {}),
        (values(options=[option("messages_required_to_save", 5)]), {}),
    ],
)
def test_settings_follow_from_what_the_client_says(said: pb.IggyValues, derived: dict[str, str]) -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=4, values=said)
    assert cluster.settings(topic) == {"log.format": "kafka", **derived}
    part = cluster.seen(topic).iggy
    assert part is not None
    assert (part.expiry_us, part.max_bytes, part.compression) == (said.expiry_us, said.max_bytes, 1)
    assert [(each.key, each.kind, each.value) for each in part.options] == [
        (each.key, each.kind, each.value) for each in said.options
    ], "as it was sent"


@pytest.mark.parametrize(
    "bad",
    [
        option("colour", "red"),
        option("durability", "perhaps"),
        option("durability", 3),
        option("segment_size", "large"),
        option("segment_size", 2**40),
        option("iggy.format", "xml"),
        option("preallocate_segments", "x" * 1024),
    ],
)
def test_an_option_that_can_not_be_is_refused(bad: pb.IggyOption) -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    command = cluster.create_in(stream, "a", values=values(options=[bad]))
    assert cluster.error(command) is ErrorCode.INVALID_SETTING
    topic = cluster.topic_in(stream)
    change = pb.AlterIggyTopic(topic_id=topic, options=pb.IggyOptions(options=[bad]))
    assert cluster.error(pb.Command(alter_iggy_topic=change)) is ErrorCode.INVALID_SETTING
    many = values(options=[option("durability", "persisted")] * 65)
    assert cluster.error(cluster.create_in(stream, "a", values=many)) is ErrorCode.INVALID_SETTING


def test_the_options_of_all_topics_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    said = values(options=[option("durability", "persisted")])
    size_bytes = len("durability") + len("persisted")
    monkeypatch.setattr(limits, "MAX_ALL_IGGY_OPTION_BYTES", 2 * size_bytes)
    first, second = cluster.topic_in(stream, "a", values=said), cluster.topic_in(stream, "b", values=said)
    assert cluster.state.iggy.option_bytes == 2 * size_bytes
    assert cluster.error(cluster.create_in(stream, "c", values=said)) is ErrorCode.LIMIT_REACHED
    longer = pb.IggyOptions(options=[option("durability", "replicated")])
    change = pb.Command(alter_iggy_topic=pb.AlterIggyTopic(topic_id=first, options=longer))
    assert cluster.error(change) is ErrorCode.LIMIT_REACHED
    cluster.do(cluster.purge(first))
    assert cluster.state.iggy.option_bytes == 2 * size_bytes, "a purged topic keeps them"
    cluster.do(delete(second))
    cluster.topic_in(stream, "c", values=said)


def test_an_option_chooses_the_stored_format_once() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), values=values(options=[option("iggy.format", "tank")]))
    assert cluster.of(topic).policy.log_format is LogFormat.TANK
    other = pb.IggyOptions(options=[option("iggy.format", "kafka")])
    cluster.do(pb.Command(alter_iggy_topic=pb.AlterIggyTopic(topic_id=topic, options=other)))
    assert cluster.of(topic).policy.log_format is LogFormat.TANK


def test_a_change_leaves_settings_that_do_not_follow_from_it() -> None:
    cluster = IggyCluster()
    said = values(expiry_us=5_000_000, options=[option("durability", "replicated")])
    topic = cluster.topic_in(cluster.stream(), values=said)
    cluster.do(alter(topic, settings={"min.insync.replicas": "1", "flush": "disk"}))
    change = pb.AlterIggyTopic(topic_id=topic, expiry_us=0, max_bytes=77, compression=2)
    cluster.do(pb.Command(alter_iggy_topic=change))
    assert cluster.settings(topic) == {
        "flush": "disk",
        "log.format": "kafka",
        "log.retention.bytes": "77",
        "min.insync.replicas": "1",
    }
    assert cluster.part(topic).compression == 2
    assert cluster.of(topic).policy.flush is FlushPolicy.DISK
    assert cluster.of(topic).was_replicated, "some messages were once in memory alone"


def test_what_others_set_of_retention_iggys_clients_see() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=2, values=values(expiry_us=5_000_000, max_bytes=10))
    cluster.do(alter(topic, settings={"log.retention.secs": "1h", "log.retention.bytes": "1k"}))
    part = cluster.part(topic)
    assert (part.expiry_us, part.max_bytes) == (3_600_000_000, 2048)
    cluster.do(alter(topic, settings={"log.retention.secs": "0"}, unset=("log.retention.bytes",)))
    part = cluster.part(topic)
    assert (part.expiry_us, part.max_bytes) == (NEVER, 0)
    assert cluster.error(alter(topic, settings={"log.retention.secs": "soon"})) is ErrorCode.INVALID_SETTING


def test_more_partitions_share_the_bound_of_the_topic() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    whole = cluster.topic_in(stream, "whole", 2, values(max_bytes=1000))
    each = cluster.topic_in(stream, "each", 2, values(max_bytes=1000, per_partition=True))
    for topic, bound in ((whole, "250"), (each, "1000")):
        cluster.do(alter(topic, 4))
        assert cluster.settings(topic)["log.retention.bytes"] == bound
        assert cluster.part(topic).max_bytes == 1000
    cluster.do(alter(whole, 8, settings={"log.retention.bytes": "9"}))
    assert cluster.settings(whole)["log.retention.bytes"] == "9", "what is said comes first"
    assert cluster.part(whole).max_bytes == 72
