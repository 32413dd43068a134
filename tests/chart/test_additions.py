"""What values add to pods, objects and volumes, and that it arrives where it belongs."""

import pytest

from tests.chart.combinations import ADDED, COMBINATIONS
from tests.chart.rendering import Object, RefusedError, by_key, container, key_of, pod, render, stateful_set

KINDS = ("controller", "broker")
ALL = COMBINATIONS["all that can be added"]
GIVEN = COMBINATIONS["accounts and rights that are given"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_added_to_pods_is_there_beside_our_own(kind: str) -> None:
    spec, own, plain = pod(render(ALL), kind), container(render(ALL), kind), container(render(), kind)
    assert [each["name"] for each in spec["containers"]] == [kind, "beside"]
    assert spec["initContainers"] == ADDED["initContainers"]
    assert own["envFrom"] == [{"secretRef": {"name": "tank-keys"}}], "expressions are filled in"
    assert own["env"] == plain["env"]
    assert {"name": "keys", "secret": {"secretName": "tank-keys"}} in spec["volumes"]
    assert own["volumeMounts"] == plain["volumeMounts"] + ADDED["extraVolumeMounts"]
    for field in ("runtimeClassName", "schedulerName", "dnsPolicy", "dnsConfig", "hostAliases"):
        assert spec[field] == ADDED[field]
        assert field not in pod(render(), kind)
    assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]


@pytest.mark.parametrize("kind", KINDS)
def test_probes_are_the_values_and_else_the_charts(kind: str) -> None:
    own = container(render(ALL), kind)
    assert own["livenessProbe"]["periodSeconds"] == 20
    assert own["livenessProbe"]["failureThreshold"] == 12
    assert own["readinessProbe"]["failureThreshold"] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_own_spread_constraints_stand_instead_of_the_charts(kind: str) -> None:
    (constraint,) = pod(render(ALL), kind)["topologySpreadConstraints"]
    selector = {"matchLabels": stateful_set(render(), kind)["spec"]["selector"]["matchLabels"]}
    assert constraint == {
        "maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector
    }  # fmt: skip
    own = {**constraint, "labelSelector": {"matchLabels": {"app": "mine"}}}
    assert pod(render({kind: {"topologySpreadConstraints": [own]}}), kind)["topologySpreadConstraints"] == [
        own
    ]


