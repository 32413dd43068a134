"""The service for people and their tools, where it must keep a bound."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import NoReturn, cast

import grpc
import pytest

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.leader.reports import iggy_names
from tank_controller.leader.tasks import LeaderTasks
from tank_controller.node import DiskSpace, NodeHost
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import Context
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands.iggy.iggy_cluster import IggyCluster


class Refused(Exception):
    """What ends a call."""


class Caller:
    """A call's context."""

    async def abort(self, code: grpc.StatusCode, why: str) -> NoReturn:
        raise Refused(code, why)


def service(cluster: Cluster) -> AdminService:
    """Of a controller that leads."""

    def read(done: Callable[[None], None]) -> None:
        done(None)

    node = SimpleNamespace(
        brokers=SimpleNamespace(leads=True, tasks=LeaderTasks()),
        proposals=SimpleNamespace(read=read),
        metadata=SimpleNamespace(state=cluster.state),
    )
    return AdminService(cast(NodeHost, SimpleNamespace(node=node)))


def test_a_controller_says_how_full_its_disk_is() -> None:
    said = pb.ControllersDescription(term=4)
    node = SimpleNamespace(
        problem="", member=SimpleNamespace(describe=lambda problem: said), space=lambda: DiskSpace(3, 7)
    )
    admin = AdminService(cast(NodeHost, SimpleNamespace(node=node)))
    found = asyncio.run(admin.Describe(pb.DescribeControllersRequest()))
    assert (found.term, found.free_bytes, found.disk_bytes) == (4, 3, 7)
    node.space = lambda: None
    said.Clear()
    assert asyncio.run(admin.Describe(pb.DescribeControllersRequest())).disk_bytes == 0


def test_so_many_may_read_the_whole_state_at_a_time() -> None:
    async def scenario() -> None:
        cluster = Cluster(1, 2, 3)
        cluster.topic()
        admin = service(cluster)
        caller = cast(Context, Caller())
        reading = [admin.State(pb.StateRequest(), caller) for _ in range(limits.MAX_STATES_READ)]
        for answers in reading:
            assert (await anext(answers)).view.whole
        with pytest.raises(Refused, match="RESOURCE_EXHAUSTED"):
            await anext(admin.State(pb.StateRequest(), caller))
        async for _ in reading[0]:
            pass
        next_one = admin.State(pb.StateRequest(), caller)
        assert (await anext(next_one)).view.whole, "one has read all"
        assert isinstance(next_one, AsyncGenerator)
        await next_one.aclose()
        assert (await anext(admin.State(pb.StateRequest(), caller))).view.whole, "one has gone away"

    asyncio.run(scenario())


def test_an_unclean_election_of_several_partitions_is_refused_before_it_is_proposed() -> None:
    cluster = Cluster(1, 2, 3)
    command = cluster.elect(cluster.topic(), unclean=True)
    command.elect_leader.partitions.append(command.elect_leader.partitions[0])
    answer = asyncio.run(service(cluster).Change(command, cast(Context, Caller())))
    assert answer.outcome.error == ErrorCode.INVALID_REQUEST
    assert "one by one" in answer.outcome.message


def test_positions_are_not_taken_past_the_order_in_which_brokers_send_them() -> None:
    command = pb.Command(commit_positions=pb.CommitPositions(group="g"))
    answer = asyncio.run(service(Cluster(1)).Change(command, cast(Context, Caller())))
    assert answer.outcome.error == ErrorCode.INVALID_REQUEST
    assert "through a broker" in answer.outcome.message


def test_an_operator_drops_no_positions() -> None:
    command = pb.Command(drop_positions=pb.DropPositions(groups=["g"]))
    answer = asyncio.run(service(Cluster(1)).Change(command, cast(Context, Caller())))
    assert answer.outcome.error == ErrorCode.INVALID_REQUEST
    assert "coordinator" in answer.outcome.message


def test_the_names_of_iggys_clients_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iggy_names, "PART_BYTES", 20)
    cluster = IggyCluster()
    main, _ = cluster.stream("main"), cluster.stream("other")
    topics = [cluster.topic_in(main, name, partitions) for name, partitions in (("b", 0), ("a", 3))]
    cluster.group(topics[1])

    async def scenario() -> list[pb.IggyNamesAnswer]:
        return [part async for part in service(cluster).IggyNames(pb.IggyNamesRequest())]

    parts = asyncio.run(scenario())
    assert len(parts) > 3
    assert [each.name for part in parts for each in part.streams] == ["main", "other"]
    found = [each for part in parts for each in part.topics]
    assert [(each.topic.iggy.name, each.partitions) for each in found] == [("b", 0), ("a", 3)]
    assert not any(each.topic.partitions for each in found)
    assert [each.topic_id for part in parts for each in part.groups] == [topics[1]]


def test_a_command_of_iggys_is_kept_out_of_the_log_while_an_older_version_may_be_there() -> None:
    command = pb.Command(create_stream=pb.CreateStream(name="a"))
    for cluster in (Cluster(1), IggyCluster(1)):
        problem = commands.level_problem(cluster.state, command)
        assert (problem is None) is (cluster.state.feature_level == IGGY)
        if problem is not None:
            assert problem.error is ErrorCode.LEVEL_TOO_LOW
