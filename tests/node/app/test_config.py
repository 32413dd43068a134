"""The node's configuration: which source wins, defaults, and refusals that name their source."""

import os
from pathlib import Path

import pytest

from tank_node.app import config as node_config
from tank_node.app.config import OPTIONS, ConfigError, LineFormat, ListenAddress, LogLevel, NodeConfig
from tank_node.coordinators.machine.group_settings import Migration
from tank_protos.topic_settings import FlushPolicy, LogFormat

HOME = {"HOME": "/home/u"}


def load(
    flags: dict[str, str | None] | None = None,
    environment: dict[str, str] | None = None,
    file: str | None = None,
) -> NodeConfig:
    given = dict(flags or {})
    if file is not None:
        given["config"] = "tank.toml"

    def read(path: str) -> bytes:
        assert path == "tank.toml"
        assert file is not None
        return file.encode()

    return node_config.load(given, {**HOME, **(environment or {})}, read)


def test_defaults_are_safe_and_local() -> None:
    config = load()
    assert config.listen == ListenAddress("127.0.0.1", 11011)
    assert config.http == ListenAddress("127.0.0.1", 11012)
    assert config.data == Path("/home/u/.local/state/tank")
    assert config.flush is FlushPolicy.DISK
    assert (config.log_format, config.log_level) == (LineFormat.TEXT, LogLevel.INFO)
    assert (config.advertise, config.broker_id, config.cluster_id) == (None, None, "")


def test_a_broker_in_a_pod_of_a_stateful_set_is_numbered_by_it_from_one() -> None:
    assert load(environment={"TANK_BROKER_ID": "tank-broker-0"}).broker_id == 1
    assert load({"broker_id": "my.release-broker-12"}).broker_id == 13
    assert load({"broker_id": "12"}).broker_id == 12


def test_the_state_folder_is_where_xdg_says() -> None:
    assert load(environment={"XDG_STATE_HOME": "/var/s"}).data == Path("/var/s/tank")
    assert load(environment={"XDG_STATE_HOME": "relative"}).data == Path("/home/u/.local/state/tank")


def test_flags_win_over_environment_and_environment_over_file() -> None:
    file = 'rack = "file"\nlog_level = "error"\nflush = "replicated"\n'
    environment = {"TANK_RACK": "environment", "TANK_LOG_LEVEL": "warning"}
    config = load({"rack": "flag"}, environment, file)
    assert config.rack == "flag"
    assert config.log_level is LogLevel.WARNING
    assert config.flush is FlushPolicy.REPLICATED


def test_an_empty_variable_is_none_and_an_empty_flag_is_one() -> None:
    assert load(environment={"TANK_RACK": ""}, file='rack = "file"').rack == "file"
    assert load({"rack": ""}, file='rack = "file"').rack == ""


def test_the_file_may_be_named_by_the_environment() -> None:
    config = node_config.load({}, {**HOME, "TANK_CONFIG": "x"}, lambda path: b'listen = "127.0.0.1:1"')
    assert config.listen.port == 1


def test_the_http_port_follows_the_tank_port() -> None:
    assert load({"listen": "0.0.0.0:2000"}).http == ListenAddress("127.0.0.1", 2001)
    assert load({"listen": "127.0.0.1:0"}).http == ListenAddress("127.0.0.1", 0)
    assert load({"listen": "127.0.0.1:65535"}).http == ListenAddress("127.0.0.1", 0)
    assert load({"http": "off"}).http is None
    assert load(file='http = "10.0.0.1:80"').http == ListenAddress("10.0.0.1", 80)
    assert load(environment={"TANK_HTTP": "off"}).http is None


def test_the_kafka_port_is_beside_the_tank_port() -> None:
    for listen, kafka in (
        (None, ListenAddress("127.0.0.1", 9092)),
        ("0.0.0.0:2000", ListenAddress("0.0.0.0", 9092)),
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
    ):
        config = load({"listen": listen})
        assert (config.kafka, config.kafka_is_default) == (kafka, True)


def test_a_kafka_port_that_was_chosen_is_no_default() -> None:
    chosen = ListenAddress("10.0.0.1", 9092)
    given = [
        load({"kafka": str(chosen)}),
        load(environment={"TANK_KAFKA": str(chosen)}),
        load(file=f'kafka = "{chosen}"'),
    ]
    assert [(each.kafka, each.kafka_is_default) for each in given] == [(chosen, False)] * 3
    for off in (load({"kafka": "off"}), load(environment={"TANK_KAFKA": "OFF"}), load(file='kafka = "off"')):
        assert (off.kafka, off.kafka_is_default) == (None, False)


