"""What `--output json` prints, by command, as examples: the reference shows them, and a test holds the
commands to them.

Keys are stable: none goes away or changes its type; new ones may come. null: unknown to the broker.
"""

from tank_cli.shell.output import Json

_LATENCY: Json = {"p50": 0.4, "p90": 0.5, "p99": 0.9, "p99.9": 2.1, "max": 3.2}


def _bench(name: str, *latencies: str) -> dict[str, Json]:
    return {
        "bench": name,
        "topic": "bench-3f2a9c01",
        "messages": 500000,
        "bytes": 50000000,
        "seconds": 0.5,
        "messages_per_s": 1000000.0,
        "bytes_per_s": 100000000.0,
        "latency_ms": dict.fromkeys(latencies, _LATENCY),
    }


_CLUSTER: Json = {
    "cluster_id": "6f1c3f0e-8a57-4d4c-9d1c-2b7f3c0a5e11",
    "processes": [
        {
            "role": "controller",
            "id": 1,
            "pid": 4711,
            "addresses": {"tank": None, "kafka": None, "http": "127.0.0.1:11112", "grpc": "127.0.0.1:11111"},
        },
        {
            "role": "broker",
            "id": 1,
            "pid": 4712,
            "addresses": {
                "tank": "127.0.0.1:11011",
                "kafka": "127.0.0.1:11211",
                "http": "127.0.0.1:11012",
                "grpc": None,
            },
        },
    ],
}

_BROKER: Json = {
    "broker_id": 3,
    "address": "127.0.0.1:11015",
    "rack": "",
    "fenced": True,
    "connected": False,
    "draining": False,
    "scaled_down": False,
    "stopping": False,
    "clock_off": False,
    "no_room": False,
    "replicas": 12,
    "leads": 0,
    "arriving": 0,
}
_PARTITION: Json = {
    "topic": "flights",
    "partition": 0,
    "leader": None,
    "leader_epoch": 5,
    "replicas": [1, 2, 3],
    "in_sync": [],
    "min_insync": 2,
    "eligible": [2, 3],
    "impaired": [2],
    "adding": [],
    "removing": [],
    "lossy_elections": 0,
    "lossy_epoch": 0,
    "troubles": ["under_replicated", "below_min_insync", "leaderless"],
    "waits_for": [3],
    "unreadable": [],
}

_PROGRESS: dict[str, Json] = {
    "topic": "flights",
    "partition": 0,
    "position": 989,
    "first_available": 1,
    "high_water_mark": 1000,
    "lag": 12,
    "expired": 0,
    "committed_ms": 1357016400000,
}

_CONTROLLER: Json = {
    "id": 2,
    "address": "127.0.0.1:11113",
    "state": "leads, follows, learns or down",
    "term": 3,
    "commit_index": 120,
    "applied_index": 120,
    "behind": 0,
    "problem": None,
    "free_bytes": 51539607552,
    "disk_bytes": 107374182400,
}

