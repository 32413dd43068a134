"""The port for Kafka's clients: in the pods, in all Services that lead there, in the network policies."""

from tests.chart.combinations import COMBINATIONS
from tests.chart.rendering import Object, by_key, config_of_broker, container, render

HEADLESS = "tank-broker-1.tank-broker.data.svc.cluster.local"
CLOSED: Object = {"networkPolicy": {"enabled": True}}


def ports_of(objects: list[Object]) -> dict[str, int]:
    """A broker's container ports, by name."""
    return {each["name"]: each["containerPort"] for each in container(objects, "broker")["ports"]}


def service_port(objects: list[Object], service: str) -> Object:
    """The port of this Service for Kafka's clients."""
    ports = by_key(objects)["Service", service]["spec"]["ports"]
    (found,) = [each for each in ports if each["name"] == "kafka"]
    return dict(found)


def opened_ports(objects: list[Object]) -> list[str]:
    """Those of brokers that clients may reach."""
    rule = by_key(objects)["NetworkPolicy", "tank-broker"]["spec"]["ingress"][0]
    return [each["port"] for each in rule["ports"]]


def test_a_broker_serves_kafkas_clients_at_the_name_of_its_pod() -> None:
    objects = render()
    config = config_of_broker(objects, 1)
    assert str(config.kafka) == "0.0.0.0:9092"
    assert not config.kafka_is_default, "a pod whose port is taken must not start without it"
    assert str(config.kafka_advertise) == f"{HEADLESS}:9092"
    assert config.kafka_outside_listen is None
    assert ports_of(objects) == {"tank": 11011, "http": 11012, "kafka": 9092}


def test_the_services_inside_lead_there() -> None:
    objects = render()
    assert service_port(objects, "tank-broker") == {"name": "kafka", "port": 9092, "targetPort": "kafka"}
    assert service_port(objects, "tank") == {"name": "kafka", "port": 9092, "targetPort": "kafka"}
    on_nodes = render({"service": {"type": "NodePort", "kafkaPort": 19092, "kafkaNodePort": 30092}})
    assert service_port(on_nodes, "tank") == {
        "name": "kafka", "port": 19092, "targetPort": "kafka", "nodePort": 30092,
    }  # fmt: skip
    assert "nodePort" not in service_port(render({"service": {"kafkaNodePort": 30092}}), "tank")


def test_each_broker_has_an_address_for_kafkas_clients_from_outside() -> None:
    balanced = render(COMBINATIONS["load balancers"])
    assert str(config_of_broker(balanced, 4).kafka_outside_advertise) == "broker-4.example.org:9092"
    assert service_port(balanced, "tank-broker-4") == {
        "name": "kafka", "port": 9092, "targetPort": "kafka-outside",
    }  # fmt: skip
    on_nodes = render(COMBINATIONS["node ports"])
    assert str(config_of_broker(on_nodes, 2).kafka_outside_advertise) == "a.example:31513"
    assert service_port(on_nodes, "tank-broker-2")["nodePort"] == 31513
    for objects in (balanced, on_nodes):
        config = config_of_broker(objects, 1)
        assert config.kafka_outside_listen is not None
        assert ports_of(objects)["kafka-outside"] == config.kafka_outside_listen.port == 9093
        assert str(config.kafka_advertise) == f"{HEADLESS}:9092", "pods stay inside"


def test_the_port_on_nodes_may_begin_elsewhere() -> None:
    external = {"enabled": True, "type": "NodePort", "host": "a.example", "firstKafkaNodePort": 30500}
    objects = render({"externalAccess": external})
    assert str(config_of_broker(objects, 2).kafka_outside_advertise) == "a.example:30502"
    assert service_port(objects, "tank-broker-2")["nodePort"] == 30502


def test_the_network_policy_lets_clients_in() -> None:
    assert opened_ports(render(CLOSED)) == ["tank", "kafka"]
    outside = render({**COMBINATIONS["load balancers"], **CLOSED})
    assert opened_ports(outside) == ["tank", "outside", "kafka", "kafka-outside"]


def test_what_kafkas_clients_create_is_an_option_of_brokers() -> None:
    for said in (True, "on"):
        objects = render({"broker": {"config": {"kafka_auto_create": said, "kafka_default_partitions": 6}}})
        config = config_of_broker(objects, 0)
        assert (config.kafka_auto_create, config.kafka_default_partitions) == (True, 6)
    assert config_of_broker(render(), 0).kafka_auto_create is None


def test_switched_off_there_is_no_such_port() -> None:
    off: Object = {"kafka": {"enabled": False}}
    for values in (off, {**COMBINATIONS["load balancers"], **off}, {**COMBINATIONS["node ports"], **off}):
        objects = render({**values, **CLOSED})
        config = config_of_broker(objects, 0)
        assert (config.kafka, config.kafka_advertise, config.kafka_outside_listen) == (None, None, None)
        assert not {"kafka", "kafka-outside"} & ports_of(objects).keys()
        assert not any("kafka" in name for name in opened_ports(objects))
        for (kind, _), one in by_key(objects).items():
            if kind == "Service":
                assert not any(each["name"] == "kafka" for each in one["spec"]["ports"])
