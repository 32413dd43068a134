"""Consumer groups by HTTP: what the operations ask of the brokers, and what they make of the answers."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from tank_node.api.groups import GroupOperations
from tank_node.api.inner_client import InnerClient
from tank_node.api.operations import OPERATIONS, ApiName
from tank_node.broker.broker import Broker
from tank_protos.error_codes import ConsumeFlag, ErrorCode, GroupStateCode
from tank_protos.generated import tank
from tank_protos.http_api.errors import ApiError
from tank_protos.http_api.fields import Values, read_query
from tank_protos.http_api.operations import ApiRequest
from tank_protos.wire.message import Message


class Cluster:
    """What the brokers of a cluster know, and an inner client's place."""

    def __init__(self) -> None:
        self.groups: dict[str, tank.DescribedGroup] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.ends: dict[tuple[str, int], tuple[int, int]] = {}
        """First available and high-water mark; partitions that are not in it have no leader."""
        self.error = 0
        """The answer to commits, lists and deletions."""
        self.asked: list[Message] = []

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def ask(self, make: Callable[[int], Message], answer: type[Any], version: int = 0) -> Any:
        request: Any = make(1)
        decoded = type(request).decode(b"".join(request.encode()))
        assert getattr(decoded, "version", version) == version
        self.asked.append(decoded)
        return self._answers[type(request)](self, decoded)

    def _list(self, request: tank.ListGroupsRequest) -> tank.ListGroupsResponse:
        listed = [
            tank.ListedGroup(each.group, each.protocol_type, each.state, len(each.members))
            for each in self.groups.values()
        ]
        return tank.ListGroupsResponse(error=self.error, message="not now", listed=listed)

    def _describe(self, request: tank.DescribeGroupsRequest) -> tank.DescribeGroupsResponse:
        none = tank.DescribedGroup(state=GroupStateCode.DEAD)
        return tank.DescribeGroupsResponse(groups=[self.groups.get(name, none) for name in request.groups])

    def _delete(self, request: tank.DeleteGroupsRequest) -> tank.DeleteGroupsResponse:
        return tank.DeleteGroupsResponse(results=[tank.DeletedGroup(self.error, "it has members")])

    def _fetch(self, request: tank.FetchPositionsRequest) -> tank.FetchPositionsResponse:
        found = [tank.CommittedPosition(*at, number, "", 1_500) for at, number in self.positions.items()]
        return tank.FetchPositionsResponse(positions=found)

    def _commit(self, request: tank.CommitPositionsRequest) -> tank.CommitPositionsResponse:
        self.positions |= {(each.topic, each.partition): each.sequence_number for each in request.positions}
        return tank.CommitPositionsResponse(results=[tank.CommitResult(self.error)] * len(request.positions))

    def _consume(self, request: tank.ConsumeRequest) -> tank.ConsumeResponse:
        topics = []
        for topic in request.topics:
            found = []
            for each in topic.partitions:
                ends = self.ends.get((topic.name, each.partition))
                flag = ConsumeFlag.NO_LEADER if ends is None else ConsumeFlag.DATA
                first, mark = ends or (0, 0)
                found.append(tank.FetchedPartition(each.partition, flag, first, mark))
            topics.append(tank.FetchedTopic(topic.name, len(found), partitions=found))
        return tank.ConsumeResponse(topics=topics)

    _answers: ClassVar[Any] = {
        tank.ListGroupsRequest: _list,
        tank.DescribeGroupsRequest: _describe,
        tank.DeleteGroupsRequest: _delete,
        tank.FetchPositionsRequest: _fetch,
        tank.CommitPositionsRequest: _commit,
        tank.ConsumeRequest: _consume,
    }


@pytest.fixture
def cluster() -> Cluster:
    """A group without members, with positions in three partitions."""
    made = Cluster()
    made.groups["billing"] = tank.DescribedGroup(
        group="billing", state=GroupStateCode.EMPTY, protocol_type="consumer", epoch=7
    )
    made.positions = {("flights", 0): 4, ("flights", 1): 2, ("orders", 0): 1}
    made.ends = {
        ("flights", 0): (3, 10),
        ("flights", 1): (5, 5),
        ("orders", 0): (1, 7),
        ("orders", 1): (0, 0),
    }
    return made


