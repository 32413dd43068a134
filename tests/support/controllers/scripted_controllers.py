"""Controllers whose state a test sets: `tank.control.Admin` on real ports, the state machine behind it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc

from tank_controller.leader.reports import overview
from tank_controller.leader.reports.iggy_names import names_parts
from tank_controller.leader.reports.overview import Displaced
from tank_controller.rpc.users import user_parts
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminServicer, add_AdminServicer_to_server
from tests.controller.cluster_for_tests import Cluster


class ScriptedControllers:
    """Two controllers over one state, of which the second leads; within `with`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.connected: set[int] = set(cluster.state.brokers)
        self.commands: list[str] = []
        """What was changed."""
        self.leads = [False, True]
        self.balanced = True
        self.named = ""
        """Whom those that don't lead name; empty: who leads."""
        self.name_each_other = False
        self.members = [1, 2]
        """By number; those that were removed are none."""
        self.problem = ""
        """What they say that is wrong with them."""
        self.unsure = False
        """Changes are made, and their answers are lost."""
        self.leads_until_changed = False
        """The next change is the last one: nobody leads from then on."""
        self.ports: list[int] = []
        self._servers: list[grpc.Server] = []

    def __enter__(self) -> Self:
        for number in (0, 1):
            server = grpc.server(ThreadPoolExecutor(4))
            add_AdminServicer_to_server(_Admin(self, number), server)
            self.ports.append(server.add_insecure_port("127.0.0.1:0"))
            server.start()
            self._servers.append(server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.stop(None)

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports]

    def changed(self, what: str) -> None:
        """One of them did it."""
        self.commands.append(what)
        if self.leads_until_changed:
            self.leads_until_changed = False
            self.leads = [False, False]

    def stop(self, number: int) -> None:
        """This one answers no more."""
        self._servers[number].stop(None).wait()


class _Admin(AdminServicer):
    def __init__(self, world: ScriptedControllers, number: int) -> None:
        self._world = world
        self._number = number

    @property
    def _not_leader(self) -> pb.NotLeader | None:
        world = self._world
        if world.leads[self._number]:
            return None
        leader = next((a for a, leads in zip(world.addresses, world.leads, strict=True) if leads), "")
        other = world.addresses[1 - self._number] if world.name_each_other else ""
        return pb.NotLeader(leader=other or world.named or leader)

    def Describe(self, request: pb.DescribeControllersRequest, context: Any) -> pb.ControllersDescription:
        world = self._world
        members = [
            pb.ControllerMember(
                node=pb.RaftNode(ordinal=ordinal), votes=True, address=world.addresses[ordinal - 1]
            )
            for ordinal in world.members
        ]
        elsewhere = self._not_leader
        return pb.ControllersDescription(
            node=pb.RaftNode(ordinal=self._number + 1),
            cluster_id="c",
            term=4,
            leader=world.addresses[self._number] if elsewhere is None else elsewhere.leader,
            leads=elsewhere is None,
            problem=world.problem,
            commit_index=20 + self._number,
            applied_index=20 + self._number,
            members=members,
            free_bytes=50 << 30,
            disk_bytes=100 << 30,
        )

    def Overview(self, request: pb.OverviewRequest, context: Any) -> pb.OverviewAnswer:
        if (elsewhere := self._not_leader) is not None:
            return pb.OverviewAnswer(not_leader=elsewhere)
        world, displaced = self._world, Displaced()
        for _ in displaced.count(world.cluster.state):
            pass
        return overview.overview(
            world.cluster.state, displaced.found, world.connected, balanced=world.balanced
        )

    def Users(self, request: pb.UsersRequest, context: Any) -> Iterator[pb.UsersAnswer]:
        if (elsewhere := self._not_leader) is not None:
            yield pb.UsersAnswer(not_leader=elsewhere)
            return
        yield from user_parts(self._world.cluster.state)

    def Partitions(self, request: pb.PartitionsRequest, context: Any) -> Iterator[pb.PartitionsAnswer]:
        if (elsewhere := self._not_leader) is not None:
            yield pb.PartitionsAnswer(not_leader=elsewhere)
            return
        state = self._world.cluster.state
        yield from overview.partition_parts(state, request)

    def IggyNames(self, request: pb.IggyNamesRequest, context: Any) -> Iterator[pb.IggyNamesAnswer]:
        if (elsewhere := self._not_leader) is not None:
            yield pb.IggyNamesAnswer(not_leader=elsewhere)
            return
        yield from names_parts(self._world.cluster.state)

    def Change(self, request: pb.Command, context: Any) -> pb.ChangeAnswer:
        if (elsewhere := self._not_leader) is not None:
            return pb.ChangeAnswer(not_leader=elsewhere)
        self._world.changed(request.WhichOneof("command") or "")
        answer = pb.ChangeAnswer(outcome=self._world.cluster.apply(request).as_message())
        if self._world.unsure:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
        return answer

    def TransferLeadership(self, request: pb.TransferLeadershipRequest, context: Any) -> pb.ChangeAnswer:
        if (elsewhere := self._not_leader) is not None:
            return pb.ChangeAnswer(not_leader=elsewhere)
        world = self._world
        if request.ordinal not in world.members:
            return _refused(f"controller {request.ordinal} is no member")
        world.commands.append("transfer")
        world.leads = [number + 1 == request.ordinal for number in range(len(world.leads))]
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome())

    def RemoveController(self, request: pb.RemoveControllerRequest, context: Any) -> pb.ChangeAnswer:
        if (elsewhere := self._not_leader) is not None:
            return pb.ChangeAnswer(not_leader=elsewhere)
        world = self._world
        if request.ordinal not in world.members or request.disk:
            return _refused(f"controller {request.ordinal} is no member")
        if request.ordinal == self._number + 1:
            return _refused("this controller leads: hand leadership over first (TransferLeadership)")
        world.commands.append("remove_controller")
        world.members.remove(request.ordinal)
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome())

    def Balance(self, request: pb.BalanceRequest, context: Any) -> pb.ChangeAnswer:
        if (elsewhere := self._not_leader) is not None:
            return pb.ChangeAnswer(not_leader=elsewhere)
        self._world.changed("balance")
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome())


def _refused(message: str) -> pb.ChangeAnswer:
    return pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=ErrorCode.INVALID_REQUEST, message=message))