def test_kafka_clients_from_outside_need_a_port_that_was_chosen() -> None:
    outside: dict[str, str | None] = {
        "kafka_outside_listen": "0.0.0.0:9093",
        "kafka_outside_advertise": "b.example.org:31092",
    }
    both = load({**outside, "kafka": "0.0.0.0:9092"})
    assert both.kafka_outside_listen == ListenAddress("0.0.0.0", 9093)
    assert both.kafka_outside_advertise == ListenAddress("b.example.org", 31092)
    for name, value in outside.items():
        with pytest.raises(
            ConfigError, match="--kafka-outside-listen and --kafka-outside-advertise go together"
        ):
            load({"kafka": "0.0.0.0:9092", name: value})
    for kafka in (None, "off"):
        with pytest.raises(ConfigError, match="set --kafka for the others"):
            load({**outside, "kafka": kafka})


def test_what_kafka_clients_create() -> None:
    assert load().kafka_auto_create is None, "it depends on the process"
    assert load({"kafka_auto_create": "on"}).kafka_auto_create is True
    assert load(environment={"TANK_KAFKA_AUTO_CREATE": "Off"}).kafka_auto_create is False
    assert load(file='kafka_auto_create = "true"').kafka_auto_create is True, "as the chart writes it"
    assert load().kafka_default_partitions == 1
    assert load(file="kafka_default_partitions = 12").kafka_default_partitions == 12


def test_how_many_client_ids_have_metrics() -> None:
    assert load().kafka_client_metrics == 200
    assert load({"kafka_client_metrics": "0"}).kafka_client_metrics == 0


def test_groups_have_kafkas_settings() -> None:
    config = load()
    assert (config.group_min_session_ms, config.group_max_session_ms) == (6_000, 1_800_000)
    assert config.group_initial_delay_ms is None, "it depends on the process"
    assert config.offsets_retention_minutes == 7 * 24 * 60
    assert load({"group_min_session_ms": "100"}).group_min_session_ms == 100
    assert load(environment={"TANK_GROUP_INITIAL_DELAY_MS": "0"}).group_initial_delay_ms == 0
    assert (config.group_consumer_session_ms, config.group_consumer_heartbeat_ms) == (45_000, 5_000)
    assert config.group_consumer_migration is Migration.BIDIRECTIONAL
    assert load({"group_consumer_migration": "upgrade"}).group_consumer_migration is Migration.UPGRADE
    assert load(file="offsets_retention_minutes = 1").offsets_retention_minutes == 1
    assert (config.group_lag_series, load({"group_lag_series": "0"}).group_lag_series) == (1_000, 0)


def test_a_shortest_session_above_the_longest_is_refused() -> None:
    with pytest.raises(ConfigError, match="--group-min-session-ms"):
        load({"group_min_session_ms": "2", "group_max_session_ms": "1"})


def test_a_heartbeat_that_is_not_shorter_than_the_session_is_refused() -> None:
    with pytest.raises(ConfigError, match="--group-consumer-heartbeat-ms"):
        load({"group_consumer_heartbeat_ms": "2", "group_consumer_session_ms": "2"})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:1", ListenAddress("localhost", 1)),
        (":11011", ListenAddress("0.0.0.0", 11011)),
        ("[::1]:5", ListenAddress("::1", 5)),
    ],
)
def test_addresses(text: str, address: ListenAddress) -> None:
    assert node_config.read_address(text) == address
    assert node_config.read_address(str(address)) == address


def test_which_addresses_are_this_machine_alone() -> None:
    local = ["127.0.0.1", "127.9.9.9", "localhost", "::1"]
    assert all(ListenAddress(host, 1).is_loopback for host in local)
    assert not any(ListenAddress(host, 1).is_loopback for host in ["0.0.0.0", "::", "10.0.0.1", "broker-1"])


