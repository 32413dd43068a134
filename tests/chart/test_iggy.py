"""The port for Iggy's clients, which is there when it is wanted, and the root user that they log in as."""

import base64
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tank_node.app.config import ANY_ERA, IGGY_ERAS, IGGY_MOST_POLL_WAIT_MS
from tank_node.app.iggy_serving import PASSWORD_FILE_VARIABLE
from tank_node.users.root_credentials import is_default, root_credentials
from tests.chart.combinations import COMBINATIONS
from tests.chart.rendering import (
    CHART,
    Object,
    by_key,
    config_of_broker,
    container,
    environment,
    pod,
    read_values,
    render,
)

ON: Object = {"iggy": {"enabled": True}}
NAMED: Object = {"iggy": {"enabled": True, "root": {"secretName": "shared", "key": "line"}}}
CLOSED: Object = {"networkPolicy": {"enabled": True}}
ROOT = "Secret", "tank-iggy-root"


def service_port(objects: list[Object], service: str) -> Object:
    """The port of this Service for Iggy's clients."""
    ports = by_key(objects)["Service", service]["spec"]["ports"]
    (found,) = [each for each in ports if each["name"] == "iggy"]
    return dict(found)


def with_on(values: Object) -> Object:
    return {**values, **ON}


# --- the port ---


@pytest.mark.parametrize("name", COMBINATIONS)
def test_without_it_there_is_no_trace_of_it(name: str) -> None:
    """Pods of a chart before it stay as they are."""
    objects = render({**COMBINATIONS[name], "iggy": {"enabled": False}})
    brokers = [one for one in objects if one["kind"] in ("StatefulSet", "Service", "NetworkPolicy", "Secret")]
    assert "iggy" not in json.dumps(brokers).lower()
    assert not read_values("values.yaml")["iggy"]["enabled"]


def test_a_broker_serves_iggys_clients_where_its_service_leads() -> None:
    objects = render(ON)
    assert str(config_of_broker(objects, 1).iggy) == "0.0.0.0:8090"
    ports = {each["name"]: each["containerPort"] for each in container(objects, "broker")["ports"]}
    assert ports["iggy"] == 8090
    inside = {"name": "iggy", "port": 8090, "targetPort": "iggy"}
    assert service_port(objects, "tank-broker") == service_port(objects, "tank") == inside
    given: Object = {"type": "NodePort", "iggyPort": 18090, "iggyNodePort": 30090}
    assert service_port(render({"service": given, **ON}), "tank") == {
        "name": "iggy", "port": 18090, "targetPort": "iggy", "nodePort": 30090,
    }  # fmt: skip
    assert "nodePort" not in service_port(render({"service": {"iggyNodePort": 30090}, **ON}), "tank")


def test_each_broker_has_an_address_for_iggys_clients_from_outside() -> None:
    balanced = render(with_on(COMBINATIONS["load balancers"]))
    assert service_port(balanced, "tank-broker-4") == {"name": "iggy", "port": 8090, "targetPort": "iggy"}
    on_nodes = render(with_on(COMBINATIONS["node ports"]))
    assert service_port(on_nodes, "tank-broker-2")["nodePort"] == 32013
    external = {"enabled": True, "type": "NodePort", "host": "a.example", "firstIggyNodePort": 30500}
    elsewhere = render(with_on({"externalAccess": external}))
    assert service_port(elsewhere, "tank-broker-1")["nodePort"] == 30501


def test_ports_of_nodes_are_no_two_protocols() -> None:
    external = read_values("values.yaml")["externalAccess"]
    first = [external[f"first{each}NodePort"] for each in ("", "Kafka", "Iggy")]
    assert [later - earlier for earlier, later in pairwise(first)] == [500, 500]


def test_the_network_policy_lets_clients_in() -> None:
    for values in (CLOSED, {**COMBINATIONS["load balancers"], **CLOSED}):
        rule = by_key(render(with_on(values)))["NetworkPolicy", "tank-broker"]["spec"]["ingress"][0]
        assert {"port": "iggy", "protocol": "TCP"} in rule["ports"]


