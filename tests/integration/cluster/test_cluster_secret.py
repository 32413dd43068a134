"""The cluster's secret among real processes: who is taken without it, and how a cluster comes by one."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tank_cli.cluster.folder import ClusterFolder, ClusterMember
from tank_protos.call_proof import Prover, ProvingInterceptor
from tank_protos.cluster_secret import Party, PartyRole, Secrets, UnprovenError, parse
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminStub, BrokersStub, ControllersStub
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.ports import free_port
from tests.support.processes.readiness import facts_of, samples_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = patient(20.0)
CREATE = pb.Command(create_topic=pb.CreateTopic(name="t", partitions=1))
_BROKER = pb.RegisterBroker(broker_id=1, min_level=OWN.lowest, max_level=OWN.highest)
REGISTER = pb.BrokerUp(register=pb.BrokerRegister(broker=_BROKER))
GUESS = Secrets((b"a guess is not a secret".replace(b" ", b"-"),))


@contextmanager
def calls(address: str, secrets: Secrets | None, caller: Party) -> Iterator[grpc.Channel]:
    """To a controller, proving this secret; None: proving nothing."""
    with grpc.insecure_channel(address) as line:
        prover = Prover(lambda: secrets, lambda: caller, os.urandom)
        yield grpc.intercept_channel(line, ProvingInterceptor(line, prover))


def refusal(call: Any) -> str:
    """Why a call is not taken."""
    with pytest.raises(grpc.RpcError) as raised:
        list(call())
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    return str(raised.value.details())


def test_nobody_is_taken_without_the_secret_nor_with_another(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=1) as cluster:
        file = cluster.data / "secret"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        [controller] = cluster.processes("controller")
        address = str(controller.addresses["grpc"])
        missing = "start with --secret-file FILE"
        with calls(address, None, Party(PartyRole.ADMIN)) as line:
            assert missing in refusal(lambda: [AdminStub(line).Change(CREATE, timeout=WAIT_S)])
            assert missing in refusal(lambda: AdminStub(line).State(pb.StateRequest(), timeout=WAIT_S))
            session = BrokersStub(line).Session
            assert missing in refusal(lambda: session(iter([REGISTER]), timeout=WAIT_S)), "no peer key"
            messages = iter([pb.RaftMessage(vote_request=pb.RaftVoteRequest(force=True))])
            stub = ControllersStub(line)
            assert missing in refusal(lambda: [stub.Messages(messages, timeout=WAIT_S)]), "no vote"
            assert missing in refusal(lambda: [stub.Join(pb.JoinRequest(), timeout=WAIT_S)])
        with (
            calls(address, GUESS, Party(PartyRole.ADMIN)) as line,
            pytest.raises(UnprovenError, match="it knows another secret"),
        ):
            AdminStub(line).Change(CREATE, timeout=WAIT_S)
        secrets = parse(file.read_bytes(), "secret")
        with calls(address, secrets, Party(PartyRole.BROKER, 2)) as line:
            session = BrokersStub(line).Session
            assert list(session(iter([REGISTER]), timeout=WAIT_S)) == [], "it registers as another broker"
            assert "for another call" in refusal(lambda: [ControllersStub(line).Join(pb.JoinRequest())])
        with calls(address, secrets, Party(PartyRole.ADMIN)) as line:
            assert AdminStub(line).Change(CREATE, timeout=WAIT_S).outcome.topic_id
        counted = samples_of(str(controller.addresses["http"]))
        assert counted['tank_controller_untrusted_calls_total{reason="missing"}'] == 5
        assert counted["tank_controller_secret_demanded"] == 1
        log = (cluster.data / "logs" / "controller-1.log").read_text()
        assert log.count("was refused: the cluster demands its secret") == 1, "now and then is enough"
        assert secrets.lines[0].decode() not in log
        _speaks_to_people(cluster)
        for folder in (tmp_path / "stranger", cluster.data / "broker-1"):
            _stranger_says_why(cluster, folder, address)


def _stranger_says_why(cluster: LocalCluster, data: Path, controller: str) -> None:
    """A broker without the secret, with a new folder or with one that knows its cluster."""
    for broker in cluster.processes("broker"):
        if processes.is_alive(*_member(cluster, broker.number)):
            broker.stop()
    http = f"127.0.0.1:{free_port()}"
    options = [
        "--broker-id",
        "1",
        "--data",
        str(data),
        "--listen",
        f"127.0.0.1:{free_port()}",
        "--http",
        http,
    ]
    command = [sys.executable, "-m", "tank_node", "--controllers", controller, *options]
    stranger = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def says_why() -> bool:
            problems = facts_of(http).get("problems", [])
            return any("the cluster demands its secret" in each for each in problems)

        until(says_why, "its /readyz doesn't say why no controller takes it")
    finally:
        stranger.kill()
        stranger.wait()


def _member(cluster: LocalCluster, number: int) -> tuple[ClusterFolder, ClusterMember]:
    folder = cluster_folder.load_existing(cluster.data)
    return folder, next(each for each in folder.brokers if each.number == number)


def _run(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=WAIT_S
    )


def _speaks_to_people(cluster: LocalCluster) -> None:
    addresses = ",".join(str(each.addresses["grpc"]) for each in cluster.processes("controller"))
    command = ["tank", "cluster", "status", "--controllers", addresses]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TANK_")}
    done = _run(command, environment)
    assert done.returncode == 1
    assert "the cluster demands its secret" in done.stderr
    assert "TANK_SECRET_FILE" in done.stderr
    environment["TANK_SECRET_FILE"] = str(cluster.data / "secret")
    done = _run(command, environment)
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stderr


@contextmanager
def founded_without(cluster: LocalCluster) -> Iterator[ClusterFolder]:
    """The cluster of a version that knew no secret: none of its processes has one."""
    folder = cluster_folder.planned(cluster.data, 3, 1, cluster.base_port)
    folder.path.mkdir(parents=True)
    folder.api_token.write_text("t" * 64)
    folder.store()
    try:
        for member in list(folder.members):
            processes.start(folder, member)
        processes.await_ready(folder, lambda member: None)
        yield folder
    finally:
        cluster.down()


def restart(folder: ClusterFolder, member: ClusterMember) -> None:
    present = next(each for each in folder.members if each.name == member.name)
    assert present.pid is not None
    os.kill(present.pid, signal.SIGTERM)
    until(lambda: not processes.is_alive(folder, present), f"{member.name} doesn't stop")
    processes.start(folder, member)
    processes.await_ready(folder, lambda each: None)


def said(cluster: LocalCluster) -> list[str]:
    """What `status` says of the secret."""
    warnings = cluster.look("status")["warnings"]
    return [f"{each['warning']} {' '.join(each['help'])}" for each in warnings if "secret" in each["warning"]]


def test_a_cluster_that_has_none_gets_one_by_a_roll_and_demands_it_then(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c", 3, 1)
    with founded_without(cluster) as folder:
        [warning] = said(cluster)
        assert "The cluster has no secret" in warning
        cluster_folder.make_secrets(folder)
        for member in folder.controllers:
            restart(folder, member)
        until(lambda: bool(said(cluster)) and "Not proved by broker 1:" in said(cluster)[0], "its being said")
        assert {facts_of(each.http)["secret"] for each in folder.controllers} == {"offered"}
        cluster.tank("topic", "create", "t")
        restart(folder, folder.brokers[0])
        until(
            lambda: {facts_of(each.http).get("secret") for each in folder.controllers} == {"demanded"},
            "it isn't demanded, though all have proved it",
        )
        assert said(cluster) == []
        with calls(folder.controllers[0].address, None, Party(PartyRole.ADMIN)) as line:
            refusal(lambda: [AdminStub(line).Balance(pb.BalanceRequest(), timeout=WAIT_S)])
        cluster.tank("topic", "describe", "t")
        _is_demanded_again_at_once(folder)


def _is_demanded_again_at_once(folder: ClusterFolder) -> None:
    """A start knows it before it has read the log: with no other there to tell it."""
    for member in folder.controllers:
        present = next(each for each in folder.members if each.name == member.name)
        assert present.pid is not None
        os.kill(present.pid, signal.SIGKILL)
        until(lambda present=present: not processes.is_alive(folder, present), "it dies")  # type: ignore[misc]
    first = folder.controllers[0]
    processes.start(folder, first)
    until(lambda: bool(facts_of(first.http)), "it answers")
    with calls(first.address, None, Party(PartyRole.ADMIN)) as line:
        refusal(lambda: [AdminStub(line).Describe(pb.DescribeControllersRequest(), timeout=WAIT_S)])
