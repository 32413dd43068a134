"""Values that people install the chart with: Helm lints each combination, schemas judge it."""

from tests.chart.rendering import Object, read_values

PEERS = [
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "jobs"}}},
    {"ipBlock": {"cidr": "10.0.0.0/8"}},
]
PLACED = {
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "tank", "effect": "NoSchedule"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "spark"}}}
            ]
        }
    },
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "streams"},
    "podAnnotations": {"sidecar.istio.io/inject": "false"},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "storage": {"size": "1024Gi", "className": "fast"},
    "resources": {"requests": {"cpu": 2, "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}},
}

COMBINATIONS: dict[str, Object] = {
    "defaults": {},
    "production": read_values("values-production.yaml"),
    "one of each": {"controller": {"replicas": 1}, "broker": {"replicas": 1}},
    "five controllers, forty brokers": {"controller": {"replicas": 5}, "broker": {"replicas": 40}},
    "an image from a registry": {
        "image": {"repository": "example.org/tank", "digest": "sha256:" + "0f" * 32, "pullPolicy": "Always"},
        "imagePullSecrets": ["registry"],
    },
    "options of brokers": {
        "broker": {
            "config": {"flush": "replicated", "log_format": "json", "max_connections": 1_000_000},
            "terminationGracePeriodSeconds": 40,
            "startupSeconds": 7200,
        },
        "clusterDomain": "example.internal",
        "controller": {"logLevel": "debug", "sessionTimeoutMs": 9000},
    },
    "placed": {
        "broker": PLACED,
        "controller": PLACED,
        "topologySpread": {"hosts": "", "zones": ""},
        "commonLabels": {"cost-centre": "7"},
        "serviceAccount": {"annotations": {"example.org/role": "tank"}},
    },
    "strictly spread": {"topologySpread": {"hosts": "DoNotSchedule", "zones": "DoNotSchedule"}},
    "load balancers": {
        "externalAccess": {
            "enabled": True,
            "host": "broker-{n}.example.org",
            "brokers": 5,
            "annotations": {"external-dns.alpha.kubernetes.io/hostname": "broker-{n}.example.org"},
            "sourceRanges": ["192.0.2.0/24"],
        },
        "service": {"type": "LoadBalancer", "port": 7000, "annotations": {"example.org/internal": "true"}},
    },
    "node ports": {
        "externalAccess": {"enabled": True, "type": "NodePort", "host": "a.example", "firstNodePort": 32000},
        "service": {"type": "NodePort"},
    },
    "a closed network": {"networkPolicy": {"enabled": True}},
    "a network closed but for some": {
        "networkPolicy": {"enabled": True, "clients": PEERS, "monitoring": PEERS[:1]}
    },
    "racks from nodes": {"rackFromNode": {"enabled": True}},
    "users of the cluster's choice": {"security": {"runAsUser": None, "fsGroup": None}},
    "no budgets, volumes that go": {
        "controller": {"podDisruptionBudget": {"enabled": False}},
        "broker": {"podDisruptionBudget": {"enabled": False}},
        "persistence": {"whenDeleted": "Delete"},
    },
    "an HTTP API that changes": {"controller": {"apiToken": {"secretName": "tank-api"}}},
    "watched": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "podMonitor": {"enabled": True, "interval": "1m"},
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
        }
    },
    "Spark": {"spark": {"rbac": {"enabled": True}, "networkPolicy": {"enabled": True}}},
}  # fmt: skip


def _all_at_once() -> Object:
    """The others together; where two say different things, the later one wins."""
    together: Object = {}
    for values in COMBINATIONS.values():
        for section, settings in values.items():
            before = together.get(section)
            both = isinstance(before, dict) and isinstance(settings, dict)
            together[section] = {**before, **settings} if both else settings  # type: ignore[dict-item]
    return together


COMBINATIONS["all at once"] = _all_at_once()
