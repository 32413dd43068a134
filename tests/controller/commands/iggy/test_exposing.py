"""Topics of other protocols that Iggy's clients see."""

from tank_controller.commands.iggy.derived import RETENTION_BYTES, reported
from tank_controller.state.iggy.iggy_codec import part_message
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands.iggy.iggy_cluster import IggyCluster
from tests.controller.commands_for_tests import create, create_internal


def shown_as(stream: str, name: str, topic: str = "theirs") -> pb.Command:
    command = create(topic)
    command.create_topic.expose.stream, command.create_topic.expose.name = stream, name
    return command


def test_an_exposed_topic_is_seen_with_what_its_settings_say() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    theirs = cluster.topic("theirs", 2, log__retention__secs="60", log__retention__bytes="512")
    outcome = cluster.do(cluster.expose(theirs, stream, "shown"))
    assert (outcome.topic_id, outcome.number) == (theirs, 0)
    part = cluster.part(theirs)
    assert (part.expiry_us, part.max_bytes, part.per_partition, part.exposed) == (60_000_000, 512, True, True)
    assert cluster.view.iggy.topic_by_name(0, "shown") is cluster.view.topic_by_id(theirs)
    assert not cluster.do(cluster.expose(theirs, stream, "shown")).delta.topics, "a repeat changes nothing"
    assert cluster.error(cluster.expose(theirs, stream, "other")) is ErrorCode.TOPIC_EXISTS
    cluster.do(cluster.hide(theirs))
    assert cluster.view.iggy.topics(0) == []
    assert cluster.settings(theirs) == {"log.retention.bytes": "512", "log.retention.secs": "60"}
    assert cluster.error(cluster.hide(theirs)) is ErrorCode.UNKNOWN_TOPIC


def test_what_can_not_be_exposed() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    cluster.topic_in(stream, "taken")
    theirs = cluster.topic("theirs")
    internal = cluster.do(create_internal()).topic_id
    assert cluster.error(cluster.expose(internal, stream, "x")) is ErrorCode.INVALID_NAME
    assert cluster.error(cluster.expose(theirs, stream, "taken")) is ErrorCode.TOPIC_EXISTS
    assert cluster.error(cluster.expose(theirs, stream, "")) is ErrorCode.INVALID_NAME
    assert cluster.error(cluster.expose(999, stream, "x")) is ErrorCode.UNKNOWN_TOPIC
    cluster.do(cluster.delete_stream(stream))
    assert cluster.error(cluster.expose(theirs, stream, "x")) is ErrorCode.UNKNOWN_STREAM


def test_a_topic_is_exposed_when_it_is_created_in_a_stream_that_may_be_new() -> None:
    cluster = IggyCluster()
    first = cluster.do(shown_as("main", "orders", "a")).topic_id
    second = cluster.do(shown_as("main", "bills", "b")).topic_id
    assert [each.name for each in cluster.view.iggy.streams()] == ["main"]
    assert (cluster.part(first).number, cluster.part(second).number) == (0, 1)
    assert cluster.part(second).exposed
    assert cluster.error(shown_as("main", "orders", "c")) is ErrorCode.TOPIC_EXISTS
    assert cluster.error(shown_as("", "orders", "c")) is ErrorCode.INVALID_NAME
    assert cluster.error(shown_as("main", "", "c")) is ErrorCode.INVALID_NAME


def test_the_bound_of_many_large_partitions_is_as_large_as_there_can_be() -> None:
    shared = IggyPart(0, 0, "shown", max_bytes=1, exposed=True)
    most = {RETENTION_BYTES: str(topic_settings.MAX_AMOUNT - 1)}
    part = reported(shared, [RETENTION_BYTES], most, 2_049)
    assert part.max_bytes == 2**64 - 2, "2^64 - 1 is no bound"
    assert part_message(part).values.max_bytes == part.max_bytes