def test_how_pods_are_replaced_is_always_said() -> None:
    """What is left out stays as somebody has patched it, through all upgrades."""
    for kind in KINDS:
        plain = stateful_set(render(), kind)["spec"]["updateStrategy"]
        assert plain == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        assert stateful_set(render(ALL), kind)["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 2}
        by_hand = render({kind: {"updateStrategy": {"type": "OnDelete"}}})
        assert stateful_set(by_hand, kind)["spec"]["updateStrategy"] == {"type": "OnDelete"}


@pytest.mark.parametrize("name", ["all that can be added", "watched", "Spark", "a closed network"])
def test_common_labels_and_annotations_are_on_every_object_and_on_no_pod(name: str) -> None:
    common = {"commonLabels": {"team": "streams"}, "commonAnnotations": {"example.org/owner": "streams"}}
    objects = render({**COMBINATIONS[name], **common, "extraObjects": []})
    for one in objects:
        assert one["metadata"]["labels"]["team"] == "streams", key_of(one)
        assert one["metadata"]["annotations"]["example.org/owner"] == "streams", key_of(one)
    for kind in KINDS:
        meta = stateful_set(objects, kind)["spec"]["template"]["metadata"]
        assert "team" not in meta["labels"]
        assert "example.org/owner" not in meta["annotations"]


def test_a_label_of_the_users_never_takes_the_place_of_the_charts_own() -> None:
    mine = {"app.kubernetes.io/component": "mine", "team": "streams"}
    objects = render({"commonLabels": mine, "broker": {"labels": {"team": "brokers"}}})
    labels = stateful_set(objects, "broker")["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "broker"
    assert labels["team"] == "brokers", "the object's own before those of all"


def test_volumes_have_their_labels_and_the_statefulsets_theirs() -> None:
    for kind in KINDS:
        one = stateful_set(render(ALL), kind)
        (claim,) = one["spec"]["volumeClaimTemplates"]
        assert claim["metadata"] == {
            "name": "data", "labels": {"backup": "daily"}, "annotations": {"example.org/tier": "hot"}
        }  # fmt: skip
        assert one["metadata"]["labels"]["set"] == "yes"
        assert one["metadata"]["annotations"]["example.org/set"] == "yes"


def test_each_volume_is_made_of_its_own_snapshot() -> None:
    objects = render(COMBINATIONS["from snapshots"])
    by = by_key(objects)
    for kind in KINDS:
        (template,) = stateful_set(objects, kind)["spec"]["volumeClaimTemplates"]
        assert "dataSource" not in template["spec"], "it would be the same one for all"
        for n in range(3):
            claim = by["PersistentVolumeClaim", f"data-tank-{kind}-{n}"]
            assert claim["spec"]["dataSource"]["name"] == f"{kind}-{n}"
            assert {**claim["spec"], "dataSource": None} == {**template["spec"], "dataSource": None}
            assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
            selector = stateful_set(objects, kind)["spec"]["selector"]["matchLabels"]
            assert selector.items() <= claim["metadata"]["labels"].items()


def test_one_snapshot_for_several_volumes_is_refused() -> None:
    source = {"kind": "VolumeSnapshot", "name": "one"}
    with pytest.raises(RefusedError, match="each pod has a volume of its own"):
        render({"broker": {"storage": {"dataSource": source}}})
    assert render({"broker": {"replicas": 1, "storage": {"dataSource": source}}})
    with pytest.raises(RefusedError, match=r"broker\.storage\.emptyDir there are none"):
        render({"broker": {"replicas": 1, "storage": {"dataSource": source, "emptyDir": True}}})


def test_without_volumes_the_data_goes_with_the_pod() -> None:
    objects = render(COMBINATIONS["for tries"])
    for kind in KINDS:
        assert "volumeClaimTemplates" not in stateful_set(objects, kind)["spec"]
        size = "1Gi" if kind == "controller" else "10Gi"
        assert {"name": "data", "emptyDir": {"sizeLimit": size}} in pod(objects, kind)["volumes"]


def test_accounts_and_rights_are_made_or_given() -> None:
    by = by_key(render(GIVEN))
    assert not {kind for kind, _ in by} & {"ServiceAccount", "Role", "RoleBinding", "ClusterRole"}
    for kind in KINDS:
        assert pod(render(GIVEN), kind)["serviceAccountName"] == "given"
    given = by_key(render({"controller": {"serviceAccount": {"create": False, "name": "given"}}}))
    assert ("ServiceAccount", "tank-controller") not in given
    assert given["RoleBinding", "tank-controller"]["subjects"][0]["name"] == "given"
    named = by_key(
        render({"broker": {"serviceAccount": {"name": "named"}}, "rackFromNode": {"enabled": True}})
    )
    assert ("ServiceAccount", "named") in named
    assert named["ClusterRoleBinding", "data-tank-broker-zones"]["subjects"][0]["name"] == "named"
    nameless = render({"broker": {"serviceAccount": {"create": False}}})
    assert pod(nameless, "broker")["serviceAccountName"] == "default"


def test_services_are_reached_as_the_values_say() -> None:
    by = by_key(render(COMBINATIONS["how Services are reached"]))
    service = by["Service", "tank"]
    assert service["metadata"]["labels"]["network"] == "edge"
    assert service["spec"]["loadBalancerClass"] == "example.org/edge"
    assert service["spec"]["loadBalancerSourceRanges"] == ["192.0.2.0/24"]
    assert service["spec"]["externalTrafficPolicy"] == "Local"
    assert service["spec"]["internalTrafficPolicy"] == "Cluster"
    assert service["spec"]["ports"][0]["nodePort"] == 30111
    one = by["Service", "tank-broker-1"]
    assert one["spec"]["loadBalancerClass"] == "example.org/edge"
    assert one["spec"]["externalTrafficPolicy"] == "Local"
    assert one["metadata"]["labels"]["network"] == "edge"


def test_what_only_load_balancers_know_is_left_out_elsewhere() -> None:
    """The API server refuses a Service of the inside that has a class or a node's port."""
    service: Object = dict(COMBINATIONS["how Services are reached"]["service"])
    inside = by_key(render({"service": {**service, "type": "ClusterIP"}}))["Service", "tank"]["spec"]
    assert not {"loadBalancerClass", "loadBalancerSourceRanges", "externalTrafficPolicy"} & inside.keys()
    assert "nodePort" not in inside["ports"][0]


def test_a_budget_says_what_becomes_of_pods_that_are_not_ready() -> None:
    values = {"broker": {"podDisruptionBudget": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}}
    assert by_key(render(values))["PodDisruptionBudget", "tank-broker"]["spec"][
        "unhealthyPodEvictionPolicy"
    ] == ("AlwaysAllow")
    assert "unhealthyPodEvictionPolicy" not in by_key(render())["PodDisruptionBudget", "tank-broker"]["spec"]


def test_single_alerts_are_left_out_and_an_unknown_one_is_refused() -> None:
    def alerts(*disabled: str) -> set[str]:
        rules = {"enabled": True, "disabled": list(disabled)}
        (group,) = by_key(render({"monitoring": {"rules": rules}}))["PrometheusRule", "tank"]["spec"][
            "groups"
        ]
        return {each["alert"] for each in group["rules"]}

    assert alerts() - alerts("TankDiskHangs", "TankLossyElection") == {"TankDiskHangs", "TankLossyElection"}
    with pytest.raises(RefusedError, match=r'the unknown alert "TankDiscHangs": use names of Tank'):
        alerts("TankDiscHangs")


def test_objects_of_the_users_own_are_rendered_as_templates() -> None:
    name = '{{ include "tank.broker" . }}-text'
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"
    by = by_key(render({**ALL, "extraObjects": [*ALL["extraObjects"], text]}))
    assert ("ConfigMap", "tank-more") in by
    assert ("ConfigMap", "tank-broker-text") in by


def test_the_charts_test_is_a_hook_that_reaches_closed_brokers_and_goes_when_it_is_well() -> None:
    objects = render(COMBINATIONS["a network closed but for some"])
    pod = by_key(objects)["Pod", "tank-test"]
    notes = pod["metadata"]["annotations"]
    assert notes["helm.sh/hook"] == "test"
    assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    (only,) = pod["spec"]["containers"]
    assert only["command"] == ["python", "-m", "tank_cli.first_message"]
    assert only["env"] == [{"name": "TANK_SERVERS", "value": "tank.data.svc.cluster.local:11011"}]
    assert only["image"] == container(objects, "broker")["image"]
    allowed = by_key(objects)["NetworkPolicy", "tank-broker"]["spec"]["ingress"][0]["from"]
    labels = pod["metadata"]["labels"]
    selectors = [each["podSelector"]["matchLabels"] for each in allowed if "podSelector" in each]
    assert any(selector.items() <= labels.items() for selector in selectors)


def test_backups_are_taken_by_an_account_that_may_do_nothing_else() -> None:
    by = by_key(render(COMBINATIONS["backups"]))
    assert by["Role", "tank-backup"]["rules"] == [
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list"]},
        {
            "apiGroups": ["snapshot.storage.k8s.io"],
            "resources": ["volumesnapshots"],
            "verbs": ["create", "list", "delete"],
        },
    ]
    job = by["CronJob", "tank-backup"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    spec = job["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "tank-backup"
    (only,) = spec["containers"]
    given = {each["name"]: each.get("value") for each in only["env"]}
    assert (given["BACKUP_RELEASE"], given["BACKUP_CLASS"], given["BACKUP_KEEP"]) == ("tank", "fast", "3")
    assert not [name for kind, name in by_key(render()) if "backup" in name]
