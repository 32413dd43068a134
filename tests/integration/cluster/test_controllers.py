"""Controllers as processes, by their gRPC: who leads, what people may ask, who is told to go elsewhere."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tank_protos.call_proof import Prover, ProvingInterceptor
from tank_protos.cluster_secret import Party, PartyRole, parse
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminStub, BrokersStub
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, Process, running_cluster
from tests.support.processes.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = patient(20.0)
_BROKER = pb.RegisterBroker(broker_id=1, min_level=OWN.lowest, max_level=OWN.highest)
REGISTER = pb.BrokerUp(register=pb.BrokerRegister(broker=_BROKER))
PERSON = Party(PartyRole.ADMIN)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        yield cluster


def channel(cluster: LocalCluster, process: Process, caller: Party = PERSON) -> grpc.Channel:
    """To a controller, with the cluster's secret."""
    secrets = parse((cluster.data / "secret").read_bytes(), "secret")
    line = grpc.insecure_channel(str(process.addresses["grpc"]))
    return grpc.intercept_channel(
        line, ProvingInterceptor(line, Prover(lambda: secrets, lambda: caller, os.urandom))
    )


def follower(cluster: LocalCluster) -> Process:
    leader = cluster.leader()
    return next(p for p in cluster.processes("controller") if p.number != leader.number)


def test_only_the_leader_answers_and_the_others_name_it(cluster: LocalCluster) -> None:
    leader, other = cluster.leader(), follower(cluster)
    create = pb.Command(create_topic=pb.CreateTopic(name="t", partitions=1))
    with channel(cluster, other) as line, channel(cluster, other, Party(PartyRole.BROKER, 1)) as as_broker:
        for answer in (
            AdminStub(line).Change(create, timeout=WAIT_S),
            next(AdminStub(line).State(pb.StateRequest(), timeout=WAIT_S)),
            next(BrokersStub(as_broker).Session(iter([REGISTER]), timeout=WAIT_S)),
        ):
            assert answer.not_leader.leader == leader.addresses["grpc"]
        description = AdminStub(line).Describe(pb.DescribeControllersRequest(), timeout=WAIT_S)
        assert not description.leads
        assert description.leader == leader.addresses["grpc"]
        assert [(m.node.ordinal, m.votes) for m in description.members] == [(1, True), (2, True), (3, True)]
    with channel(cluster, leader) as line:
        assert AdminStub(line).Change(create, timeout=WAIT_S).outcome.topic_id
        again = AdminStub(line).Change(create, timeout=WAIT_S).outcome
        assert "exists already" in again.message
        views = [a.view for a in AdminStub(line).State(pb.StateRequest(), timeout=WAIT_S)]
        assert [topic.name for view in views for topic in view.delta.topics] == ["t"]
        assert [view.more for view in views] == [False]


def test_health_and_reflection_are_served(cluster: LocalCluster) -> None:
    def serves(process: Process) -> bool:
        with channel(cluster, process) as line:
            check = health_pb2.HealthCheckRequest(service="tank.control.Brokers")
            stub = health_pb2_grpc.HealthStub(line)
            answer = stub.Check(check, timeout=WAIT_S)  # type: ignore[attr-defined]
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    leader = cluster.leader()
    assert [serves(p) for p in cluster.processes("controller")] == [
        p.number == leader.number for p in cluster.processes("controller")
    ]
    with channel(cluster, leader) as line:
        services = ProtoReflectionDescriptorDatabase(line).get_services()
    assert {"tank.control.Controllers", "tank.control.Brokers", "tank.control.Admin"} <= set(services)


def test_leadership_is_handed_over_when_asked_and_when_a_leader_stops(cluster: LocalCluster) -> None:
    leader, heir = cluster.leader(), follower(cluster)
    with channel(cluster, leader) as line:
        transfer = pb.TransferLeadershipRequest(ordinal=heir.number)
        assert not AdminStub(line).TransferLeadership(transfer, timeout=WAIT_S).outcome.message
    until(lambda: bool(heir.facts().get("leads")), "leadership was not handed over")
    term = heir.facts()["term"]
    heir.stop()
    assert cluster.leader().facts()["term"] == term + 1, "one election, asked for by the leader"
    cluster.up()


def test_a_controller_that_was_removed_is_told_so(cluster: LocalCluster) -> None:
    folder = cluster_folder.load_existing(cluster.data)
    leader, removed = cluster.leader(), follower(cluster)
    removed.kill()
    with channel(cluster, leader) as line:
        remove = pb.RemoveControllerRequest(ordinal=removed.number)
        assert not AdminStub(line).RemoveController(remove, timeout=WAIT_S).outcome.message
    processes.start(folder, next(c for c in folder.controllers if c.number == removed.number))
    until(lambda: "was removed from cluster" in json.dumps(removed.facts()), "it doesn't know", 60)
    with channel(cluster, leader) as line:
        description = AdminStub(line).Describe(pb.DescribeControllersRequest(), timeout=WAIT_S)
    assert removed.number not in [member.node.ordinal for member in description.members]


def test_the_controller_that_leads_is_not_removed_but_hands_leadership_over_first(
    cluster: LocalCluster,
) -> None:
    leader = cluster.leader()
    with channel(cluster, leader) as line:
        remove = pb.RemoveControllerRequest(ordinal=leader.number)
        refused = AdminStub(line).RemoveController(remove, timeout=WAIT_S).outcome
        assert refused.error
        assert "TransferLeadership" in refused.message
        description = AdminStub(line).Describe(pb.DescribeControllersRequest(), timeout=WAIT_S)
    assert leader.number in [member.node.ordinal for member in description.members]


def test_two_controllers_on_one_folder_are_refused(cluster: LocalCluster) -> None:
    folder = cluster_folder.load_existing(cluster.data)
    command = processes.command_of(folder, folder.controllers[0])
    second = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
    assert second.returncode == 1
    assert "another process uses" in second.stderr


ON_A_DISK_THAT_HANGS = """
import sys, time
from tank_controller import __main__
from tank_controller.app import process
from tank_controller.raft_node import files
files._OsAppendFile.sync = lambda file: time.sleep(3600)
process.CLOSE_S = float(sys.argv.pop(1))
__main__.main()
"""


@pytest.mark.parametrize(("close_s", "signals", "code"), [(3600.0, 2, 143), (0.1, 1, 1)])
def test_a_controller_whose_disk_hangs_stops_when_told_again_and_when_it_has_waited_for_long(
    tmp_path: Path, close_s: float, signals: int, code: int
) -> None:
    options = ["--id=1", f"--cluster=1=127.0.0.1:{free_port()}", f"--data={tmp_path / 'c'}"]
    command = [sys.executable, "-c", ON_A_DISK_THAT_HANGS, str(close_s), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        assert controller.stderr is not None
        try:
            assert "listening" in controller.stdout.readline()
            controller.send_signal(signal.SIGTERM)
            for line in controller.stderr:
                if signals == 2 and line.rstrip().endswith("stopping"):
                    controller.send_signal(signal.SIGTERM)
            assert controller.wait(60) == code
        finally:
            controller.kill()
