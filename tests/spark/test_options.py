"""The options of format("tank"): names, ranges, what goes together, and errors that say what to write."""

import contextlib
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_tank.errors import OptionError
from pyspark_tank.options import (
    Compression,
    ParseMode,
    SourceOptions,
    Subscription,
    ValueFormat,
    parse_sink_options,
    parse_source_options,
)
from pyspark_tank.positions import AtOffsets, AtTimes, AtTimestamp, End, WhenNothingIsLater


def read(streaming: Any = False, **options: str) -> SourceOptions:
    given = {"subscribe": "t"} if not {"subscribe", "assign", "subscribePattern"} & set(options) else {}
    return parse_source_options({**given, **options}, streaming=streaming)


def test_a_batch_reads_everything_and_a_stream_what_comes() -> None:
    batch, stream = read(), read(streaming=True)
    assert (batch.starting, batch.ending) == (End.EARLIEST, End.LATEST)
    assert stream.starting is End.LATEST
    assert batch.servers == "127.0.0.1:11011"
    assert batch.fail_on_data_loss
    assert stream.latest_offset_wait_ms == 500


def test_spark_hands_keys_over_in_lower_case() -> None:
    options = read(
        streaming=True, maxoffsetspertrigger="7", failondataloss="false", startingoffsets="earliest"
    )
    assert options.max_offsets_per_trigger == 7
    assert not options.fail_on_data_loss
    assert options.starting is End.EARLIEST


def test_sparks_own_keys_are_ignored() -> None:
    options = read(streaming=True, queryname="q", checkpointlocation="/tmp/c", outputmode="append")
    assert options.without_meaning == ()
    assert (
        parse_sink_options({"topic": "t", "queryName": "q", "checkpointLocation": "c"}).without_meaning == ()
    )


def test_kafkas_options_without_meaning_are_named_together() -> None:
    options = read(
        **{
            "kafka.client.id": "g",
            "kafka.security.protocol": "PLAINTEXT",
            "groupIdPrefix": "p",
            "fetchOffset.numRetries": "3",
        }
    )
    assert options.without_meaning == (
        "kafka.client.id", "kafka.security.protocol", "groupIdPrefix", "fetchOffset.numRetries",
    )  # fmt: skip


def test_one_warning_for_all_options_without_meaning(caplog: pytest.LogCaptureFixture) -> None:
    from pyspark.sql.types import BinaryType, StructType

    from pyspark_tank import source

    source.warned.clear()
    with caplog.at_level(logging.WARNING, "pyspark_tank"):
        given = {"subscribe": "t", "kafka.client.id": "g", "groupIdPrefix": "p"}
        made = source.TankSource(given)
        made.schema()
        source.TankSource(given).schema()  # as for the next plan
        source.warned.clear()  # as in the next process that Spark sends it to
        schema = StructType().add("value", BinaryType())
        pickle.loads(pickle.dumps(made)).streamReader(schema)
        pickle.loads(pickle.dumps(made)).reader(schema)
    assert len(caplog.records) == 1
    assert "kafka.client.id, groupIdPrefix" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxoffsetpertrigger", "maxOffsetsPerTrigger"),
        ("subscribed", "subscribe"),
        ("server", "servers"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("failOnDataloss ", "failOnDataLoss"),
        ("valuesFormat", "valueFormat"),
    ],
)
def test_an_unknown_option_names_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"nearest is '{nearest}'"):
        read(**{wrong: "1"})
    with pytest.raises(OptionError, match="nearest is 'topic'"):
        parse_sink_options({"topik": "t"})


def test_options_of_the_other_direction_have_no_meaning() -> None:
    assert parse_sink_options({"topic": "t", "subscribe": "t"}).without_meaning == ("subscribe",)
    assert read(topic="t", bundleRows="5").without_meaning == ("topic", "bundleRows")
    assert read(maxOffsetsPerTrigger="5").without_meaning == ("maxOffsetsPerTrigger",)


def test_a_path_is_refused_with_the_option_to_use() -> None:
    with pytest.raises(OptionError, match="subscribe"):
        read(path="flights")


