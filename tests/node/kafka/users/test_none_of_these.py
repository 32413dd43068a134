"""Access rules, quotas, users and authentication: there are none, which every client can read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tank_protos.generated.kafka.create_acls_request import AclCreation
from tank_protos.generated.kafka.delete_acls_request import DeleteAclsFilter
from tank_protos.generated.kafka.describe_client_quotas_request import ComponentData
from tank_protos.generated.kafka.describe_user_scram_credentials_request import UserName
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def line(tmp_path: Path) -> Iterator[KafkaLine]:
    with BenchNode(tmp_path / "data") as node:
        yield KafkaLine(node)


@pytest.mark.parametrize("version", range(4))
def test_there_are_no_access_rules(line: KafkaLine, version: int) -> None:
    answer = line.ask(DescribeAclsRequest(resource_type_filter=1), DescribeAclsResponse, version)
    assert (answer.error_code, answer.error_message, answer.resources) == (0, "", [])


@pytest.mark.parametrize("version", range(4))
def test_no_access_rule_is_taken_that_would_not_be_kept_to(line: KafkaLine, version: int) -> None:
    rule = AclCreation(2, "a", principal="User:x", host="*", operation=3, permission_type=3)
    created = line.ask(CreateAclsRequest([rule, rule]), CreateAclsResponse, version)
    assert [result.error_code for result in created.results] == [54, 54]
    assert all("everything" in (result.error_message or "") for result in created.results)
    filtered = DeleteAclsFilter(1, operation=1, permission_type=1)
    deleted = line.ask(DeleteAclsRequest([filtered]), DeleteAclsResponse, version)
    (result,) = deleted.filter_results
    assert (result.error_code, result.matching_acls) == (54, [])


@pytest.mark.parametrize("version", range(2))
def test_quotas_are_an_empty_list_and_not_null(line: KafkaLine, version: int) -> None:
    for components in ([], [ComponentData("user", 2)]):
        request = DescribeClientQuotasRequest(components)
        answer = line.ask(request, DescribeClientQuotasResponse, version)
        assert answer.error_code == 0
        assert answer.entries == []


def test_there_are_no_users_and_each_that_is_named_is_unknown(line: KafkaLine) -> None:
    nobody: list[UserName] = []
    for users in (None, nobody):
        request = DescribeUserScramCredentialsRequest(users)
        answer = line.ask(request, DescribeUserScramCredentialsResponse, 0)
        assert (answer.error_code, answer.results) == (0, [])
    request = DescribeUserScramCredentialsRequest([UserName("x"), UserName("y")])
    answer = line.ask(request, DescribeUserScramCredentialsResponse, 0)
    assert answer.error_code == 0
    assert [(each.user, each.error_code, each.credential_infos) for each in answer.results] == [
        ("x", 91, []),
        ("y", 91, []),
    ]


@pytest.mark.parametrize("version", range(2))
def test_a_client_that_begins_to_authenticate_hears_that_it_cannot(line: KafkaLine, version: int) -> None:
    answer = line.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version)
    assert (answer.error_code, answer.mechanisms) == (34, [])


@pytest.mark.parametrize("version", range(3))
def test_a_token_is_refused(line: KafkaLine, version: int) -> None:
    answer = line.ask(SaslAuthenticateRequest(b"\0user\0secret"), SaslAuthenticateResponse, version)
    assert (answer.error_code, answer.auth_bytes) == (34, b"")
    assert "PLAINTEXT" in (answer.error_message or "")
