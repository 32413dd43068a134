"""DescribeUserScramCredentials (50): this cluster has no users."""

from typing import TYPE_CHECKING

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.metrics import OK
from tank_protos.generated.kafka import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tank_protos.generated.kafka.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def describe_user_scram_credentials(call: "KafkaCall", body: memoryview) -> None:
    """Answers that there are no users; of those that are named: that each is unknown."""
    request = DescribeUserScramCredentialsRequest.decode(body, call.version)
    unknown = KafkaError.RESOURCE_NOT_FOUND
    results = [
        DescribeUserScramCredentialsResult(user.name, unknown, f"there is no user {user.name[:60]!a}", [])
        for user in request.users or []
    ]
    call.answer(DescribeUserScramCredentialsResponse(results=results), outcome_of(unknown) if results else OK)
