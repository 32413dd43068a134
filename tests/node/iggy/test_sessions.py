"""Whole sessions of Iggy's clients, of every era, with a broker in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tank_node.iggy.settings import IggySettings
from tank_protos.generated.iggy import (
    CreateConsumerGroupRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    DeleteStreamRequest,
    DeleteTopicRequest,
    GetConsumerOffsetRequest,
    GetConsumerOffsetResponse,
    GetStreamRequest,
    GetStreamsRequest,
    GetStreamsResponse,
    GetTopicRequest,
    IggyConsumer,
    JoinConsumerGroupRequest,
    PollMessagesRequest,
    StoreConsumerOffsetRequest,
    StreamDetails,
    TopicDetails,
)
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A3, B1, B2, B3, ERAS, SEED, V11, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import Polled, read_poll
from tests.support.iggy.iggy_sends import send_payload

EVERY = pytest.mark.parametrize("era", ERAS, ids=[era.name for era in ERAS])
TOPIC = of_name("orders")
NO_SEED = IggySettings(anonymous=False)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def made(line: IggyLine, partitions: int = 2) -> IggyLine:
    """The line, when it has made a stream, number 0, and a topic."""
    era = line.era
    line.tell(CreateStreamRequest(stream_id=0 if era is not SEED and era.version > 1 else 1, name="main"))
    line.tell(
        CreateTopicRequest(
            stream=of_name("main"),
            topic_id=1 if era.version < 2 else 0,
            partitions_count=partitions,
            name="orders",
        )
    )
    return line


def send(line: IggyLine, *payloads: bytes, partition: int = 0) -> bytes:
    chosen = Partitioning(PartitioningKind.PARTITION, partition + line.era.base)
    stream = of_number(0, line.era)
    return line.raw(IggyCode.SEND_MESSAGES, send_payload(line.era, stream, TOPIC, chosen, list(payloads)))


def poll(
    line: IggyLine,
    kind: PollingKind,
    value: int = 0,
    count: int = 10,
    *,
    partition: int = 0,
    auto_commit: bool = False,
) -> Polled:
    era = line.era
    request = PollMessagesRequest(
        consumer=IggyConsumer(1, 7, of_name("me")),
        stream=of_number(0, era),
        topic=TOPIC,
        has_partition=1,
        partition=partition + era.base,
        strategy=kind,
        value=value,
        count=count,
        auto_commit=int(auto_commit),
    )
    found = read_poll(era, line.tell(request))
    assert found.partition == partition + era.base
    return found


@EVERY
def test_a_client_makes_sends_polls_and_deletes(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era))
    assert line.session.era is era
    stream = line.ask(GetStreamRequest(of_number(0, era)), StreamDetails).stream
    assert (stream.id, stream.name, stream.topics_count) == (era.base, "main", 1)
    topic = line.ask(GetTopicRequest(of_name("main"), of_number(0, era)), TopicDetails)
    assert (topic.topic.id, topic.topic.partitions_count) == (era.base, 2)
    assert [each.id for each in topic.partitions] == [era.base, era.base + 1]
    send(line, b"a", b"b", b"c")
    send(line, b"d")
    assert poll(line, PollingKind.FIRST).messages == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert poll(line, PollingKind.OFFSET, 1, 2).messages == [(1, b"b"), (2, b"c")]
    assert poll(line, PollingKind.LAST, count=2).messages == [(2, b"c"), (3, b"d")]
    assert len(poll(line, PollingKind.TIMESTAMP).messages) == 4
    assert poll(line, PollingKind.OFFSET, 4) == Polled(era.base, 3, [])
    assert poll(line, PollingKind.FIRST, partition=1) == Polled(era.base + 1, 0, [])
    line.tell(DeleteTopicRequest(of_number(0, era), TOPIC))
    line.tell(DeleteStreamRequest(of_number(0, era)))
    assert line.ask(GetStreamsRequest(), GetStreamsResponse).streams == []


@EVERY
def test_a_consumer_goes_on_where_it_has_stored(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era))
    send(line, b"a", b"b", b"c")
    place: dict[str, Any] = {
        "consumer": IggyConsumer(1, 7, of_name("me")),
        "stream": of_number(0, era),
        "topic": TOPIC,
        "has_partition": 1,
        "partition": era.base,
    }
    nothing = line.tell(GetConsumerOffsetRequest(**place))
    assert nothing == (b"" if era.version >= A3.version else nothing[:4] + b"\2" + bytes(15))
    assert poll(line, PollingKind.NEXT, count=2, auto_commit=True).messages == [(0, b"a"), (1, b"b")]
    assert poll(line, PollingKind.NEXT, auto_commit=True).messages == [(2, b"c")]
    assert poll(line, PollingKind.NEXT).messages == []
    line.tell(StoreConsumerOffsetRequest(**place, offset=0))
    told = line.ask(GetConsumerOffsetRequest(**place), GetConsumerOffsetResponse)
    assert (told.partition, told.current_offset, told.stored_offset) == (era.base, 2, 0)
    assert poll(line, PollingKind.NEXT).messages == [(1, b"b"), (2, b"c")]
    assert line.refused(StoreConsumerOffsetRequest(**place, offset=3)) == 4100


@EVERY
def test_the_members_of_a_group_share_its_partitions(node: IggyNode, era: Era) -> None:
    one = made(logged_in(node, era))
    other = logged_in(node, era)
    number = 1 if era.version < 2 else 0
    group: dict[str, Any] = {
        "stream": of_number(0, era),
        "topic": TOPIC,
        "number": 1,
        "group": of_number(0, era),
    }
    one.tell(
        CreateConsumerGroupRequest(stream=of_number(0, era), topic=TOPIC, group_id=number, name="readers")
    )
    asked = PollMessagesRequest(
        consumer=IggyConsumer(2, 1, of_number(0, era)),
        stream=of_number(0, era),
        topic=TOPIC,
        strategy=PollingKind.NEXT,
        count=10,
        auto_commit=1,
    )
    if era is not V11:
        assert one.refused(asked) == (5002 if era is SEED else 5006)
    for line in (one, other):
        line.tell(JoinConsumerGroupRequest(**group))
    for partition in range(2):
        send(one, b"%d" % partition, partition=partition)
    node.settle(1000)
    read = []
    for line in (one, other):
        for _ in range(2):
            read += [message for _, message in read_poll(era, line.tell(asked)).messages]
    assert sorted(read) == [b"0", b"1"]


@pytest.mark.parametrize("era", [era for era in ERAS if era is not SEED], ids=lambda era: era.name)
def test_nothing_is_answered_before_a_login_but_pings(node: IggyNode, era: Era) -> None:
    line = IggyLine(node, era, node.services(NO_SEED))
    assert line.raw(IggyCode.PING) == b""
    with pytest.raises(IggyStatus, match="40"):
        line.raw(IggyCode.GET_STREAMS)
    line.login()
    assert line.raw(IggyCode.GET_STREAMS) == b""


def test_a_client_that_asks_before_it_logs_in_is_of_its_logins_era(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    assert line.raw(IggyCode.GET_STREAMS) == b""  # answered as to a client that never logs in
    assert line.session.era is SEED
    assert line.login() == 0
    assert line.session.era is B3
    assert line.ask(CreateStreamRequest(name="My Stream"), StreamDetails).stream.name == "My Stream"
    for counted in (node.metrics.iggy_sessions, node.metrics.iggy_connections):
        assert (counted["S"], counted["B3"]) == (0, 1)


def test_a_client_whose_login_fails_is_no_longer_anonymous(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    line.raw(IggyCode.GET_STREAMS)
    with pytest.raises(IggyStatus, match="42"):
        line.login(password="wrong password")
    with pytest.raises(IggyStatus, match="40"):
        line.raw(IggyCode.GET_STREAMS)


def test_names_of_seed_clients_are_lowered(node: IggyNode) -> None:
    line = logged_in(node, SEED)
    line.tell(CreateStreamRequest(stream_id=5, name="My  Stream"))
    stream = line.ask(GetStreamRequest(of_number(4, SEED)), StreamDetails).stream
    assert (stream.id, stream.name) == (5, "my.stream")


@pytest.mark.parametrize("era", [B1, B2], ids=lambda era: era.name)
def test_the_first_stream_is_1_for_old_clients_and_0_for_new_ones(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    made_stream = line.ask(CreateStreamRequest(name="main"), StreamDetails).stream
    assert made_stream.id == (1 if era is B1 else 0)