def test_servers_and_their_alias() -> None:
    assert read(servers="a:1,b:2").servers == "a:1,b:2"
    assert read(**{"kafka.bootstrap.servers": "a:9092"}).servers == "a:9092"
    assert read(servers="a,[::1]:5").servers == "a,[::1]:5", "as the client and the command read them"
    assert read(servers="a:1", **{"kafka.bootstrap.servers": "a:1"}).servers == "a:1"
    with pytest.raises(OptionError, match="give one"):
        read(servers="a:1", **{"kafka.bootstrap.servers": "b:1"})


@pytest.mark.parametrize("servers", ["a:x", "a:0", "a:70000", ",", ":5", "a:1,b:-1", "tank://a:1"])
def test_a_server_is_host_and_port(servers: str) -> None:
    with pytest.raises(OptionError, match="HOST:PORT"):
        read(servers=servers)


def test_exactly_one_way_to_say_what_to_read() -> None:
    assert read(subscribe=" a, b,a ").subscription == Subscription(topics=("a", "b"))
    assert read(assign='{"a": [1, 0, 1]}').subscription == Subscription(assigned={"a": (0, 1)})
    assert read(subscribePattern="fl.*").subscription == Subscription(pattern="fl.*")
    with pytest.raises(OptionError, match="none of them"):
        parse_source_options({}, streaming=False)
    with pytest.raises(OptionError, match="subscribe and subscribePattern"):
        read(subscribe="a", subscribePattern="b")


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": ","},
        {"subscribePattern": "("},
        {"assign": "[]"},
        {"assign": "{}"},
        {"assign": '{"a": []}'},
        {"assign": '{"a": [-1]}'},
        {"assign": '{"a": [65536]}'},
        {"assign": '{"a": [true]}'},
        {"assign": "[" * 100_000},
    ],
)
def test_a_subscription_that_means_nothing_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        read(**options)


def test_offsets_as_json() -> None:
    options = read(startingOffsets='{"t": {"0": 17, "1": -2}}', endingOffsets='{"t": {"0": -1, "1": 40}}')
    assert options.starting == AtOffsets({"t": {0: 17, 1: -2}})
    assert options.ending == AtOffsets({"t": {0: -1, 1: 40}})


