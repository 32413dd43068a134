"""The table of Kafka's requests: what is served, and thereby advertised."""

import subprocess
import sys
from pathlib import Path

from tank_node.kafka.dispatch import APIS
from tank_protos.generated.kafka.by_id import REQUESTS
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

SERVED = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    50: "DescribeUserScramCredentials",
    60: "DescribeCluster",
    61: "DescribeProducers",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    75: "DescribeTopicPartitions",
}


def test_these_requests_are_served() -> None:
    assert {key: api.name for key, api in APIS.items()} == SERVED
    assert list(APIS) == sorted(APIS)


def test_each_is_served_in_every_version_that_there_is() -> None:
    """Some clients pin a version and never ask; some judge the broker's age by single ranges."""
    for key, api in APIS.items():
        assert (api.lowest, api.highest) == REQUESTS[key].VERSIONS, api.name
        assert f"{api.name}Request" == REQUESTS[key].__name__


def test_the_page_on_compatibility_has_this_table() -> None:
    page = (Path(__file__).parents[3] / "docs/kafka-compatibility.md").read_text()
    rows = [f"| {key} | {api.name} | {api.lowest}-{api.highest} |" for key, api in APIS.items()]
    assert "\n".join(rows) in page


def test_the_first_request_finds_its_handler(tmp_path: Path) -> None:
    """Handlers are imported by name: each must be there, and be the one of its request."""
    with BenchNode(tmp_path / "data") as node:
        for key, api in APIS.items():
            KafkaLine(node).send(REQUESTS[key](), api.highest)
            assert api.handle.__name__.replace("_", "") == api.name.lower()


def test_handlers_that_no_client_asked_for_are_not_imported() -> None:
    """All of them, with their messages, take 5 MB; a broker may have few clients of Kafka's."""
    program = (
        "import sys, tank_node.kafka.dispatch;"
        "print(*(name for name in sys.modules if name.startswith('tank_protos.generated.kafka.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert imported <= {"headers", "request_header"}
