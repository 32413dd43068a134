"""The names of TANK's messages by id, for metrics and for lists of clients."""

from typing import Final

MESSAGE_NAMES: Final[dict[int, str]] = {
    1: "produce", 2: "consume", 3: "ping", 4: "replica_id", 5: "produce_with_numbers",
    6: "discover_partitions", 7: "create_topic", 8: "reload_conf", 10: "status", 11: "discover_topics",
    12: "discover_topology",
    64: "features", 65: "init_producer", 66: "idempotent_produce", 67: "find_by_time", 68: "describe_topics",
    69: "create_topics",
    70: "alter_topic", 71: "delete_topic", 72: "commit_positions", 73: "fetch_positions", 74: "list_groups",
    75: "await_ends", 76: "describe_broker", 77: "describe_cluster", 78: "reserve_producer_ids",
    79: "produce_record_batches", 80: "group_heartbeat", 81: "describe_groups",
    82: "delete_groups", 83: "delete_positions", 84: "group_request", 85: "describe_connections",
    86: "fetch_stored", 87: "append_stored", 88: "partition_control", 89: "partition_sizes",
}  # fmt: skip
