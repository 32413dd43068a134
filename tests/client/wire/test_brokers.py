"""What each kind of broker gets and refuses; the C++ broker by its captured frames and as the scripted
broker plays it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tank_client import Client, ClientSettings, ProducerSettings, Stored, errors
from tank_client.model import Address, Ends, Features, FetchedChunk
from tank_client.wire.data_operations import (
    BundleToStore,
    Want,
    consume_request,
    produce_request,
    read_consume,
    read_produce,
    split_wants,
)
from tank_client.wire.operations import Redirected
from tank_client.wire.topic_operations import create_topic_plainly, discover_partitions, discover_topics
from tank_protos.bundle import as_batch, encode
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Kind, Moment, ScriptedBroker
from tests.support.waiting import run

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"
QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)
CPP = Features(400)


def captured(file: str, name: str) -> bytes:
    frames = json.loads((GOLDEN / f"{file}.json").read_text())["frames"]
    return next(bytes.fromhex(entry["hex"]) for entry in frames if entry["name"] == name)


def payload_of(request: Any, request_id: int) -> bytes:
    request.request_id = request_id
    return b"".join(map(bytes, request.encode()))


# Requests as the captured client lays them out


def test_consume_is_laid_out_as_captured() -> None:
    request = consume_request(CPP, [Want("gold", 0, 0, 0x100000)], 0, 0, "")
    assert payload_of(request, 1) == captured("05_consume", "consume_from_zero.req")[5:]


def test_produce_is_laid_out_as_captured() -> None:
    frame = captured("04_errors", "produce_unknown_topic.req")
    bundle = tank.ProduceRequest.decode(frame[5:]).topics[0].partitions[0].bundle
    request, answer = produce_request(CPP, BundleToStore("nope", 0, bundle), "c++")
    assert payload_of(request, 1) == frame[5:]
    assert answer is tank.ProduceResponse


def test_create_topic_is_laid_out_as_captured() -> None:
    operation = create_topic_plainly("newc", 1, {"log.segment.bytes": "1mb"})
    assert payload_of(operation.build(CPP), 1) == captured("09_admin_and_peer", "create_topic_conf.req")[5:]


# Captured answers


def test_captured_chunks_and_bounds_are_read() -> None:
    answer = tank.ConsumeResponse.decode(captured("05_consume", "consume_from_zero.resp")[5:])
    (entry,) = read_consume(answer, [Want("gold", 0, 0, 1)])
    assert isinstance(entry.result, FetchedChunk)
    assert (entry.result.base, entry.result.high_water_mark, len(entry.result.chunk)) == (1, 40, 531)


def test_a_captured_answer_to_other_partitions_is_a_violation() -> None:
    answer = tank.ConsumeResponse.decode(captured("05_consume", "consume_from_zero.resp")[5:])
    for wants in ([Want("gold", 1, 0, 1)], [Want("gold", 0, 0, 1), Want("gold", 2, 0, 1)]):
        with pytest.raises(errors.ProtocolViolation):
            read_consume(answer, wants)


def test_the_captured_unknown_topic_is_one() -> None:
    answer = tank.ProduceResponse.decode(captured("04_errors", "produce_unknown_topic.resp")[5:])
    assert isinstance(read_produce(answer, BundleToStore("nope", 0, b"")), errors.UnknownTopic)
    consume = tank.ConsumeResponse.decode(captured("04_errors", "consume_unknown_topic.resp")[5:])
    wants = [Want("nope", 0, 0, 100), Want("nope", 1, 0, 100)]
    assert [type(entry.result) for entry in read_consume(consume, wants)] == [errors.UnknownTopic] * 2


def test_captured_topics_and_ends_are_read() -> None:
    topics = tank.DiscoverTopicsResponse.decode(captured("09_admin_and_peer", "discover_topics.resp")[5:])
    found = discover_topics().read(topics, CPP)
    assert found["gold"] == (4, 1)
    assert set(found) == {"multi", "tail", "sparse", "gold"}
    ends = tank.DiscoverPartitionsResponse.decode(
        captured("09_admin_and_peer", "discover_partitions.resp")[5:]
    )
    assert discover_partitions("gold").read(ends, CPP) == {
        0: Ends(1, 41),
        1: Ends(1, 1),
        2: Ends(1, 1),
        3: Ends(1, 4),
    }
    nope = tank.DiscoverPartitionsResponse.decode(
        captured("09_admin_and_peer", "discover_partitions_unknown.resp")[5:]
    )
    with pytest.raises(errors.UnknownTopic):
        discover_partitions("nope").read(nope, CPP)


def test_a_redirect_to_nowhere_names_nobody() -> None:
    for raw, port, leader in ((b"\x7f\0\0\2", 9, Address("127.0.0.2", 9)), (bytes(4), 0, None)):
        answer = tank.ProduceResponse(results=[tank.ProduceResult(0xFC, raw, port)])
        result = read_produce(answer, BundleToStore("t", 0, b""))
        assert isinstance(result, Redirected)
        assert result.leader == leader


def test_requests_respect_the_one_byte_counts() -> None:
    wants = [Want(f"t{topic}", partition, 1, 1) for topic in range(300) for partition in range(2)]
    wants += [Want("wide", partition, 1, 1) for partition in range(600)]
    groups = split_wants(wants)
    assert sorted(want for group in groups for want in group) == sorted(wants)
    for group in groups:
        request = consume_request(CPP, group, 0, 0, "")
        assert len(request.topics) <= 255
        assert all(len(topic.partitions) <= 255 for topic in request.topics)
        assert tank.ConsumeRequest.decode(b"".join(map(bytes, request.encode())))


# Kinds


def test_each_kind_is_recognized_and_gets_its_version() -> None:
    async def scenario() -> None:
        for kind, version in ((Kind.OURS, 3), (Kind.CPP, 2), (Kind.OLD, 0)):
            async with ScriptedBroker(kind, {"t": 1}) as broker, Client(broker.address, QUICK) as c:
                assert (await c.admin.features()).version == kind.value
                await c.fetch("t", 0, 0)
                fetches = [r for r in broker.requests if isinstance(r, tank.ConsumeRequest)]
                assert [fetch.client_version for fetch in fetches] == [version]

    run(scenario())


MISSING: list[tuple[str, Callable[[Client], Awaitable[object]]]] = [
    ("altering topics", lambda c: c.admin.alter_topic("t", partitions=2)),
    ("deleting topics", lambda c: c.admin.delete_topic("t")),
    ("finding messages by time", lambda c: c.admin.find_by_time("t", {0: 5})),
    ("committed positions", lambda c: c.admin.commit_positions("g", {("t", 0): 5})),
    ("committed positions", lambda c: c.admin.fetch_positions("g")),
    ("consumer groups", lambda c: c.admin.list_groups()),
    ("idempotent producers", lambda c: c.admin.init_producer()),
    ("producer ids in sequence", lambda c: c.admin.reserve_producer_ids(2)),
    ("idempotent produce", lambda c: c.produce_bundle("t", 0, encode([b"x"], timestamps=1), producer_id=7)),
    ("idempotent producers", lambda c: c.producer(ProducerSettings(idempotent=True)).send("t", b"x")),
    ("describing brokers", lambda c: c.admin.brokers()),
    ("describing itself", lambda c: c.admin.describe_broker()),
    ("naming its controllers", lambda c: c.admin.describe_cluster()),
    ("replication factors", lambda c: c.admin.create_topic("n", 1, 3)),
    ("validating without creating", lambda c: c.admin.create_topic("n", validate_only=True)),
]
MISSING_OLD: list[tuple[str, Callable[[Client], Awaitable[object]]]] = [
    ("Status", lambda c: c.admin.status()),
    ("topology", lambda c: c.admin.topology()),
    ("listing topics", lambda c: c.admin.describe_topics()),
    ("creating topics", lambda c: c.admin.create_topic("n")),
    ("listing partitions", lambda c: c.admin.ends("t")),
]


@pytest.mark.parametrize(("feature", "call"), MISSING, ids=[name for name, _ in MISSING])
@pytest.mark.parametrize("kind", [Kind.CPP, Kind.OLD])
def test_what_the_broker_lacks_is_named_with_its_version(
    kind: Kind, feature: str, call: Callable[[Client], Awaitable[object]]
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(kind, {"t": 1}) as broker, Client(broker.address, QUICK) as c:
            with pytest.raises(errors.FeatureMissing, match=feature) as caught:
                await call(c)
            assert caught.value.server_version == kind.value
            assert f"version {kind.value}" in str(caught.value)
            assert ("C++ broker" if kind is Kind.CPP else "old TANK document") in str(caught.value)

    run(scenario())


@pytest.mark.parametrize(("feature", "call"), MISSING_OLD, ids=[name for name, _ in MISSING_OLD])
def test_what_the_old_document_lacks_is_named(
    feature: str, call: Callable[[Client], Awaitable[object]]
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.OLD, {"t": 1}) as broker, Client(broker.address, QUICK) as c:
            with pytest.raises(errors.FeatureMissing, match=feature) as caught:
                await call(c)
            assert caught.value.server_version == 0

    run(scenario())


def test_our_broker_of_an_older_build_lacks_features_one_by_one() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as c:
            with pytest.raises(errors.FeatureMissing, match="version 1000"):
                await c.admin.delete_topic("t")

    run(scenario())


@pytest.mark.parametrize("kind", [Kind.CPP, Kind.OLD])
def test_plain_brokers_store_and_tell_their_ends(kind: Kind) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(kind, {"t": 2}) as broker, Client(broker.address, QUICK) as c:
            async with c.producer() as producer:
                stored = await (await producer.send("t", b"x", partition=1))
                assert stored == Stored(0, 0)
                assert not stored.known
            assert broker.topics["t"][1].values() == [b"x"]
            assert await c.admin.ends("t", [0, 1]) == {0: Ends(0, 0), 1: Ends(1, 1)}
            assert await c.admin.await_ends({("t", 1): 0}, 5) == {("t", 1): Ends(1, 1)}
            assert await c.admin.await_ends({("t", 1): 1}, 5) == {("t", 1): Ends(1, 1)}
            with pytest.raises(errors.UnknownPartition):
                await c.admin.ends("t", [7])

    run(scenario())


def test_a_keyed_message_to_an_old_broker_needs_its_partition_named() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.OLD, {"t": 2}) as broker, Client(broker.address, QUICK) as c:  # noqa: SIM117
            async with c.producer() as producer:
                with pytest.raises(errors.FeatureMissing, match="listing topics"):
                    await producer.send("t", b"x", key=b"k")
                await producer.send("t", b"x", key=b"k", partition=1)
                with pytest.raises(errors.FeatureMissing, match="name the partition"):
                    await producer.send("t", b"x", key=b"k")

    run(scenario())


def test_the_cpp_broker_lists_and_creates() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.CPP, {"b": 1, "a": 2}) as broker, Client(broker.address, QUICK) as c:
            assert await c.admin.create_topic("n", 3) == 0
            with pytest.raises(errors.TopicExists):
                await c.admin.create_topic("n", 3)
            assert [(t.name, len(t.partitions)) for t in await c.admin.describe_topics()] == [
                ("a", 2),
                ("b", 1),
                ("n", 3),
            ]
            with pytest.raises(errors.UnknownTopic):
                await c.admin.describe_topics(["zzz"])
            for error, kind in (
                (4, errors.RequestRefused),
                (5, errors.ReadOnly),
                (10, errors.RequestRefused),
            ):
                broker.script = lambda moment, error=error: (  # type: ignore[misc]
                    error
                    if isinstance(moment.request, tank.CreateTopicRequest) and not moment.carried_out
                    else Fate.SERVE
                )
                with pytest.raises(kind):
                    await c.admin.create_topic("other")

    run(scenario())


# Calls


def test_calls_go_on_at_the_next_server() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as one, ScriptedBroker(topics={"t": 1}) as two:
            async with Client([one.address, two.address], QUICK, random=lambda: 0.0) as c:
                await c.fetch("t", 0, 0)
                assert two.connections == 0
                await one.stop()
                await c.fetch("t", 0, 0)
                assert two.connections == 1
            await one.start()

    run(scenario())


def test_a_call_gives_up_at_its_deadline_and_names_the_servers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            await broker.stop()
            settings = ClientSettings(request_timeout_ms=50, backoff_min_ms=1, backoff_max_ms=5)
            async with Client(broker.address, settings) as c:
                with pytest.raises(errors.ServerUnreachable, match=f"{broker.address}.*tank serve"):
                    await c.fetch("t", 0, 0)
            await broker.start()

    run(scenario())


def test_redirects_in_a_circle_end_at_the_deadline() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as one, ScriptedBroker(topics={"t": 1}) as two:
            one.redirects["t", 0], two.redirects["t", 0] = two.port, one.port
            settings = ClientSettings(request_timeout_ms=250, backoff_min_ms=1, backoff_max_ms=5)
            async with Client(one.address, settings) as c:
                with pytest.raises(errors.RequestTimedOut, match="another broker leads"):
                    await c.fetch("t", 0, 0)

    run(scenario())


def test_an_attempt_that_the_deadline_cut_short_does_not_hide_what_was_answered_before() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as one, ScriptedBroker(topics={"t": 1}) as two:
            one.redirects["t", 0] = two.port
            two.script = lambda moment: (
                Fate.HOLD if isinstance(moment.request, tank.ConsumeRequest) else Fate.SERVE
            )
            async with Client(one.address, ClientSettings(request_timeout_ms=250)) as c:
                with pytest.raises(errors.RequestTimedOut, match="another broker leads"):
                    await c.fetch("t", 0, 0)

    run(scenario())


@pytest.mark.parametrize("producer_id", [0, 9])
def test_a_raw_bundle_is_repeated_only_with_a_producer_id(producer_id: int) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as c:
            cuts = iter([True])

            def script(moment: Moment) -> Fate | int:
                produce = isinstance(moment.request, tank.IdempotentProduceRequest)
                return Fate.CUT if produce and moment.carried_out and next(cuts, False) else Fate.SERVE

            broker.script = script
            bundle = encode([b"a", b"b"], timestamps=1)
            if producer_id:
                assert await c.produce_bundle("t", 0, bundle, producer_id=producer_id) == Stored(1, 2)
            else:
                with pytest.raises(errors.OutcomeUnknown):
                    await c.produce_bundle("t", 0, bundle)
            assert broker.topics["t"][0].values() == [b"a", b"b"]

    run(scenario())


def test_a_fetch_waits_for_the_append() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as c:
            arrived = asyncio.Event()

            def script(moment: Moment) -> Fate | int:
                if isinstance(moment.request, tank.ConsumeRequest):
                    arrived.set()
                return Fate.SERVE

            broker.script = script
            waiting = asyncio.ensure_future(c.fetch("t", 0, 1, max_wait_ms=60_000))
            await arrived.wait()
            batch = as_batch(encode([b"a"], timestamps=1))
            broker.append("t", 0, batch)
            chunk = await waiting
            assert (chunk.base, bytes(chunk.chunk)) == (1, batch)

    run(scenario())
