"""DescribeClientQuotas (48): this cluster has no quotas."""

from typing import TYPE_CHECKING

from tank_protos.generated.kafka import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def describe_client_quotas(call: "KafkaCall", body: memoryview) -> None:
    """Answers with an empty list, which is not null: Java's admin client takes null for a broken answer."""
    DescribeClientQuotasRequest.decode(body, call.version)
    call.answer(DescribeClientQuotasResponse(entries=[]))