def test_an_address_of_the_outside_is_where_it_listens_and_where_it_is_reached() -> None:
    both = load({"outside_listen": "0.0.0.0:11013", "outside_advertise": "b.example.org:31011"})
    assert both.outside_listen == ListenAddress("0.0.0.0", 11013)
    assert both.outside_advertise == ListenAddress("b.example.org", 31011)
    assert load({}).outside_listen is None
    for name, value in (("outside_listen", "0.0.0.0:11013"), ("outside_advertise", "b.example.org:31011")):
        with pytest.raises(ConfigError, match="go together"):
            load({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listen", "127.0.0.1"),
        ("listen", "::1:5"),
        ("listen", "h:65536"),
        ("listen", "a b:1"),
        ("advertise", "h" * 254 + ":1"),
        ("listen", "h:-1"),
        ("http", "on"),
        ("advertise", "0.0.0.0:1"),
        ("advertise", "h:0"),
        ("outside_listen", "127.0.0.1"),
        ("outside_advertise", "h:0"),
        ("kafka", "on"),
        ("kafka", "127.0.0.1"),
        ("kafka_advertise", "0.0.0.0:9092"),
        ("kafka_outside_listen", "127.0.0.1"),
        ("kafka_outside_advertise", "h:0"),
        ("kafka_auto_create", "yes"),
        ("kafka_default_partitions", "0"),
        ("kafka_default_partitions", "65531"),
        ("kafka_client_metrics", "-1"),
        ("kafka_client_metrics", "10001"),
        ("group_min_session_ms", "0"),
        ("group_max_session_ms", "2147483648"),
        ("group_initial_delay_ms", "-1"),
        ("group_consumer_session_ms", "0"),
        ("group_consumer_heartbeat_ms", "0"),
        ("group_consumer_migration", "never"),
        ("offsets_retention_minutes", "0"),
        ("group_lag_series", "100001"),
        ("flush", "never"),
        ("log_format", "xml"),
        ("log_level", "loud"),
        ("broker_id", "0"),
        ("broker_id", "65535"),
        ("broker_id", "one"),
        ("broker_id", "tank-broker-65534"),
        ("broker_id", "tank-broker-"),
        ("broker_id", "٣"),
        ("cluster_id", "a\nb"),
        ("max_connections", "0"),
        ("stop_grace_ms", "-1"),
        ("ready_wait_ms", "-1"),
        ("data", ""),
    ],
)
def test_a_bad_value_is_refused_naming_its_source(name: str, value: str) -> None:
    option = next(option for option in OPTIONS if option.name == name)
    with pytest.raises(ConfigError) as refusal:
        load({name: value})
    assert str(refusal.value).startswith(option.flag + ": ")
    if value:
        with pytest.raises(ConfigError, match=option.variable):
            load(environment={option.variable: value})
    with pytest.raises(ConfigError, match=rf"tank\.toml, {name}: "):
        load(file=f"{name} = {value!r}".replace("'", '"'))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("colour = 1", r"tank\.toml, 'colour': there is no such key"),
        ("rack = true", r"tank\.toml, rack: write a text"),
        ("rack = [1]", r"tank\.toml, rack: write a text"),
        ("rack =", r"tank\.toml is not TOML"),
    ],
)
def test_a_bad_file_is_refused_naming_its_key(file: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(file=file)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"/no/such\.toml can't be read"):
        node_config.load({"config": "/no/such.toml"}, HOME)


def test_numbers_in_the_file_may_stand_without_quotes() -> None:
    assert load(file="broker_id = 7\nmax_connections = 9").max_connections == 9


def test_a_home_that_is_not_there_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--data: '~nobody-at-all/x' can't be used: .* whole path"):
        load({"data": "~nobody-at-all/x"})
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user without an entry
    with pytest.raises(ConfigError, match="name a folder"):
        node_config.load({}, {})


def test_iggys_clients_are_served_where_an_option_says_so() -> None:
    assert load().iggy is None
    assert load({"iggy": "off"}).iggy is None
    config = load(
        {"iggy": "127.0.0.1:8090", "iggy_era": "b3", "iggy_anonymous": "off", "iggy_poll_wait_ms": "500"}
    )
    assert str(config.iggy) == "127.0.0.1:8090"
    assert (config.iggy_era, config.iggy_anonymous, config.iggy_poll_wait_ms) == ("B3", False, 500)
    assert (load().iggy_era, load().iggy_anonymous, load().iggy_poll_wait_ms) == ("auto", None, 0)
    assert (load().iggy_format, load().iggy_heartbeat) == (LogFormat.KAFKA, False)
    config = load({"iggy_heartbeat": "on"}, {"TANK_IGGY_FORMAT": "tank"}, 'iggy_format = "kafka"')
    assert (config.iggy_format, config.iggy_heartbeat) == (LogFormat.TANK, True)
    assert load(file='iggy_format = "tank"').iggy_format is LogFormat.TANK
    refused: list[dict[str, str | None]]
    refused = [
        {"iggy_era": "Z"},
        {"iggy_poll_wait_ms": "20001"},
        {"iggy_format": "iggy"},
        {"iggy": "nowhere"},
    ]
    for wrong in refused:
        with pytest.raises(ConfigError):
            load(wrong)


def test_topics_for_iggys_clients_have_their_places_in_streams() -> None:
    assert load().iggy_expose == {}
    found = load({"iggy_expose": "orders=main/orders, bills=main/a/b"}).iggy_expose
    assert found == {"orders": ("main", "orders"), "bills": ("main", "a/b")}
    many = ",".join(f"t{number}=main/t{number}" for number in range(1001))
    for wrong in ("orders", "orders=main", "orders=/x", "=main/x", "a=s/1,a=s/2", many):
        with pytest.raises(ConfigError, match="--iggy-expose"):
            load({"iggy_expose": wrong})
