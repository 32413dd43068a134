"""DescribeAcls, CreateAcls and DeleteAcls (29 to 31): this broker has no access rules, and allows all."""

from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_protos.generated.kafka import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tank_protos.generated.kafka.create_acls_response import AclCreationResult
from tank_protos.generated.kafka.delete_acls_response import DeleteAclsFilterResult

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_DISABLED: Final = KafkaError.SECURITY_DISABLED
_SENTENCE: Final = "this cluster has no access rules: all clients may do everything"


def describe_acls(call: "KafkaCall", body: memoryview) -> None:
    """Answers that there are none: tools that list them go on."""
    DescribeAclsRequest.decode(body, call.version)
    call.answer(DescribeAclsResponse(resources=[]))


def create_acls(call: "KafkaCall", body: memoryview) -> None:
    """Refuses each rule: one that were taken would not be kept to."""
    request = CreateAclsRequest.decode(body, call.version)
    results = [AclCreationResult(_DISABLED, _SENTENCE) for _ in request.creations]
    call.answer(CreateAclsResponse(results=results), outcome_of(_DISABLED))


def delete_acls(call: "KafkaCall", body: memoryview) -> None:
    """Refuses each filter."""
    request = DeleteAclsRequest.decode(body, call.version)
    results = [DeleteAclsFilterResult(_DISABLED, _SENTENCE, []) for _ in request.filters]
    call.answer(DeleteAclsResponse(filter_results=results), outcome_of(_DISABLED))
