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

ADDED = {
    "extraEnvFrom": [{"secretRef": {"name": "{{ .Release.Name }}-keys"}}],
    "extraVolumes": [{"name": "keys", "secret": {"secretName": "{{ .Release.Name }}-keys"}}],
    "extraVolumeMounts": [{"name": "keys", "mountPath": "/keys", "readOnly": True}],
    "extraContainers": [{"name": "beside", "image": "example.org/beside:1"}],
    "initContainers": [{"name": "before", "image": "example.org/before:1"}],
    "annotations": {"example.org/set": "yes"},
    "labels": {"set": "yes"},
    "updateStrategy": {"type": "RollingUpdate", "partition": 2},
    "probes": {"liveness": {"periodSeconds": 20}, "readiness": {"failureThreshold": 5}},
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "runtimeClassName": "gvisor",
    "schedulerName": "own",
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["registry.example.org"]}],
    "storage": {"labels": {"backup": "daily"}, "annotations": {"example.org/tier": "hot"}},
}

COMBINATIONS: dict[str, Object] = {
    "defaults": {},
    "production": read_values("values-production.yaml"),
    "production, watched": {
        **read_values("values-production.yaml"), **read_values("values-monitoring.yaml")
    },
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
        "controller": {
            "logLevel": "debug", "logFormat": "json", "sessionTimeoutMs": 9000, "clockSkewMaxMs": 500,
        },
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
    "a secret of one's own": {"clusterSecret": {"secretName": "tank-shared", "key": "line"}},
    "no secret": {"clusterSecret": {"enabled": False}},
    "an HTTP API that changes": {"controller": {"apiToken": {"secretName": "tank-api"}}},
    "watched": {
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "podMonitor": {"enabled": True, "interval": "1m"},
            "rules": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
        }
    },
    "a few alerts": {"monitoring": {"rules": {"enabled": True, "disabled": ["TankDiskHangs"]}}},
    "all that can be added": {
        "controller": ADDED,
        "broker": ADDED,
        "imagePullSecrets": ["registry", {"name": "mirror"}],
        "commonAnnotations": {"example.org/owner": "streams"},
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "{{ .Release.Name }}-more",
                    "labels": {
                        "app.kubernetes.io/name": "tank",
                        "app.kubernetes.io/instance": "{{ .Release.Name }}",
                        "app.kubernetes.io/managed-by": "Helm",
                    },
                },
            }
        ],
    },
    "accounts and rights that are given": {
        "controller": {"serviceAccount": {"create": False, "name": "given"}},
        "broker": {"serviceAccount": {"create": False, "name": "given"}},
        "rbac": {"create": False},
        "rackFromNode": {"enabled": True},
    },
    "how Services are reached": {
        "service": {
            "type": "LoadBalancer",
            "labels": {"network": "edge"},
            "loadBalancerClass": "example.org/edge",
            "sourceRanges": ["192.0.2.0/24"],
            "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster",
            "nodePort": 30111,
        },
        "externalAccess": {
            "enabled": True,
            "host": "broker-{n}.example.org",
            "labels": {"network": "edge"},
            "loadBalancerClass": "example.org/edge",
            "externalTrafficPolicy": "Local",
        },
    },
    "from snapshots": {
        kind: {"storage": {"dataSource": {
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": f"{kind}-{{n}}"
        }}}
        for kind in ("controller", "broker")
    },
    "Iggy's clients": {
        "iggy": {"enabled": True},
        "service": {"type": "NodePort", "iggyPort": 18090, "iggyNodePort": 30090},
        "externalAccess": {
            "enabled": True, "type": "NodePort", "host": "a.example", "firstIggyNodePort": 31000,
        },
        "broker": {"config": {"iggy_era": "V11", "iggy_poll_wait_ms": 500, "iggy_anonymous": False}},
    },
    "Iggy's clients, a root user of one's own": {
        "iggy": {"enabled": True, "root": {"secretName": "tank-root", "key": "line"}},
        "networkPolicy": {"enabled": True},
    },
    "backups": {"backup": {"enabled": True, "snapshotClassName": "fast", "keep": 3}},
    "for tries": {kind: {"storage": {"emptyDir": True}} for kind in ("controller", "broker")},
    "Spark": {"spark": {"rbac": {"enabled": True}, "networkPolicy": {"enabled": True}}},
}  # fmt: skip


def _all_at_once() -> Object:
    """The others together; where two say different things, the later one wins."""
    together: Object = {}
    for name, values in COMBINATIONS.items():
        if name in ("for tries", "accounts and rights that are given"):  # the others have volumes and rights
            continue
        for section, settings in values.items():
            before = together.get(section)
            both = isinstance(before, dict) and isinstance(settings, dict)
            together[section] = {**before, **settings} if both else settings  # type: ignore[dict-item]
    return together


COMBINATIONS["all at once"] = _all_at_once()