SHAPES: dict[str, tuple[Json, ...]] = {
    "cluster up": (_CLUSTER,),
    "cluster down": ({"stopped": [{"role": "broker", "id": 1, "killed": False}]},),
    "cluster logs": (
        {"logs": [{"name": "broker-1", "lines": ["2026-11-21T09:00:00.000Z INFO tank: stopping"]}]},
    ),
    "cluster status": (
        {
            "cluster_id": "6f1c3f0e-8a57-4d4c-9d1c-2b7f3c0a5e11",
            "leader": 2,
            "healthy": False,
            "controllers": [_CONTROLLER],
            "brokers": [_BROKER],
            "topics": 1,
            "partitions": {
                "total": 3,
                "healthy": 2,
                "under_replicated": 1,
                "below_min_insync": 1,
                "leaderless": 1,
                "moving": 0,
                "displaced": 0,
            },
            "lossy_elections": 0,
            "balanced": True,
            "feature_level": 1,
            "next_level_waits_for": {"brokers": [3], "controllers": [], "topics": [], "groups": []},
            "waiting": [_PARTITION],
            "moving": [_PARTITION],
            "reports": [
                {
                    "broker_id": 1,
                    "reached": True,
                    "data_bytes": 1288490,
                    "free_bytes": 51539607552,
                    "disk_bytes": 107374182400,
                    "troubles": [],
                }
            ],
            "warnings": [
                {
                    "warning": "Broker 3 is fenced: it is down, or can't reach the controllers.",
                    "help": ["Start it. Gone for good: tank cluster drain 3, then `remove 3`."],
                }
            ],
        },
    ),
    "cluster brokers": ({"brokers": [_BROKER]},),
    "cluster topics": (
        {
            "topics": [
                {
                    "topic": "flights",
                    "topic_id": 7,
                    "partitions": 3,
                    "replication_factor": 3,
                    "min_insync": 2,
                    "under_replicated": 1,
                    "below_min_insync": 1,
                    "leaderless": 1,
                    "lossy_elections": 0,
                    "settings": {"flush": "replicated"},
                }
            ]
        },
    ),
    "cluster controllers": ({"controllers": [_CONTROLLER]},),
    "cluster transfer": ({"leader": 2},),
    "cluster remove-controller": ({"removed_controller": 3},),
    "cluster partitions": ({"partitions": [_PARTITION]},),
    "cluster elect": ({"topic": "flights", "partition": 0, "leader": 2, "lossy": True},),
    "cluster drain": ({"broker": 3, "draining": True, "replicas": 0, "leads": 0},),
    "cluster move": ({"topic": "flights", "partition": 0, "replicas": [4, 2, 3], "moving": False},),
    "cluster balance": ({"balanced": True, "brokers": [{"broker_id": 1, "replicas": 12, "leads": 4}]},),
    "cluster remove": ({"removed": 3},),
    "topic create": ({"topic": "flights", "created": True},),
    "topic list": (
        {
            "topics": [
                {
                    "name": "flights",
                    "topic_id": 7,
                    "partitions": 2,
                    "replication_factor": 1,
                    "messages": 336776,
                    "size_bytes": 41943040,
                    "settings": {"flush": "replicated"},
                }
            ]
        },
    ),
    "topic describe": (
        {
            "name": "flights",
            "topic_id": 7,
            "replication_factor": 1,
            "settings": [{"key": "flush", "value": "replicated", "is_default": False}],
            "partitions": [
                {
                    "partition": 0,
                    "leader": 1,
                    "leader_epoch": 3,
                    "replicas": [1],
                    "in_sync": [1],
                    "first_available": 1,
                    "high_water_mark": 168388,
                    "size_bytes": 20971520,
                }
            ],
        },
    ),
    "topic alter": ({"topic": "flights", "altered": True},),
    "topic delete": ({"deleted": ["flights"]},),
    "produce": (
        {
            "topic": "flights",
            "partition": 0,
            "messages": 1000,
            "bytes": 65536,
            "seconds": 0.04,
            "first": 1,
            "last": 1000,
        },
    ),
    "consume": (
        {
            "topic": "flights",
            "partition": 0,
            "number": 1,
            "timestamp_ms": 1357016400000,
            "key": "UA",
            "value": "text, when it is UTF-8",
        },
        {
            "topic": "flights",
            "partition": 0,
            "number": 2,
            "timestamp_ms": 1357016400000,
            "key_base64": "/w==",
            "value_base64": "/w==",
        },
    ),
    "lag": (
        {
            "groups": [
                {"group": "audit", "title": None, "lag": 12, "problem": None, "partitions": [_PROGRESS]}
            ]
        },
    ),
    "group list": (
        {
            "groups": [
                {
                    "group": "billing",
                    "state": "stable",
                    "protocol_type": "consumer",
                    "members": 2,
                    "title": None,
                }
            ]
        },
    ),
    "group describe": (
        {
            "group": "billing",
            "title": None,
            "state": "stable",
            "protocol_type": "consumer",
            "protocol": "uniform",
            "epoch": 7,
            "members": 2,
            "lag": 12,
            "partitions": [{**_PROGRESS, "member": "worker-1"}],
        },
    ),
    "group members": (
        {
            "group": "billing",
            "members": [
                {
                    "member_id": "worker-1-4f0e6c8a",
                    "instance_id": "worker-1",
                    "client": "worker",
                    "host": "10.0.0.7",
                    "epoch": 7,
                    "topics": ["flights"],
                    "partitions": [{"topic": "flights", "partitions": [0, 1]}],
                }
            ],
        },
    ),
    "group reset": (
        {
            "group": "billing",
            "dry_run": False,
            "partitions": [{"topic": "flights", "partition": 0, "before": 989, "after": 1, "messages": -988}],
        },
    ),
    "group delete": ({"deleted": ["billing"]},),
    "iggy user list": (
        {
            "users": [
                {
                    "number": 1,
                    "name": "alice",
                    "active": True,
                    "created_ms": 1357016400000,
                    "tokens": 1,
                    "permissions": [{"place": "stream 0", "rights": ["read_stream"]}],
                }
            ]
        },
    ),
    "iggy user create": ({"number": 1, "name": "alice", "root": False},),
    "iggy user update": ({"updated": "alice"},),
    "iggy user password": ({"updated": "alice"},),
    "iggy user permissions": (
        {"name": "alice", "permissions": [{"place": "topic 0/1", "rights": ["send_messages"]}]},
        {"updated": "alice"},
    ),
    "iggy user delete": ({"deleted": "alice"},),
    "iggy token list": ({"user": "alice", "tokens": [{"name": "laptop", "expires_us": 1357016400000000}]},),
    "iggy token create": (
        {"user": "alice", "name": "laptop", "token": "3q2-7w…", "expires_us": 1357016400000000},
    ),
    "iggy token delete": ({"deleted": "laptop"},),
    "status": (
        {
            "servers": "127.0.0.1:11011",
            "version": 1000,
            "cluster_id": "5f0c…",
            "broker_id": 1,
            "start_time_s": 1357016400,
            "topics": 1,
            "partitions": 2,
            "open_partitions": 2,
            "messages": 336776,
            "size_bytes": 41943040,
            "software_version": "0.1.0",
            "uptime_ms": 86400000,
            "data_folder": "/var/lib/tank",
            "data_bytes": 42000000,
            "free_bytes": 107374182400,
            "disk_bytes": 214748364800,
            "open_files": 4,
            "connections": 1,
            "iggy_eras": [{"era": "B3", "connections": 1}],
            "troubles": [
                {
                    "topic": "flights",
                    "partition": 1,
                    "trouble": "damaged",
                    "reason": "batch 9 to 12: its checksum does not match",
                }
            ],
            "stray_folders": [{"path": "/var/lib/tank/topics/.stray-9-1", "size_bytes": 864450}],
            "without_leader": ["flights/1"],
            "brokers": [{"broker_id": 1, "host": "127.0.0.1", "port": 11011, "rack": ""}],
            "features": {"FindByTime": [0, 0]},
            "limits": {"max_frame_bytes": 268435456},
            "round_trip_ms": 0.2,
        },
    ),
    "connections": (
        {
            "brokers": [
                {
                    "broker_id": 1,
                    "reached": True,
                    "connections": [
                        {
                            "number": 7,
                            "protocol": "kafka",
                            "address": "10.0.0.7:43210",
                            "client_id": "billing-1",
                            "software": "librdkafka",
                            "software_version": "2.6.0",
                            "connected_ms": 61000,
                            "received_bytes": 4711,
                            "sent_bytes": 98304,
                            "in_flight": 1,
                            "requests": [{"name": "Fetch", "version": 16}],
                        }
                    ],
                }
            ]
        },
    ),
    "bench produce": (_bench("produce", "ack"),),
    "bench consume": (_bench("consume"),),
    "bench latency": (_bench("latency", "ack", "delivery"),),
    "log verify": (
        {
            "ok": True,
            "partitions": [
                {
                    "topic": "flights",
                    "topic_id": 7,
                    "partition": 0,
                    "path": "/var/lib/tank/topics/7/0",
                    "stray": False,
                    "segments": 1,
                    "batches": 20,
                    "messages": 200000,
                    "first": 1,
                    "last": 200000,
                    "bytes": 864450,
                    "unfinished_bytes": 0,
                    "problems": ["segment …, batch 9 to 12: its checksum does not match"],
                }
            ],
        },
    ),
    "log dump": (
        {
            "topic": "flights",
            "topic_id": 7,
            "partition": 0,
            "segment": 1,
            "position": 857957,
            "length": 6492,
            "first": 198438,
            "last": 200000,
            "message_count": 1563,
            "append_ms": 1357016400000,
            "max_timestamp_ms": 1357016400000,
            "leader_epoch": 1,
            "producer_id": 5,
            "producer_epoch": 0,
            "producer_sequence": 198437,
            "format": 0,
            "flags": 0,
            "crc32c": 426318573,
            "problem": None,
        },
    ),
    "demo": (
        {
            "messages": 200000,
            "produce_seconds": 0.4,
            "consume_seconds": 0.15,
            "repeats_sent": 3,
            "repeats_stored": 1,
            "kills": 3,
            "recovery_seconds": [0.4, 0.4, 0.4],
            "entries": 19280,
            "start_seconds": 0.4,
            "stop_seconds": 0.1,
            "seconds": 6.7,
        },
    ),
    "iggy stream list": (
        {
            "streams": [
                {"number": 0, "name": "main", "topics": 1, "created_ms": 1357016400000, "going": False}
            ]
        },
    ),
    "iggy stream create": ({"stream": "main", "number": 0},),
    "iggy stream rename": ({"stream": "archive", "number": 0},),
    "iggy stream delete": ({"deleted": "main"},),
    "iggy stream purge": ({"purged": "main", "topics": 1},),
    "iggy topic list": (
        {
            "topics": [
                {
                    "stream": "main",
                    "number": 0,
                    "name": "orders",
                    "topic": "main.orders",
                    "partitions": 3,
                    "exposed": False,
                }
            ]
        },
    ),
    "iggy topic create": ({"stream": "main", "topic": "orders", "number": 0},),
    "iggy topic rename": ({"stream": "main", "topic": "bills", "number": 0},),
    "iggy topic alter": ({"stream": "main", "topic": "orders", "altered": True},),
    "iggy topic shrink": ({"stream": "main", "topic": "orders", "removed": 2, "partitions": 1},),
    "iggy topic delete": ({"deleted": "orders", "stream": "main"},),
    "iggy topic purge": ({"purged": "orders", "stream": "main"},),
    "iggy group list": ({"groups": [{"stream": "main", "topic": "orders", "number": 0, "name": "readers"}]},),
    "iggy group create": ({"group": "readers", "number": 0},),
    "iggy group delete": ({"deleted": "readers"},),
    "iggy expose": ({"topic": "payments", "stream": "main", "name": "payments", "number": 1},),
    "iggy hide": ({"hidden": "payments"},),
}
