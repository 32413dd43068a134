"""Sends and polls that begin as earlier ones did: what those have led to holds as long as nothing changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.iggy import (
    AddPartitionsRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    CreateUserRequest,
    DeleteTopicRequest,
    IggyConsumer,
    PollMessagesRequest,
    UpdatePermissionsRequest,
)
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A3, B1, B2, B3, SEED, V11, Era
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import BALANCED, Partitioning
from tank_protos.users.permissions import GlobalRight, Permissions
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import read_poll
from tests.support.iggy.iggy_sends import send_payload

ERAS = pytest.mark.parametrize("era", [SEED, A3, B1, B2, B3, V11], ids=lambda era: era.name)
MAIN, ORDERS = of_name("main"), of_name("orders")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        root = logged_in(node, B3)
        root.tell(CreateStreamRequest(name="main"))
        root.tell(CreateTopicRequest(stream=MAIN, partitions_count=2, name="orders"))
        yield node


def send(line: IggyLine, *payloads: bytes, chosen: Partitioning | None = None) -> None:
    """Sends to the first partition, unless another one is chosen."""
    first = Partitioning(PartitioningKind.PARTITION, line.era.base)
    line.raw(IggyCode.SEND_MESSAGES, send_payload(line.era, MAIN, ORDERS, chosen or first, list(payloads)))


def poll(line: IggyLine, offset: int = 0, count: int = 100, partition: int = 0) -> list[bytes]:
    """The messages of a partition."""
    request = PollMessagesRequest(
        consumer=IggyConsumer(1, 7, of_name("me")),
        stream=MAIN,
        topic=ORDERS,
        has_partition=1,
        partition=partition + line.era.base,
        strategy=PollingKind.OFFSET,
        value=offset,
        count=count,
    )
    return [payload for _, payload in read_poll(line.era, line.tell(request)).messages]


@ERAS
def test_requests_that_begin_alike_have_their_own_messages_offsets_and_counts(
    node: IggyNode, era: Era
) -> None:
    line = logged_in(node, era)
    for number in range(6):
        send(line, *[b"%d" % number] * (1 + number % 2))
    assert poll(line) == [b"0", b"1", b"1", b"2", b"3", b"3", b"4", b"5", b"5"]
    assert poll(line, 3) == [b"2", b"3", b"3", b"4", b"5", b"5"]
    assert poll(line, 3, 2) == [b"2", b"3"]
    assert poll(line, 0, 1) == [b"0"]
    assert poll(line, partition=1) == []


@ERAS
def test_a_balanced_send_goes_to_the_next_partition_each_time(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    for number in range(4):
        send(line, b"%d" % number, chosen=BALANCED)
    assert (poll(line), poll(line, partition=1)) == ([b"0", b"2"], [b"1", b"3"])
    node_root = logged_in(node, B3)
    node_root.tell(AddPartitionsRequest(MAIN, ORDERS, 2))
    for number in range(4):
        send(line, b"more %d" % number, chosen=BALANCED)
    assert len(poll(line, partition=2)) == len(poll(line, partition=3)) == 1


@ERAS
def test_a_topic_that_was_deleted_is_not_there_and_one_of_its_name_is_another(
    node: IggyNode, era: Era
) -> None:
    line, root = logged_in(node, era), logged_in(node, B3)
    for _ in range(2):
        send(line, b"old")
        poll(line)
    root.tell(DeleteTopicRequest(MAIN, ORDERS))
    for call in (lambda: send(line, b"none"), lambda: poll(line)):
        with pytest.raises(IggyStatus, match="2011"):
            call()
    root.tell(CreateTopicRequest(stream=MAIN, partitions_count=1, name="orders"))
    node.settle()
    send(line, b"new")
    assert poll(line) == [b"new"]


def test_a_permission_that_was_taken_away_counts_at_once(node: IggyNode) -> None:
    root = logged_in(node, B3)
    may = Permissions(GlobalRight.SEND_MESSAGES | GlobalRight.POLL_MESSAGES).encode(0)
    root.tell(CreateUserRequest("writer", "secret", 1, 1, may))
    line = IggyLine(node, B3)
    line.login("writer", "secret")
    for _ in range(2):
        send(line, b"a")
        poll(line)
    root.tell(UpdatePermissionsRequest(of_name("writer"), 0, b""))
    for call in (lambda: send(line, b"b"), lambda: poll(line)):
        with pytest.raises(IggyStatus, match="41"):
            call()


def test_another_user_of_the_connection_has_own_permissions(node: IggyNode) -> None:
    root = logged_in(node, B3)
    root.tell(CreateUserRequest("nobody", "secret", 1, 0, b""))
    for _ in range(2):
        send(root, b"a")
        poll(root)
    root.login("nobody", "secret")
    for call in (lambda: send(root, b"b"), lambda: poll(root)):
        with pytest.raises(IggyStatus, match="41"):
            call()


@pytest.mark.parametrize("era", [B1, B3, V11], ids=lambda era: era.name)
def test_a_send_that_begins_alike_and_is_cut_is_refused(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    first = Partitioning(PartitioningKind.PARTITION, era.base)
    payload = send_payload(era, MAIN, ORDERS, first, [b"a"])
    line.raw(IggyCode.SEND_MESSAGES, payload)
    size = int.from_bytes(payload[:4], "little")
    for spoiled in (payload[:size], payload[: size + 3], payload[:size] + bytes(4) + payload[size + 4 :]):
        with pytest.raises(IggyStatus):
            line.raw(IggyCode.SEND_MESSAGES, spoiled)
    line.raw(IggyCode.SEND_MESSAGES, payload)
    assert poll(line) == [b"a", b"a"]
