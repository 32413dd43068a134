"""The node's configuration: which source wins, defaults, and refusals that name their source."""

import os
from pathlib import Path

import pytest

from tank_node.app import config as node_config
from tank_node.app.config import OPTIONS, Address, ConfigError, LogFormat, LogLevel, NodeConfig
from tank_protos.topic_settings import FlushPolicy

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
    assert config.listen == Address("127.0.0.1", 11011)
    assert config.http == Address("127.0.0.1", 11012)
    assert config.data == Path("/home/u/.local/state/tank")
    assert config.flush is FlushPolicy.DISK
    assert (config.log_format, config.log_level) == (LogFormat.TEXT, LogLevel.INFO)
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
    assert load({"listen": "0.0.0.0:2000"}).http == Address("127.0.0.1", 2001)
    assert load({"listen": "127.0.0.1:0"}).http == Address("127.0.0.1", 0)
    assert load({"listen": "127.0.0.1:65535"}).http == Address("127.0.0.1", 0)
    assert load({"http": "off"}).http is None
    assert load(file='http = "10.0.0.1:80"').http == Address("10.0.0.1", 80)
    assert load(environment={"TANK_HTTP": "off"}).http is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:1", Address("localhost", 1)),
        (":11011", Address("0.0.0.0", 11011)),
        ("[::1]:5", Address("::1", 5)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert node_config.read_address(text) == address
    assert node_config.read_address(str(address)) == address


def test_which_addresses_are_this_machine_alone() -> None:
    local = ["127.0.0.1", "127.9.9.9", "localhost", "::1"]
    assert all(Address(host, 1).is_loopback for host in local)
    assert not any(Address(host, 1).is_loopback for host in ["0.0.0.0", "::", "10.0.0.1", "broker-1"])


def test_an_address_of_the_outside_is_where_it_listens_and_where_it_is_reached() -> None:
    both = load({"outside_listen": "0.0.0.0:11013", "outside_advertise": "b.example.org:31011"})
    assert both.outside_listen == Address("0.0.0.0", 11013)
    assert both.outside_advertise == Address("b.example.org", 31011)
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
