"""What is in the objects: names, labels, rights, security, and options that the programs understand."""

import re
from typing import Any

import pytest

from tank_cli import started
from tank_cli.shell.session import CONTROLLERS_VARIABLE, SERVERS_VARIABLE
from tank_controller.__main__ import main as controller_command
from tank_node.app.config import OPTIONS
from tests.chart.combinations import COMBINATIONS
from tests.chart.rendering import (
    Object,
    RefusedError,
    by_key,
    config_of_broker,
    container,
    environment,
    key_of,
    pod,
    render,
    stateful_set,
)

KINDS = ("controller", "broker")


@pytest.fixture(params=COMBINATIONS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    """All that a combination renders."""
    return render(COMBINATIONS[request.param])


# --- names and labels ---


def test_every_object_is_there_once_and_says_whose_it_is(objects: list[Object]) -> None:
    for one in by_key(objects).values():
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "tank", key_of(one)
        assert labels["app.kubernetes.io/instance"] == "tank"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert one["metadata"].get("namespace") is None, "the release's namespace is Helm's to say"


def test_selectors_find_their_own_pods_and_no_others(objects: list[Object]) -> None:
    labels = {kind: stateful_set(objects, kind)["spec"]["template"]["metadata"]["labels"] for kind in KINDS}

    def found(selector: Object) -> set[str]:
        return {kind for kind in KINDS if selector.items() <= labels[kind].items()}

    for one in objects:
        name, spec = one["metadata"]["name"], one.get("spec", {})
        kind = "controller" if name.startswith("tank-controller") else "broker"
        if one["kind"] == "Service":
            selector = dict(spec["selector"])
            ordinal = selector.pop("statefulset.kubernetes.io/pod-name", None)
            assert ordinal in (None, name)
            assert found(selector) == {kind}
        elif one["kind"] in ("StatefulSet", "PodDisruptionBudget"):
            assert found(spec["selector"]["matchLabels"]) == {kind}
        elif one["kind"] == "NetworkPolicy" and "matchLabels" in spec["podSelector"]:
            assert found(spec["podSelector"]["matchLabels"]) == {kind}
        elif one["kind"] in ("ServiceMonitor", "PodMonitor"):
            wanted = dict(spec["selector"]["matchLabels"])
            if one["kind"] == "ServiceMonitor":
                services = [s for s in objects if s["kind"] == "Service"]
                chosen = [s for s in services if wanted.items() <= s["metadata"]["labels"].items()]
                assert [key_of(s) for s in chosen] == [("Service", name)]
            else:
                assert found(wanted) == {kind}


def test_ports_have_the_names_that_others_use(objects: list[Object]) -> None:
    named = {
        kind: {port["name"] for port in container(objects, kind)["ports"]} for kind in KINDS
    }  # fmt: skip
    for one in objects:
        kind = "controller" if one["metadata"]["name"].startswith("tank-controller") else "broker"
        if one["kind"] == "Service":
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= named[kind]
        if one["kind"] == "NetworkPolicy":
            used = {p["port"] for rule in one["spec"]["ingress"] for p in rule.get("ports", [])}
            assert used <= named[kind]
    for kind in KINDS:
        probes = container(objects, kind)
        for probe in ("livenessProbe", "readinessProbe"):
            assert probes[probe]["httpGet"]["port"] in named[kind]
        ports = {port["name"]: port["containerPort"] for port in probes["ports"]}
        assert probes["startupProbe"]["exec"]["command"][-1] == str(ports["http"])


# --- what the processes are told ---


def test_a_broker_understands_its_options(objects: list[Object]) -> None:
    config = config_of_broker(objects, 0)
    assert config.listen.port == 11011
    assert config.http is not None
    assert config.http.port == 11012
    assert config.advertise is not None
    assert str(config.data).startswith("/var/lib/tank/")


def test_every_variable_is_one_that_a_program_reads(objects: list[Object]) -> None:
    """A misspelt one would be passed over in silence."""
    tools = {SERVERS_VARIABLE, CONTROLLERS_VARIABLE}
    of_brokers = {option.variable for option in OPTIONS} | {"TANK_CONFIG"} | tools | BROKERS_MORE
    of_controllers = _variables() | tools
    for kind, known in (("broker", of_brokers), ("controller", of_controllers)):
        given = {each["name"] for each in container(objects, kind)["env"] if each["name"].startswith("TANK_")}
        assert given <= known


def _variables() -> set[str]:
    """Of `tank-controller`: what click reads, which is not always what the flag is called."""
    prefix = controller_command.context_settings["auto_envvar_prefix"]
    found: set[str] = set()
    for each in controller_command.params:
        named = [each.envvar] if isinstance(each.envvar, str) else each.envvar
        found.update(named or [f"{prefix}_{each.name}".upper()])
    return found


BROKERS_MORE = {"TANK_LEAVE_MS", "TANK_RACK_FROM_NODE"}
"""What `tank-node` reads beside the options of its file."""


def test_numbers_reach_a_broker_as_they_were_written() -> None:
    """Helm makes floats of numbers: 4096.0 and 1e+06 are no numbers of connections."""
    for number in (4096, 1_000_000):
        objects = render({"broker": {"config": {"max_connections": number}}})
        assert config_of_broker(objects, 0).max_connections == number


def test_controllers_and_brokers_know_all_controllers() -> None:
    data = by_key(render({"controller": {"replicas": 5}, "clusterDomain": "x.org"}))[
        "ConfigMap", "tank-members"
    ]["data"]
    hosts = [f"tank-controller-{n}.tank-controller.data.svc.x.org:9090" for n in range(5)]
    assert data["controllers"].split(",") == [*hosts, "tank-controller.data.svc.x.org:9090"]
    assert data["cluster"].split(",") == [f"{n}={host}" for n, host in enumerate(hosts)]


def test_brokers_of_a_single_controller_find_those_that_kubectl_scale_adds() -> None:
    """Their list is as old as helm's last word: behind the name of the Service is every pod of now."""
    by = by_key(render({"controller": {"replicas": 1}}))
    named = by["ConfigMap", "tank-members"]["data"]["controllers"].split(",")
    host, port = named[-1].split(":")
    service = by["Service", host.split(".")[0]]["spec"]
    assert (host, service["clusterIP"]) == ("tank-controller.data.svc.cluster.local", "None")
    assert int(port) in {each["port"] for each in service["ports"]}
    assert service["publishNotReadyAddresses"]


def test_brokers_advertise_what_their_headless_service_names() -> None:
    advertise = environment(render(), "broker")["TANK_ADVERTISE"]
    assert advertise == "$(POD_NAME).tank-broker.data.svc.cluster.local:11011"
    spec = stateful_set(render(), "broker")["spec"]
    assert spec["serviceName"] == "tank-broker"


def test_outside_addresses_are_each_brokers_own() -> None:
    balanced = render(COMBINATIONS["load balancers"])
    assert [str(config_of_broker(balanced, n).outside_advertise) for n in (0, 4)] == [
        "broker-0.example.org:11011",
        "broker-4.example.org:11011",
    ]
    service = by_key(balanced)["Service", "tank-broker-4"]
    assert service["metadata"]["annotations"] == {
        "external-dns.alpha.kubernetes.io/hostname": "broker-4.example.org"
    }
    assert service["spec"]["publishNotReadyAddresses"]
    on_nodes = render(COMBINATIONS["node ports"])
    assert str(config_of_broker(on_nodes, 2).outside_advertise) == "a.example:32002"
    assert by_key(on_nodes)["Service", "tank-broker-2"]["spec"]["ports"][0]["nodePort"] == 32002


def test_pods_and_replication_stay_inside_whatever_the_outside_is_told() -> None:
    for values in (COMBINATIONS["load balancers"], COMBINATIONS["node ports"]):
        objects = render(values)
        config, by = config_of_broker(objects, 1), by_key(objects)
        assert str(config.advertise) == "tank-broker-1.tank-broker.data.svc.cluster.local:11011"
        ports = {each["name"]: each["containerPort"] for each in container(objects, "broker")["ports"]}
        assert config.outside_listen is not None
        assert ports["outside"] == config.outside_listen.port
        assert by["Service", "tank-broker-1"]["spec"]["ports"][0]["targetPort"] == "outside"
        assert by["Service", "tank"]["spec"]["ports"][0]["targetPort"] == "tank"
    assert config_of_broker(render(), 0).outside_listen is None


def test_load_balancers_that_share_an_address_are_refused() -> None:
    with pytest.raises(RefusedError, match="an address of its own"):
        render({"externalAccess": {"enabled": True, "host": "brokers.example.org"}})


def test_leaving_gets_most_of_the_grace_and_the_stop_the_rest() -> None:
    for grace, leave_ms in ((600, 570_000), (40, 20_000), (30, 15_000)):
        objects = render({"broker": {"terminationGracePeriodSeconds": grace}})
        assert environment(objects, "broker")["TANK_LEAVE_MS"] == str(leave_ms)
        assert pod(objects, "broker")["terminationGracePeriodSeconds"] == grace


def test_nobody_waits_for_another_pod_to_be_ready(objects: list[Object]) -> None:
    for kind in KINDS:
        assert stateful_set(objects, kind)["spec"]["podManagementPolicy"] == "Parallel"
        headless = by_key(objects)["Service", f"tank-{kind}"]["spec"]
        assert headless["clusterIP"] == "None"
        assert headless["publishNotReadyAddresses"] is True


def test_volumes_stay_when_a_cluster_shrinks(objects: list[Object]) -> None:
    for kind in KINDS:
        spec = stateful_set(objects, kind)["spec"]
        if "volumeClaimTemplates" in spec:
            assert spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Retain"


# --- rights and security ---


def test_only_controllers_have_rights_and_no_more_than_they_need(objects: list[Object]) -> None:
    wide = {one["kind"] for one in objects} & {"ClusterRole", "ClusterRoleBinding"}
    assert not wide or "NODE_NAME" in {each["name"] for each in container(objects, "broker")["env"]}
    role = by_key(objects).get(("Role", "tank-controller"))
    assert role is not None or pod(objects, "controller")["serviceAccountName"] == "given"
    assert role is None or role["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["statefulsets"],
            "resourceNames": ["tank-broker", "tank-controller"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    for one in objects:
        if one["kind"] == "RoleBinding":
            assert one["subjects"] == [
                {"kind": "ServiceAccount", "name": one["metadata"]["name"], "namespace": "data"}
            ]
            assert one["roleRef"]["name"] == one["metadata"]["name"] != "tank-broker"


def test_a_broker_has_a_token_only_to_ask_for_its_zone() -> None:
    assert pod(render(), "broker")["automountServiceAccountToken"] is False
    assert pod(render(), "controller")["automountServiceAccountToken"] is True
    objects = render({"rackFromNode": {"enabled": True}})
    assert pod(objects, "broker")["automountServiceAccountToken"] is True
    by = by_key(objects)
    assert by["ClusterRole", "data-tank-broker-zones"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    ]
    assert by["ClusterRoleBinding", "data-tank-broker-zones"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "tank-broker", "namespace": "data"}
    ]


def test_pods_meet_the_restricted_security_level(objects: list[Object]) -> None:
    for kind in KINDS:
        spec, one = pod(objects, kind), container(objects, kind)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        allowed = {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim"}
        assert all(set(volume) - {"name"} <= allowed for volume in spec.get("volumes", []))
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not any("hostPort" in port for port in one["ports"])


def test_no_shell_is_needed_and_no_services_variables_come_in(objects: list[Object]) -> None:
    for kind in KINDS:
        one = container(objects, kind)
        words: list[Any] = [*one["command"], *one.get("args", [])]
        if "lifecycle" in one:
            words += one["lifecycle"]["preStop"]["exec"]["command"]
        assert all(re.fullmatch(r"[a-z-]+", word) and word not in ("sh", "bash") for word in words)
        assert pod(objects, kind)["enableServiceLinks"] is False


def test_liveness_waits_far_longer_than_a_slow_process_takes(objects: list[Object]) -> None:
    for kind in KINDS:
        probe = container(objects, kind)["livenessProbe"]
        assert probe["httpGet"]["path"] == "/healthz"
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 120
        assert container(objects, kind)["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_start_may_take_as_long_as_its_value_says() -> None:
    for kind in KINDS:
        for values, seconds in (({}, 3600), ({kind: {"startupSeconds": 7200}}, 7200)):
            probe = container(render(values), kind)["startupProbe"]
            tries = probe["failureThreshold"]
            assert (tries - 1) * started.STARTED_S < seconds <= tries * started.STARTED_S
            longest_s = started.STARTED_S + started.READY_S + started.ANSWER_S
            assert probe["timeoutSeconds"] > longest_s, "it ends by itself"


def test_a_closed_network_lets_in_who_must_come_in() -> None:
    by = by_key(render(COMBINATIONS["a network closed but for some"]))
    controllers = by["NetworkPolicy", "tank-controller"]["spec"]["ingress"][0]
    components = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in controllers["from"]
    ]
    assert components == ["controller", "broker"]
    tank = by["NetworkPolicy", "tank-broker"]["spec"]["ingress"][0]
    assert len(tank["from"]) == 5, "brokers, controllers, the chart's test, and the two that were named"
    opened = by_key(render(COMBINATIONS["a closed network"]))["NetworkPolicy", "tank-broker"]
    assert "from" not in opened["spec"]["ingress"][0]


def test_the_token_of_the_api_is_mounted_and_not_in_the_environment() -> None:
    objects = render(COMBINATIONS["an HTTP API that changes"])
    assert environment(objects, "controller")["TANK_API_TOKEN_FILE"] == "/etc/tank/api/token"
    assert pod(objects, "controller")["volumes"][0]["secret"]["secretName"] == "tank-api"
    assert "TANK_API_TOKEN_FILE" not in environment(render(), "controller")