def test_times_go_before_offsets_and_one_time_before_many() -> None:
    times = '{"t": {"0": 1700000000000}}'
    options = read(
        startingOffsets="earliest", startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=times
    )
    assert options.starting == options.ending == AtTimes({"t": {0: 1_700_000_000_000}})
    assert read(startingOffsetsByTimestamp=times, startingTimestamp="5").starting == AtTimestamp(5)
    assert read(endingTimestamp="6").ending == AtTimestamp(6)
    strategy = read(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest").when_nothing_is_later
    assert strategy is WhenNothingIsLater.LATEST


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t": {"0": -1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"t": {"0": -2}}'},
        {"startingOffsets": "first"},
        {"startingOffsets": '{"t": 5}'},
        {"startingOffsets": '{"t": {"0": -3}}'},
        {"startingOffsets": '{"t": {"0": 1.5}}'},
        {"startingOffsets": '{"t": {"zero": 1}}'},
        {"startingOffsets": '{"t": {"0": 99999999999999999999}}'},
        {"startingTimestamp": "yesterday"},
        {"endingOffsetsByTimestamp": '{"t": {"0": -1}}'},
    ],
)
def test_positions_that_a_batch_cannot_have(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        read(**options)


def test_a_stream_may_begin_at_its_end_but_has_no_other() -> None:
    assert read(streaming=True, startingOffsets='{"t": {"0": -1}}').starting == AtOffsets({"t": {0: -1}})
    for ending in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(OptionError, match="availableNow"):
            read(streaming=True, **{ending: "latest"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("minPartitions", "-1"),
        ("latestOffsetWaitMs", "-1"),
        ("latestOffsetWaitMs", "60001"),
        ("fetchBytes", "1"),
        ("failOnDataLoss", "no"),
        ("maxTriggerDelay", "soon"),
        ("valueFormat", "avro"),
        ("mode", "DROPMALFORMED"),
        ("startingOffsetsByTimestampStrategy", "earliest"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=name):
        read(streaming=True, **{name: value})


def test_limits_of_a_batch() -> None:
    options = read(
        streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9", maxTriggerDelay="2m",
        minPartitions="4", maxRecordsPerPartition="100", latestOffsetWaitMs="0",
    )  # fmt: skip
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger) == (5, 9)
    assert options.max_trigger_delay_ms == 120_000
    assert (options.min_partitions, options.max_records_per_partition) == (4, 100)
    assert options.latest_offset_wait_ms == 0
    with pytest.raises(OptionError, match="above"):
        read(streaming=True, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")


def test_headers_are_read_when_they_are_asked_for() -> None:
    assert not read().include_headers
    assert read(includeHeaders="true").include_headers
    with pytest.raises(OptionError, match="includeHeaders"):
        read(includeHeaders="perhaps")
    assert parse_sink_options({"topic": "t", "includeheaders": "true"}) == parse_sink_options({"topic": "t"})


def test_json_values() -> None:
    options = read(valueFormat="JSON", valueSchema="a INT", mode="failfast")
    assert options.value_format is ValueFormat.JSON
    assert options.value_schema == "a INT"
    assert options.parse_mode is ParseMode.FAILFAST
    with pytest.raises(OptionError, match="valueFormat"):
        read(valueSchema="a INT")


def test_a_sink_with_its_bounds() -> None:
    options = parse_sink_options(
        {"topic": " t ", "bundlerows": "5", "bundleBytes": "100", "compression": "none"}
    )
    assert (options.topic, options.bundle_rows, options.bundle_bytes) == ("t", 5, 100)
    assert options.compression is Compression.NONE
    assert parse_sink_options({}).topic is None
    with pytest.raises(OptionError, match="auto, none, snappy"):
        parse_sink_options({"compression": "gzip"})


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=30), max_size=5), st.booleans())
def test_whatever_is_given_is_understood_or_refused(options: dict[str, str], streaming: bool) -> None:
    with contextlib.suppress(OptionError):
        parse_source_options(options, streaming=streaming)
    with contextlib.suppress(OptionError):
        parse_sink_options(options)


# Every option of a read or write, with a value that is taken. What is refused is above.
TAKEN_BY_A_BATCH = {
    "servers": "a:1",
    "kafka.bootstrap.servers": "a:1",
    "includeHeaders": "false",
    "subscribe": "t",
    "assign": '{"t": [0]}',
    "subscribePattern": "t.*",
    "startingOffsets": '{"t": {"0": -2}}',
    "endingOffsets": '{"t": {"0": -1}}',
    "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "startingTimestamp": "5",
    "endingTimestamp": "5",
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "minPartitions": "2",
    "maxRecordsPerPartition": "2",
    "valueFormat": "json",
    "mode": "FAILFAST",
    "fetchBytes": "4096",
    "fetchTimeoutMs": "1",
}
TAKEN_BY_A_STREAM = {
    "kafka.group.id": "g",
    "groupId": "g",
    "minOffsetsPerTrigger": "1",
    "maxOffsetsPerTrigger": "1",
    "maxTriggerDelay": "1m",
    "latestOffsetWaitMs": "0",
}
TAKEN_BY_A_SINK = {"topic": "t", "bundleRows": "1", "bundleBytes": "1", "compression": "snappy"}
BOTH_WAYS = ("servers", "kafka.bootstrap.servers", "includeHeaders")
KAFKAS_OWN = (
    "kafka.max.poll.records", "kafka.client.id", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "useDeprecatedOffsetFetching",
)  # fmt: skip
SPARKS_OWN = (
    "provider", "owner", "queryName", "checkpointLocation", "outputMode", "trigger", "spark.x", "__source",
)  # fmt: skip


def meaning(name: str, value: str, streaming: bool) -> tuple[SourceOptions, SourceOptions]:
    """A read without the option and with it, its name in lower case as Spark hands it over."""
    return read(streaming), read(streaming, **{name.lower(): value})