def run(cluster: Cluster, name: ApiName, *, body: dict[str, object] | None = None, **query: str) -> Any:
    """The answer of an operation on the group `billing`."""
    topics = {"flights": SimpleNamespace(partitions=[0, 1]), "orders": SimpleNamespace(partitions=[0, 1])}
    view = SimpleNamespace(topic=topics.get)
    broker = cast(Broker, SimpleNamespace(link=SimpleNamespace(view=view)))
    operations = GroupOperations(broker, lambda: cast(InnerClient, cluster))
    handlers = {
        ApiName.LIST_GROUPS: operations.listed,
        ApiName.GET_GROUP: operations.one,
        ApiName.DELETE_GROUP: operations.delete,
        ApiName.RESET_GROUP: operations.reset,
    }
    operation = OPERATIONS[name]
    asked = ApiRequest(
        Values({"group": "billing"}, operation.in_path),
        read_query(operation.query, query.items()),
        Values(body or {}, operation.body),
    )
    return asyncio.run(cast(Any, handlers[name](asked)))


def refusal(cluster: Cluster, name: ApiName, **said: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        run(cluster, name, **said)
    return caught.value


def with_members(cluster: Cluster, count: int = 2) -> None:
    group = cluster.groups["billing"]
    group.state = GroupStateCode.STABLE
    for number in range(count):
        assignment = [tank.MemberTopic("orders", [number])] if number < 2 else []
        group.members.append(
            tank.GroupMember(f"m{number}", "", f"worker-{number}", "/10.0.0.7", 7, ["orders"], assignment)
        )


def test_groups_come_by_name_a_page_at_a_time(cluster: Cluster) -> None:
    for name in ("c", "a", "b"):
        cluster.groups[name] = tank.DescribedGroup(group=name, state=GroupStateCode.STABLE)
    first = run(cluster, ApiName.LIST_GROUPS, limit="2")
    assert [each["group"] for each in first["groups"]] == ["a", "b"]
    rest = run(cluster, ApiName.LIST_GROUPS, limit="2", after=first["next"])
    assert ([each["group"] for each in rest["groups"]], rest["next"]) == (["billing", "c"], None)
    assert rest["groups"][0] == {
        "group": "billing", "state": "empty", "protocol_type": "consumer", "members": 0,
        "title": None,
    }  # fmt: skip


def test_pages_go_on_behind_a_group_whose_name_is_no_text(cluster: Cluster) -> None:
    raw = [b"a\xff", b"a\xc3\xb6", b"a\xfe", b"b\xff"]
    for name in (each.decode("utf-8", "surrogateescape") for each in raw):
        cluster.groups[name] = tank.DescribedGroup(group=name, state=GroupStateCode.STABLE)
    pages: list[list[str]] = []
    after: Any = ""
    while after is not None:
        page = run(cluster, ApiName.LIST_GROUPS, limit="2", after=after)
        pages.append([each["group"] for each in page["groups"]])
        after = page["next"]
    assert pages == [["aö", "a\ufffd", "a\ufffd"], ["billing", "b\ufffd"]], (
        "names that look alike stay together"
    )


def test_an_error_of_the_coordinators_is_an_answer(cluster: Cluster) -> None:
    cluster.error = ErrorCode.COORDINATOR_LOADING
    error = refusal(cluster, ApiName.LIST_GROUPS)
    assert (error.status, error.code, error.message) == (503, "coordinator_loading", "Not now.")
    assert error.headers == {"Retry-After": "1"}


def test_a_group_is_shown_with_members_positions_and_lag(cluster: Cluster) -> None:
    with_members(cluster)
    found = run(cluster, ApiName.GET_GROUP)
    assert [each["partitions"] for each in found["members"]] == [
        [{"topic": "orders", "partitions": [0]}], [{"topic": "orders", "partitions": [1]}],
    ]  # fmt: skip
    fields = ("topic", "partition", "position", "lag", "expired", "member")
    assert [tuple(each[name] for name in fields) for each in found["partitions"]] == [
        ("flights", 0, 4, 7, 0, None),
        ("flights", 1, 2, 4, 3, None),
        ("orders", 0, 1, 7, 0, "m0"),
        ("orders", 1, None, None, None, "m1"),
    ]
    assert found["next"] is None


def test_partitions_of_a_group_come_a_page_at_a_time(cluster: Cluster) -> None:
    first = run(cluster, ApiName.GET_GROUP, limit="2")
    assert first["next"] == "flights/1"
    rest = run(cluster, ApiName.GET_GROUP, limit="2", after="flights/1")
    assert [(each["topic"], each["partition"]) for each in rest["partitions"]] == [("orders", 0)]
    assert refusal(cluster, ApiName.GET_GROUP, after="nonsense").status == 400


def test_an_end_that_is_unknown_is_null(cluster: Cluster) -> None:
    del cluster.ends["flights", 0]
    first = run(cluster, ApiName.GET_GROUP)["partitions"][0]
    assert (first["position"], first["high_water_mark"], first["lag"]) == (4, None, None)


@pytest.mark.parametrize("name", [ApiName.GET_GROUP, ApiName.DELETE_GROUP, ApiName.RESET_GROUP])
def test_a_group_that_is_not_there(name: ApiName, cluster: Cluster) -> None:
    cluster.groups.clear()
    error = refusal(cluster, name, body={"to": "end"} if name is ApiName.RESET_GROUP else None)
    assert (error.status, error.code) == (404, "unknown_group")


def test_a_group_is_deleted(cluster: Cluster) -> None:
    assert run(cluster, ApiName.DELETE_GROUP) == {"deleted": "billing"}
    cluster.error = ErrorCode.GROUP_NOT_EMPTY  # a member came meanwhile
    assert refusal(cluster, ApiName.DELETE_GROUP).status == 409


@pytest.mark.parametrize("name", [ApiName.DELETE_GROUP, ApiName.RESET_GROUP])
def test_a_group_with_members_is_left_alone_and_the_members_are_named(
    name: ApiName, cluster: Cluster
) -> None:
    with_members(cluster, 7)
    error = refusal(cluster, name, body={"to": "end"} if name is ApiName.RESET_GROUP else None)
    assert (error.status, error.code) == (409, "group_not_empty")
    assert "has 7 members, worker-0 (10.0.0.7)" in error.message
    assert "and 2 more: stop them" in error.message
    assert cluster.positions["flights", 0] == 4


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ({"to": "first"}, {("flights", 0): 3, ("flights", 1): 5, ("orders", 0): 1}),
        ({"to": "end"}, {("flights", 0): 11, ("flights", 1): 6, ("orders", 0): 8}),
        ({"number": 6}, {("flights", 0): 6, ("flights", 1): 6, ("orders", 0): 6}),
        ({"by": -1}, {("flights", 0): 3, ("flights", 1): 5, ("orders", 0): 1}),
        ({"to": "end", "topic": "orders"}, {("orders", 0): 8, ("orders", 1): 1}),
        ({"to": "end", "topic": "flights", "partitions": [1]}, {("flights", 1): 6}),
    ],
)
def test_a_reset_sets_positions_within_what_the_logs_hold(
    body: dict[str, object], after: dict[tuple[str, int], int], cluster: Cluster
) -> None:
    before = dict(cluster.positions)
    planned = run(cluster, ApiName.RESET_GROUP, body={**body, "dry_run": True})
    assert cluster.positions == before
    found = run(cluster, ApiName.RESET_GROUP, body=body)
    assert {(each["topic"], each["partition"]): each["after"] for each in found["partitions"]} == after
    assert cluster.positions == before | after
    assert (planned["dry_run"], planned["partitions"]) == (True, found["partitions"])


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "exactly one of"),
        ({"to": "end", "by": 1}, 400, "exactly one of"),
        ({"by": 1, "topic": "orders"}, 400, "no position in orders/1 to count from"),
        ({"to": "end", "topic": "none"}, 404, "no topic none"),
        ({"to": "end", "topic": "orders", "partitions": [0, 2]}, 404, "no partition 2"),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(
    body: dict[str, object], status: int, said: str, cluster: Cluster
) -> None:
    before = dict(cluster.positions)
    error = refusal(cluster, ApiName.RESET_GROUP, body=body)
    assert error.status == status
    assert said in error.message
    assert cluster.positions == before


def test_a_reset_waits_for_ends_that_are_unknown(cluster: Cluster) -> None:
    del cluster.ends["flights", 0]
    error = refusal(cluster, ApiName.RESET_GROUP, body={"to": "end"})
    assert (error.status, error.code) == (503, "no_leader")


def test_many_positions_are_asked_and_committed_in_portions(cluster: Cluster) -> None:
    cluster.positions = {("wide", number): 1 for number in range(2_500)}
    cluster.ends = dict.fromkeys(cluster.positions, (1, 9))
    run(cluster, ApiName.RESET_GROUP, body={"to": "end"})
    assert set(cluster.positions.values()) == {10}
    sizes = [len(each.positions) for each in cluster.asked if isinstance(each, tank.CommitPositionsRequest)]
    assert sizes == [1_000, 1_000, 500]


def test_a_commit_that_is_refused_is_an_answer(cluster: Cluster) -> None:
    cluster.error = ErrorCode.UNKNOWN_MEMBER
    error = refusal(cluster, ApiName.RESET_GROUP, body={"to": "end"})
    assert (error.status, error.code) == (409, "unknown_member")
