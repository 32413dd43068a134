"""Consumer groups as people and programs see them, by the command and by HTTP, beside members of Kafka's
protocol."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupRequestProtocolCollection,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tank_protos.generated.kafka.consumer_protocol_assignment import TopicPartition, TopicPartitionCollection
from tests.integration.programs.shell import Shell
from tests.support.clients.cli_shapes import assert_same_shape
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration

TOKEN = "0123456789abcdef"
LOADING = (14, 15)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    (folder / "token").write_text(TOKEN)
    with BrokerProcess(folder / "data", "--api-token-file", str(folder / "token")) as running:
        yield running


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker)


@pytest.fixture
def topic(shell: Shell, request: pytest.FixtureRequest) -> str:
    """A topic named after the test, with ten messages in the first of two partitions."""
    name = str(request.node.name).removeprefix("test_")[:40].strip("_")
    shell.out("topic", "create", name, "--partitions", "2", "--set", "flush=replicated")
    shell.out("produce", name, "--partition", "0", stdin=b"".join(b"%d\n" % number for number in range(10)))
    return name


class Member:
    """A member of a group, of Kafka's protocol; it has the first partition of a topic."""

    def __init__(self, client: KafkaSocket, group: str, topic: str) -> None:
        self.client, self.group = client, group
        until(lambda: self._join(topic).error_code not in LOADING, "the coordinator is not there")
        joined = self._joined
        assert joined.error_code == 0, joined
        self.member_id = joined.member_id
        partitions = TopicPartitionCollection([TopicPartition(topic, [0])])
        assignment = b"\0\0" + b"".join(ConsumerProtocolAssignment(partitions).encode(0))
        given = [SyncGroupRequestAssignment(self.member_id, assignment)]
        sync = SyncGroupRequest(group, joined.generation_id, self.member_id, None, "consumer", "range", given)
        assert client.ask(sync, SyncGroupResponse, 5).error_code == 0

    def _join(self, topic: str) -> JoinGroupResponse:
        found = self.client.ask(FindCoordinatorRequest(self.group), FindCoordinatorResponse, 3)
        if found.error_code:
            return JoinGroupResponse(error_code=found.error_code)
        subscription = b"\0\0" + b"".join(ConsumerProtocolSubscription([topic]).encode(0))
        protocols = JoinGroupRequestProtocolCollection([JoinGroupRequestProtocol("range", subscription)])
        request = JoinGroupRequest(self.group, 30_000, 30_000, "", "worker-1", "consumer", protocols)
        self._joined = self.client.ask(request, JoinGroupResponse, 7)
        return self._joined

    def leave(self) -> None:
        request = LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id, "worker-1")])
        assert self.client.ask(request, LeaveGroupResponse, 5).error_code == 0


@pytest.fixture
def kafka(broker: BrokerProcess) -> Iterator[KafkaSocket]:
    with KafkaSocket(broker.kafka_port) as client:
        client.ask(ApiVersionsRequest("stock-client", "9.8.7"), ApiVersionsResponse, 3)
        yield client