@pytest.mark.parametrize("name", TAKEN_BY_A_BATCH)
def test_a_batch_takes(name: str) -> None:
    if name in ("assign", "subscribePattern"):
        taken = parse_source_options({name.lower(): TAKEN_BY_A_BATCH[name]}, streaming=False)
        assert taken.subscription != read().subscription
        return
    without, with_it = meaning(name, TAKEN_BY_A_BATCH[name], streaming=False)
    assert (without == with_it) == (name in ("subscribe", "includeHeaders"))
    assert with_it.without_meaning == ()


@pytest.mark.parametrize("name", TAKEN_BY_A_STREAM)
def test_a_stream_takes(name: str) -> None:
    without, with_it = meaning(name, TAKEN_BY_A_STREAM[name], streaming=True)
    assert without != with_it
    assert with_it.without_meaning == ()


@pytest.mark.parametrize("name", [*TAKEN_BY_A_SINK, *BOTH_WAYS])
def test_a_sink_takes(name: str) -> None:
    taken = parse_sink_options({name.lower(): {**TAKEN_BY_A_BATCH, **TAKEN_BY_A_SINK}[name]})
    assert (taken == parse_sink_options({})) == (name == "includeHeaders")
    assert taken.without_meaning == ()


@pytest.mark.parametrize("name", KAFKAS_OWN)
def test_an_option_of_kafkas_client_is_named_and_ignored(name: str) -> None:
    assert [told.lower() for told in read(**{name.lower(): "1"}).without_meaning] == [name.lower()]
    assert [told.lower() for told in parse_sink_options({name.lower(): "1"}).without_meaning] == [
        name.lower()
    ]


@pytest.mark.parametrize("name", SPARKS_OWN)
def test_what_spark_adds_is_no_option(name: str) -> None:
    assert read(**{name.lower(): "1"}) == read()
    assert parse_sink_options({name.lower(): "1"}) == parse_sink_options({})


def test_the_documentation_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    for name in [
        *TAKEN_BY_A_BATCH,
        *TAKEN_BY_A_STREAM,
        *TAKEN_BY_A_SINK,
        "valueSchema",
        "writeName",
        "writeId",
    ]:
        assert f"`{name}`" in page or f"`{name}=" in page, name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.security.protocol", "SSL"),
        ("kafka.security.protocol", "sasl_ssl"),
        ("kafka.sasl.mechanism", "PLAIN"),
        ("kafka.ssl.truststore.location", "/ca.jks"),
    ],
)
def test_no_job_believes_that_it_is_encrypted(name: str, value: str) -> None:
    with pytest.raises(OptionError, match="neither encrypted"):
        read(**{name: value})
    with pytest.raises(OptionError, match="neither encrypted"):
        parse_sink_options({name: value})


def test_plaintext_is_what_it_is() -> None:
    options = read(**{"kafka.security.protocol": "plaintext", "kafka.ssl.protocol": "TLS"})
    assert options.without_meaning == ("kafka.security.protocol", "kafka.ssl.protocol")


@pytest.mark.parametrize("name", ["kafka.group.id", "groupId"])
def test_a_batch_has_no_group(name: str) -> None:
    options = read(**{name: "g"})
    assert (options.group, options.without_meaning) == (None, ())


def test_a_stream_has_one_group() -> None:
    same = {"subscribe": "t", "kafka.group.id": "g", "groupid": " g "}
    assert parse_source_options(same, streaming=True).group == "g"
    with pytest.raises(OptionError, match=r"kafka\.group\.id and groupId differ"):
        parse_source_options(same | {"groupid": "another"}, streaming=True)


def test_a_named_batch_write() -> None:
    options = parse_sink_options({"writeName": " counts ", "writeid": "7"})
    assert (options.write_name, options.write_id) == ("counts", 7)
    for alone in ({"writeName": "counts"}, {"writeId": "7"}):
        with pytest.raises(OptionError, match="belong together"):
            parse_sink_options(alone)
    with pytest.raises(OptionError, match="for df"):
        parse_sink_options({"writeName": "counts", "writeId": "7"}, streaming=True)
    with pytest.raises(OptionError, match="too long"):
        parse_sink_options({"writeName": "x" * 201, "writeId": "7"})
    with pytest.raises(OptionError, match="writeId=281474976710656 is out"):
        parse_sink_options({"writeName": "x", "writeId": str(2**48)})
