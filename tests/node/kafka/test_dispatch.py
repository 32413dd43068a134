"""The table of Kafka's requests: what is served, and thereby advertised."""

from pathlib import Path

from tank_node.kafka.dispatch import APIS
from tank_protos.generated.kafka.by_id import REQUESTS

SERVED = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
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
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    48: "DescribeClientQuotas",
    50: "DescribeUserScramCredentials",
    60: "DescribeCluster",
    61: "DescribeProducers",
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