def ask(
    broker: BrokerProcess, method: str, path: str, body: object = None, token: str = TOKEN
) -> tuple[int, Any]:
    """The status and the body of an answer by HTTP."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.http_port}/api/v1{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )
    try:
        with urllib.request.urlopen(request, timeout=patient(30)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_group_is_shown_reset_and_deleted_by_the_command(
    shell: Shell, kafka: KafkaSocket, topic: str
) -> None:
    assert (
        shell.out("consume", topic, "--group", "shown", "--from", "first", "--count", "4") == b"0\n1\n2\n3\n"
    )
    member = Member(kafka, "shown", topic)
    (found,) = [each for each in shell.json("group", "list")["groups"] if each["group"] == "shown"]
    assert found == {
        "group": "shown",
        "state": "stable",
        "protocol_type": "consumer",
        "members": 1,
        "title": None,
    }
    described = shell.json("group", "describe", "shown")
    assert_same_shape(described, SHAPES["group describe"][0])
    assert [(each["position"], each["lag"], each["member"]) for each in described["partitions"]] == [
        (5, 6, "worker-1")
    ]
    members = shell.json("group", "members", "shown")
    assert_same_shape(members, SHAPES["group members"][0])
    assert members["members"][0]["host"] == "127.0.0.1"

    refused = shell.run("group", "reset", "shown", "--to-first", "--yes")
    assert refused.returncode == ExitCode.FAILED
    assert b"has 1 member: worker-1 (127.0.0.1)" in refused.stderr
    assert shell.run("group", "delete", "shown", "--yes").returncode == ExitCode.FAILED
    forced = shell.json("group", "reset", "shown", "--to-number", "8", "--yes-while-members-live")
    assert [each["after"] for each in forced["partitions"]] == [8]

    member.leave()
    looked = shell.json("group", "reset", "shown", "--to-end", "--dry-run")
    assert_same_shape(looked, SHAPES["group reset"][0])
    assert [(each["before"], each["after"], each["messages"]) for each in looked["partitions"]] == [
        (8, 11, 3)
    ]
    shell.out("group", "reset", "shown", "--by", "-3", "--yes")
    assert shell.json("lag", "shown")["groups"][0]["partitions"][0]["position"] == 5
    shell.out("group", "reset", "shown", "--to-time", "now", "--topic", topic, "--yes")
    assert shell.json("lag", "shown")["groups"][0]["lag"] == 0
    assert shell.json("group", "delete", "shown", "--yes") == {"deleted": ["shown"]}
    assert shell.run("group", "describe", "shown").returncode == ExitCode.NOT_FOUND


def test_a_group_is_shown_reset_and_deleted_by_http(
    shell: Shell, broker: BrokerProcess, kafka: KafkaSocket, topic: str
) -> None:
    shell.out("consume", topic, "--group", "by-http", "--from", "first", "--count", "4")
    status, listed = ask(broker, "GET", "/groups", token="")
    assert status == 200
    assert "by-http" in [each["group"] for each in listed["groups"]]
    member = Member(kafka, "by-http", topic)
    status, found = ask(broker, "GET", "/groups/by-http", token="")
    assert (status, found["state"], found["members"][0]["instance_id"]) == (200, "stable", "worker-1")
    (part,) = found["partitions"]
    assert (part["position"], part["lag"], part["member"]) == (5, 6, member.member_id)

    for method, path, body in (
        ("DELETE", "/groups/by-http", None),
        ("POST", "/groups/by-http/reset", {"to": "end"}),
    ):
        assert ask(broker, method, path, body, token="")[0] == 401
        status, error = ask(broker, method, path, body)
        assert (status, error["error"]["code"]) == (409, "group_not_empty")
        assert "worker-1 (127.0.0.1)" in error["error"]["message"]

    member.leave()
    status, planned = ask(broker, "POST", "/groups/by-http/reset", {"to": "end", "dry_run": True})
    assert (status, planned["partitions"][0]["messages"]) == (200, 6)
    status, done = ask(broker, "POST", "/groups/by-http/reset", {"by": -2})
    assert (status, done["partitions"][0]["after"]) == (200, 3)
    assert shell.json("lag", "by-http")["groups"][0]["partitions"][0]["position"] == 3
    assert ask(broker, "DELETE", "/groups/by-http") == (200, {"deleted": "by-http"})
    assert ask(broker, "GET", "/groups/by-http")[0] == 404


def test_clients_of_both_protocols_are_shown(shell: Shell, broker: BrokerProcess, kafka: KafkaSocket) -> None:
    (told,) = shell.json("connections")["brokers"]
    (stock,) = [each for each in told["connections"] if each["software"] == "stock-client"]
    assert (stock["protocol"], stock["software_version"]) == ("kafka", "9.8.7")
    assert {"name": "ApiVersions", "version": 3} in stock["requests"]
    assert [each for each in told["connections"] if each["protocol"] == "tank"], "the command is one itself"
    status, by_http = ask(broker, "GET", "/connections")
    assert status == 200
    assert stock["number"] in [each["number"] for each in by_http["connections"]]


def test_positions_set_for_a_new_group_are_those_of_its_first_consumer(shell: Shell, topic: str) -> None:
    shell.out("group", "reset", "fresh", "--to-number", "8", "--topic", f"{topic}:0", "--yes")
    assert shell.out("consume", topic, "--group", "fresh", "--partition", "0") == b"7\n8\n9\n"