def test_what_else_can_be_set_are_options_of_brokers() -> None:
    given: Object = {
        "iggy_era": "B3",
        "iggy_anonymous": True,
        "iggy_poll_wait_ms": 500,
        "iggy_expose": "orders=main/orders,bills=main/bills",
    }
    config = config_of_broker(render({"broker": {"config": given}, **ON}), 0)
    assert (config.iggy_era, config.iggy_anonymous, config.iggy_poll_wait_ms) == ("B3", True, 500)
    assert config.iggy_expose == {"orders": ("main", "orders"), "bills": ("main", "bills")}
    schema = json.loads((CHART / "values.schema.json").read_text())
    options: Object = schema["properties"]["broker"]["properties"]["config"]["properties"]
    assert options["iggy_era"]["enum"] == [ANY_ERA, *IGGY_ERAS]
    assert options["iggy_poll_wait_ms"]["maximum"] == IGGY_MOST_POLL_WAIT_MS


# --- the root user ---


def test_the_chart_makes_a_root_user_whose_password_is_in_its_secret_alone() -> None:
    objects = render(ON)
    line = base64.b64decode(by_key(objects)[ROOT]["data"]["root"]).decode()
    found = root_credentials({}, line, loopback_only=False, random=bytes)
    assert found.name == "iggy"
    assert len(found.password) == 32
    assert not is_default(found.password)
    password = found.password.reveal().decode()
    assert not [one for one in objects if password in json.dumps(one)], "in plain text"
    again = by_key(render(ON, release="other"))["Secret", "other-iggy-root"]["data"]["root"]
    assert base64.b64decode(again).decode() != line


@pytest.mark.parametrize(
    ("values", "name", "key"), [(ON, "tank-iggy-root", "root"), (NAMED, "shared", "line")]
)
def test_brokers_read_it_from_a_file(values: Object, name: str, key: str) -> None:
    objects = render(values)
    volumes = {each["name"]: each.get("secret") for each in pod(objects, "broker")["volumes"]}
    assert volumes["iggy-root"] == {"secretName": name, "items": [{"key": key, "path": "root"}]}
    mounts = {each["name"]: each for each in container(objects, "broker")["volumeMounts"]}
    assert mounts["iggy-root"] == {"name": "iggy-root", "mountPath": "/etc/tank-iggy", "readOnly": True}
    assert environment(objects, "broker")[PASSWORD_FILE_VARIABLE] == "/etc/tank-iggy/root"
    assert (ROOT in by_key(objects)) is (values is ON)


def test_an_upgrade_keeps_the_root_user_that_it_finds(tmp_path: Path) -> None:
    chart = tmp_path / "tank"
    shutil.copytree(CHART, chart)
    live = {"data": {"root": base64.b64encode(b"iggy:as it was").decode()}}
    # `helm template` looks nothing up.
    found = {"live": {}, "found": live}
    defined = (
        f'{{{{ define "tank.{name}" }}}}{json.dumps(known)}{{{{ end }}}}' for name, known in found.items()
    )
    (chart / "templates" / "_live.tpl").write_text("".join(defined))
    assert by_key(render(ON, chart=chart))[ROOT]["data"] == live["data"]


@pytest.mark.parametrize(
    ("values", "stays"),
    [
        ({}, True),
        ({"persistence": {"whenDeleted": "Delete"}}, False),
        ({"controller": {"storage": {"emptyDir": True}}}, False),
    ],
)
def test_the_root_user_stays_without_the_release_as_long_as_the_controllers_volumes(
    values: Object, stays: bool
) -> None:
    """Else the next release would make another password, which the controllers' state doesn't have."""
    annotations = by_key(render(with_on(values)))[ROOT]["metadata"].get("annotations", {})
    assert annotations == ({"helm.sh/resource-policy": "keep"} if stays else {})
