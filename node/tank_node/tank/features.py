"""Features (64): the messages that a broker knows, and its limits."""

from typing import TYPE_CHECKING, Final

from tank_protos.feature_levels import NATIVE_GROUPS
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
"""The messages and features that every broker of this version knows."""
GROUP_FEATURES: Final = {
    "commit_positions": 1, "list_groups": 2, "group_heartbeat": 0, "describe_groups": 0, "delete_groups": 0,
    "delete_positions": 0,
}  # fmt: skip
"""What brokers can answer from feature level `NATIVE_GROUPS` on, and in which version at most."""


def features(session: "TankSession", payload: memoryview) -> None:
    """Answers with this broker's features and limits."""
    request = FeaturesRequest.decode(payload)
    session.knows_hosts = True
    view = session.broker.link.view
    answer = FeaturesResponse(
        request_id=request.request_id,
        cluster_id=view.cluster_id,
        broker_id=view.broker_id,
        features=_features(view.feature_level),
        limits=[Limit(name, value) for name, value in session.limits.published()],
    )
    session.answer(answer)


def _features(level: int) -> list[Feature]:
    most = dict.fromkeys(FEATURES, 0)
    if level >= NATIVE_GROUPS:
        most |= GROUP_FEATURES
    return [Feature(name, 0, version) for name, version in most.items()]
