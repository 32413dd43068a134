"""Features (64): the messages that a broker knows, and its limits."""

from typing import TYPE_CHECKING

from tank_protos.generated.tank import (
    Feature,
    FeaturesRequest,
    FeaturesResponse,
    Limit,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


FEATURES = (
    "init_producer", "idempotent_produce", "find_by_time", "describe_topics", "create_topics", "alter_topic",
    "delete_topic", "commit_positions", "fetch_positions", "list_groups", "await_ends",
    "describe_broker", "describe_cluster", "reserve_producer_ids", "produce_record_batches",
    "describe_connections",
)  # fmt: skip


def features(session: "TankSession", payload: memoryview) -> None:
    """Answers with this broker's features and limits."""
    request = FeaturesRequest.decode(payload)
    session.knows_hosts = True
    view = session.broker.link.view
    answer = FeaturesResponse(
        request_id=request.request_id,
        cluster_id=view.cluster_id,
        broker_id=view.broker_id,
        features=[Feature(name, 0, 0) for name in FEATURES],
        limits=[Limit(name, value) for name, value in session.limits.published()],
    )
    session.answer(answer)
