"""A node's configuration: from the command line, else `TANK_*` variables, else a TOML file, else defaults.

Every option has one name in all of them: `log_format` is `--log-format`, `TANK_LOG_FORMAT` and the file's key
`log_format`. Callers pass in the flags, the environment, and how to read the file.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.coordinators.machine.group_settings import (
    LAG_SERIES,
    MOST_LAG_SERIES,
    GroupSettings,
    Migration,
)
from tank_node.limits import Limits
from tank_node.metrics import KAFKA_CLIENT_IDS, MAX_KAFKA_CLIENT_IDS
from tank_protos import topic_settings
from tank_protos.topic_settings import FlushPolicy, LogFormat
from tank_protos.wire.names import MAX_PARTITIONS_OF_A_TOPIC

DEFAULT_PORT = 11011
DEFAULT_KAFKA_PORT = 9092
MAX_BROKER_ID = 0xFFFE
"""The largest id that the protocol can carry: a u16, whose 0xffff means "no broker"."""
MAX_EXPOSURES = 1_000
"""Topics that one option may name for Iggy's clients: a line of a configuration, not a table."""
LOOPBACK = "127.0.0.1"
MINUTE_MS = 60_000
ANY_ERA = "auto"
"""Stands for no era: each connection shows its own."""
IGGY_ERAS = ("S", "A1", "A2", "A3", "B1", "B2", "B3", "V11")
"""The versions of Iggy's protocol that can be chosen for all of its clients."""
IGGY_MOST_POLL_WAIT_MS = 20_000
"""The longest wait of a poll: Iggy's clients give a request up after 30 s."""
_INT_MAX = 2**31 - 1
"""The greatest time that Kafka's clients can say, in milliseconds."""


class ConfigError(ValueError):
    """A value that can't be used. The message is a sentence that names the flag, the variable, or the file's
    key."""


class LineFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe level of log lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True, frozen=True)
class ListenAddress:
    """A host (a name or an address) and a port; port 0: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the address can be reached from this machine only."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(slots=True, frozen=True)
class NodeConfig:
    """The configuration of a node; `OPTIONS` describes each value."""

    data: Path
    listen: ListenAddress
    http: ListenAddress | None
    """None: no HTTP port."""
    advertise: ListenAddress | None
    """The address at which clients and other brokers reach the node; None: it follows from `listen`."""
    outside_listen: ListenAddress | None
    """A second address to listen on, for clients that can't reach the advertised one; None: there is none."""
    outside_advertise: ListenAddress | None
    """The address at which those clients reach the node. Set exactly when `outside_listen` is."""
    kafka: ListenAddress | None
    """The address to serve Kafka's protocol on; None: it isn't served."""
    kafka_is_default: bool
    """Whether no option chose `kafka`: the broker then starts without it where another process has it."""
    kafka_advertise: ListenAddress | None
    """The address at which Kafka clients reach the node; None: it follows from `kafka` and `advertise`."""
    kafka_outside_listen: ListenAddress | None
    """As `outside_listen`, for Kafka clients."""
    kafka_outside_advertise: ListenAddress | None
    """The address at which those clients reach the node. Set exactly when `kafka_outside_listen` is."""
    kafka_auto_create: bool | None
    """Whether topics that Kafka clients name are created; None: a broker alone creates them, one of a cluster
    does not."""
    kafka_default_partitions: int
    """The partitions of topics that Kafka clients create without saying how many."""
    iggy_expose: Mapping[str, tuple[str, str]]
    """By topic: the stream and the name under which Iggy's clients see it, when it is created."""
    kafka_client_metrics: int
    """How many client ids of Kafka clients have their own metrics of bytes."""
    iggy: ListenAddress | None
    """The address to serve Iggy's protocol on; None: it isn't served."""
    iggy_era: str
    """The name of the era that Iggy clients have; `auto`: each connection shows it."""
    iggy_anonymous: bool | None
    """Whether Iggy clients of the first era, which can't log in, are served; None: on loopback alone."""
    iggy_format: LogFormat
    """In which format topics of Iggy clients are stored, if the client doesn't say."""
    iggy_heartbeat: bool
    """Whether connections of Iggy clients that don't ping are closed."""
    iggy_poll_wait_ms: int
    """How long an Iggy client's poll waits for a message; 0: it is answered at once."""
    group_min_session_ms: int
    """The shortest session of a group's member."""
    group_max_session_ms: int
    """The longest one, at least as long as `group_min_session_ms`."""
    group_initial_delay_ms: int | None
    """How long a group without members waits for more when the first one joins; None: a broker alone does not
    wait, one of a cluster waits as long as Kafka."""
    group_consumer_session_ms: int
    """How long a member of a group whose broker assigns the partitions may be silent."""
    group_consumer_heartbeat_ms: int
    """After how long such a member sends its next heartbeat; shorter than its session."""
    group_consumer_migration: Migration
    """Whether groups with members change between the two protocols."""
    offsets_retention_minutes: int
    """How long a group's unused committed offsets are kept."""
    group_lag_series: int
    """How many partitions of groups have metrics of their own."""
    flush: FlushPolicy
    """The flush policy of topics without a setting for it."""
    log_format: LineFormat
    log_level: LogLevel
    broker_id: int | None
    """None: the data folder's; 1 for a new one."""
    cluster_id: str
    """Empty: the data folder's; a random one for a new one."""
    rack: str
    forwarding: ForwardingPolicy
    """Which clients' requests are forwarded when another broker leads."""
    max_connections: int
    stop_grace_ms: int
    """How long an orderly stop waits for requests under way."""
    ready_wait_ms: int
    """How long /readyz waits, after a start, for this broker's replicas to be in sync."""
    secret_file: Path | None
    """The file with the cluster's secret; None: the broker proves nothing to the controllers."""
    api_token_file: Path | None
    """The file with the HTTP API's token; None: there is no file."""


@dataclass(slots=True, frozen=True)
class Option:
    """One option of the configuration."""

    name: str
    metavar: str
    help: str
    read: Callable[[str], object]
    default: str | None
    """The default as a user would write it; None: it follows from other options, as `help` says."""

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The option's name in the environment."""
        return "TANK_" + self.name.upper()


def load(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    read_file: Callable[[str], bytes] = lambda path: Path(path).read_bytes(),
) -> NodeConfig:
    """Reads the configuration. flags: by option name; None where a flag was not given.

    The file is the one that `--config` or `TANK_CONFIG` names. Raises ConfigError.
    """
    config_file = flags.get("config") or environment.get("TANK_CONFIG", "")
    in_file = _file_values(config_file, read_file) if config_file else {}
    values: dict[str, object] = {}
    for option in OPTIONS:
        text, source = _given(option, flags, environment, in_file, config_file)
        if text is None:
            values[option.name] = None
            continue
        try:
            values[option.name] = option.read(text.strip())
        except ValueError as error:
            raise ConfigError(f"{source}: {_shown(text)} can't be used: {error}") from None
    if values["data"] is None:
        values["data"] = _default_data(environment)
    if "http" not in in_file and not flags.get("http") and not environment.get("TANK_HTTP"):
        values["http"] = _default_http(values["listen"])
    is_default = "kafka" not in in_file and not flags.get("kafka") and not environment.get("TANK_KAFKA")
    if is_default:
        values["kafka"] = _default_kafka(values["listen"])
    values["kafka_is_default"] = is_default
    _check_outside(values)
    _check_sessions(values)
    return NodeConfig(**values)  # type: ignore[arg-type]


def _given(
    option: Option,
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    in_file: Mapping[str, str],
    config_file: str,
) -> tuple[str | None, str]:
    """The text given for an option, and its source. An empty variable counts as not set."""
    if (flag := flags.get(option.name)) is not None:
        return flag, option.flag
    if variable := environment.get(option.variable):
        return variable, option.variable
    if option.name in in_file:
        return in_file[option.name], f"{config_file}, {option.name}"
    return option.default, option.flag


def _file_values(path: str, read_file: Callable[[str], bytes]) -> dict[str, str]:
    try:
        parsed = tomllib.loads(read_file(path).decode())
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    known = {option.name for option in OPTIONS}
    values = {}
    for key, value in parsed.items():
        if key not in known:
            raise ConfigError(
                f"{path}, {_shown(key)}: there is no such key; there are {', '.join(sorted(known))}"
            )
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ConfigError(f"{path}, {key}: write a text in quotes, or a whole number")
        values[key] = str(value)
    return values


def _default_data(environment: Mapping[str, str]) -> Path:
    """The folder `tank` in the user's state folder (XDG base directory specification)."""
    state = environment.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = environment.get("HOME") or os.path.expanduser("~")
        if not home.startswith("/"):
            raise ConfigError("--data: this user has no home folder: name a folder for the data")
        state = f"{home}/.local/state"
    return Path(state) / "tank"


def _default_http(listen: object) -> ListenAddress:
    """The loopback address, one port above the TANK port; port 0 when that is 0."""
    assert isinstance(listen, ListenAddress)
    return ListenAddress(LOOPBACK, listen.port + 1 if 0 < listen.port < 65_535 else 0)


def _default_kafka(listen: object) -> ListenAddress:
    """The TANK port's host with Kafka's port, or with port 0 when the TANK port is 0."""
    assert isinstance(listen, ListenAddress)
    return ListenAddress(listen.host, DEFAULT_KAFKA_PORT if listen.port else 0)


def _check_outside(values: dict[str, object]) -> None:
    """Raises ConfigError for an address of the outside that lacks another option."""
    for prefix in ("", "kafka_"):
        names = f"{prefix}outside_listen", f"{prefix}outside_advertise"
        if (values[names[0]] is None) != (values[names[1]] is None):
            listen, advertise = ("--" + name.replace("_", "-") for name in names)
            raise ConfigError(
                f"{listen} and {advertise} go together: set both, the address to listen on for clients from "
                "outside, and the address at which they reach it"
            )
    if values["kafka_outside_listen"] is not None and (values["kafka"] is None or values["kafka_is_default"]):
        raise ConfigError(
            "--kafka-outside-listen is for some of the Kafka clients: set --kafka for the others"
        )


def _check_sessions(values: dict[str, object]) -> None:
    """Raises ConfigError when no session is short and long enough."""
    shortest, longest = values["group_min_session_ms"], values["group_max_session_ms"]
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise ConfigError(
            f"--group-min-session-ms ({shortest}) is above --group-max-session-ms ({longest}): "
            "no client could join a group"
        )
    heartbeat, session = values["group_consumer_heartbeat_ms"], values["group_consumer_session_ms"]
    assert isinstance(heartbeat, int)
    assert isinstance(session, int)
    if heartbeat >= session:
        raise ConfigError(
            f"--group-consumer-heartbeat-ms ({heartbeat}) is not below "
            f"--group-consumer-session-ms ({session}): every member would count as gone"
        )


def _shown(text: str) -> str:
    return repr(text[:80])


# --- values ---


def read_address(text: str) -> ListenAddress:
    """Parses `HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for all addresses. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or (":" in host and not bracketed) or not (port.isascii() and port.isdigit()):
        raise ValueError(f"write HOST:PORT, such as {LOOPBACK}:{DEFAULT_PORT}")
    if int(port) > 65_535:
        raise ValueError("a port is at most 65535")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]{0,253}", host):
        raise ValueError("a host is a name or an address, of at most 253 letters, digits, dots and hyphens")
    return ListenAddress(host or "0.0.0.0", int(port))


def _advertised(text: str) -> ListenAddress:
    address = read_address(text)
    if address.host in ("0.0.0.0", "::") or address.port == 0:
        raise ValueError("write the host and the port that clients use, such as broker-1.example.org:11011")
    return address


def _address_or_off(text: str) -> ListenAddress | None:
    return None if text.lower() == "off" else read_address(text)


def _switch(text: str) -> bool:
    try:
        # YAML reads an unquoted `on` as true, which so comes from the chart.
        return {"on": True, "off": False, "true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError("write on or off") from None


def _choice(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError(f"write one of {', '.join(kind)}") from None

    return read


def _era(text: str) -> str:
    found = {era.lower(): era for era in (ANY_ERA, *IGGY_ERAS)}.get(text.lower())
    if found is None:
        raise ValueError(f"write one of {ANY_ERA}, {', '.join(IGGY_ERAS)}")
    return found


def _number(lowest: int, greatest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and lowest <= int(text) <= greatest):
            raise ValueError(f"write a whole number between {lowest} and {greatest}")
        return int(text)

    return read


def _broker_id(text: str) -> int:
    """Parses a number, or the name of a StatefulSet's pod. Pods are counted from 0, brokers from 1."""
    pod = re.fullmatch(r"[a-z0-9.-]{1,240}-(\d{1,5})", text)
    number = int(pod[1]) + 1 if pod else int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= MAX_BROKER_ID:
        raise ValueError(
            f"write a whole number between 1 and {MAX_BROKER_ID}, or a pod's name such as tank-broker-0"
        )
    return number


def _exposures(text: str) -> dict[str, tuple[str, str]]:
    """Parses `TOPIC=STREAM/NAME,...`; empty: none."""
    found: dict[str, tuple[str, str]] = {}
    for item in filter(None, (each.strip() for each in text.split(","))):
        topic, equals, place = item.partition("=")
        stream, slash, name = place.partition("/")
        if not (topic and equals and stream and slash and name) or topic in found:
            raise ValueError("write each topic once, as TOPIC=STREAM/NAME, such as orders=main/orders")
        found[topic] = stream, name
    if len(found) > MAX_EXPOSURES:
        raise ValueError(f"at most {MAX_EXPOSURES} topics: expose others by `tank iggy expose`")
    return found


def _text(text: str) -> str:
    if len(text.encode()) > 255 or not text.isprintable():
        raise ValueError("write at most 255 bytes of printable text")
    return text


def _folder(text: str) -> Path:
    if not text:
        raise ValueError("name a folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("there is no such user's home: write the folder's whole path") from None


def _file(text: str) -> Path:
    if not text:
        raise ValueError("name a file")
    return Path(text)


OPTIONS = (
    Option(
        "data",
        "DIR",
        "The folder for messages and metadata. Default: tank in the user's state folder.",
        _folder,
        None,
    ),
    Option(
        "listen",
        "HOST:PORT",
        "The address to serve the TANK protocol on.",
        read_address,
        f"{LOOPBACK}:{DEFAULT_PORT}",
    ),
    Option(
        "http",
        "HOST:PORT",
        "The address to serve /metrics, /healthz and /readyz on; off: none. Default: 127.0.0.1, one port "
        "above --listen.",
        _address_or_off,
        None,
    ),
    Option(
        "advertise",
        "HOST:PORT",
        "The address at which clients and other brokers reach this broker. Default: --listen, with this "
        "machine's name when that listens on all addresses.",
        _advertised,
        None,
    ),
    Option(
        "outside_listen",
        "HOST:PORT",
        "A second address to listen on, for clients that can't reach the advertised one. Default: none.",
        read_address,
        None,
    ),
    Option(
        "outside_advertise",
        "HOST:PORT",
        "The address at which clients of --outside-listen reach this broker.",
        _advertised,
        None,
    ),
    Option(
        "kafka",
        "HOST:PORT",
        "The address to serve Kafka clients on; off: none. Default: the host of --listen with port "
        f"{DEFAULT_KAFKA_PORT}; if that is in use, the broker warns and starts without.",
        _address_or_off,
        None,
    ),
    Option(
        "kafka_advertise",
        "HOST:PORT",
        "The address at which Kafka clients reach this broker. Default: the host of --advertise with the "
        "port of --kafka.",
        _advertised,
        None,
    ),
    Option(
        "kafka_outside_listen",
        "HOST:PORT",
        "A second address to listen on, for Kafka clients that can't reach --kafka-advertise. Default: none.",
        read_address,
        None,
    ),
    Option(
        "kafka_outside_advertise",
        "HOST:PORT",
        "The address at which clients of --kafka-outside-listen reach this broker.",
        _advertised,
        None,
    ),
    Option(
        "kafka_auto_create",
        "on|off",
        "Whether a topic that does not exist is created when a Kafka client names it and does not forbid "
        "that. Default: on for tank serve, off for a broker of a cluster.",
        _switch,
        None,
    ),
    Option(
        "iggy_expose",
        "TOPIC=STREAM/NAME,...",
        "Topics that Iggy's clients see in a stream when they are created by clients of other protocols; the "
        "stream is created, too. From feature level 5 on. Topics that exist: `tank iggy expose`.",
        _exposures,
        "",
    ),
    Option(
        "kafka_default_partitions",
        "N",
        "The partitions of topics that Kafka clients create without a number, and of those created for them.",
        _number(1, MAX_PARTITIONS_OF_A_TOPIC),
        "1",
    ),
    Option(
        "kafka_client_metrics",
        "N",
        "How many client ids of Kafka's clients have their own metrics of bytes; the rest are one. 0: none.",
        _number(0, MAX_KAFKA_CLIENT_IDS),
        str(KAFKA_CLIENT_IDS),
    ),
    Option(
        "iggy",
        "HOST:PORT",
        f"The address to serve Iggy's clients on, such as {LOOPBACK}:8090; off: none. Default: off.",
        _address_or_off,
        None,
    ),
    Option(
        "iggy_era",
        "|".join((ANY_ERA, *IGGY_ERAS)),
        "The version of Iggy's protocol that all its clients speak (docs/iggy-compatibility.md); auto: "
        "each connection shows its own.",
        _era,
        ANY_ERA,
    ),
    Option(
        "iggy_anonymous",
        "on|off",
        "Whether Iggy clients of 2023 are served, which can't log in. Default: on if --iggy is an address "
        "of this machine alone.",
        _switch,
        None,
    ),
    Option(
        "iggy_format",
        "|".join((LogFormat.KAFKA, LogFormat.TANK)),
        "How topics that Iggy's clients create are stored, if the client doesn't say: as Kafka's record "
        "batches, or as TANK's bundles, which keep no headers and no ids of messages.",
        _choice(LogFormat),
        LogFormat.KAFKA,
    ),
    Option(
        "iggy_heartbeat",
        "on|off",
        f"Whether the connection of an Iggy client is closed that has not pinged for "
        f"{Limits().iggy_heartbeat_ms // 1000} s. Clients from before 2025 never ping, and are left alone.",
        _switch,
        "off",
    ),
    Option(
        "iggy_poll_wait_ms",
        "MS",
        "How long an Iggy client's poll waits for a message before it is answered without; 0: not at all, "
        "as by Iggy itself.",
        _number(0, IGGY_MOST_POLL_WAIT_MS),
        "0",
    ),
    Option(
        "group_min_session_ms",
        "MS",
        "The shortest session that a member of a consumer group may ask for, as Kafka's "
        "group.min.session.timeout.ms.",
        _number(1, _INT_MAX),
        str(GroupSettings().min_session_ms),
    ),
    Option(
        "group_max_session_ms",
        "MS",
        "The longest one, as Kafka's group.max.session.timeout.ms: the partitions of a member that dies are "
        "not read for so long.",
        _number(1, _INT_MAX),
        str(GroupSettings().max_session_ms),
    ),
    Option(
        "group_initial_delay_ms",
        "MS",
        "How long a group without members waits for others when the first one joins, as Kafka's "
        "group.initial.rebalance.delay.ms. Default: 0 for tank serve, "
        f"{GroupSettings().initial_delay_ms} for a broker of a cluster.",
        _number(0, _INT_MAX),
        None,
    ),
    Option(
        "group_consumer_session_ms",
        "MS",
        "How long a member of a group whose broker assigns the partitions may be silent, as Kafka's "
        "group.consumer.session.timeout.ms.",
        _number(1, _INT_MAX),
        str(GroupSettings().consumer_session_ms),
    ),
    Option(
        "group_consumer_heartbeat_ms",
        "MS",
        "After how long such a member sends its next heartbeat, as Kafka's "
        "group.consumer.heartbeat.interval.ms: so long a change of the group takes to reach it.",
        _number(1, _INT_MAX),
        str(GroupSettings().consumer_heartbeat_ms),
    ),
    Option(
        "group_consumer_migration",
        "|".join(Migration),
        "Whether groups with members change between the two protocols, as Kafka's "
        "group.consumer.migration.policy.",
        _choice(Migration),
        Migration.BIDIRECTIONAL,
    ),
    Option(
        "offsets_retention_minutes",
        "N",
        "How long the unused committed offsets of a group are kept, as Kafka's offsets.retention.minutes.",
        _number(1, _INT_MAX),
        str(GroupSettings().offsets_retention_ms // MINUTE_MS),
    ),
    Option(
        "group_lag_series",
        "N",
        "How many partitions of groups have their own metrics of how far they are read, and how many led "
        "partitions those of their ends. 0: none.",
        _number(0, MOST_LAG_SERIES),
        str(LAG_SERIES),
    ),
    Option(
        "flush",
        "disk|replicated",
        "When messages of topics without this setting are acknowledged: when they are on the disks of the "
        "in-sync replicas, or in their memory.",
        topic_settings.parse_flush,
        "disk",
    ),
    Option(
        "secret_file",
        "FILE",
        "A file with the cluster's secret, the same line for all its processes: controllers accept no broker "
        "without it. It may be changed while the broker runs. A broker alone needs none.",
        _file,
        None,
    ),
    Option(
        "api_token_file",
        "FILE",
        "A file with the token of the HTTP API, the same line for all brokers: without it the API changes "
        "nothing, and answers this machine alone. It may be changed while the broker runs.",
        _file,
        None,
    ),
    Option("log_format", "text|json", "The format of log lines.", _choice(LineFormat), "text"),
    Option(
        "log_level",
        "LEVEL",
        "The least severe log lines that are written: debug, info, warning or error.",
        _choice(LogLevel),
        "info",
    ),
    Option(
        "broker_id",
        "N|POD",
        "This broker's id: a new data folder gets it (default 1), an old one must have it. A pod's name "
        "NAME-N means N + 1.",
        _broker_id,
        None,
    ),
    Option("cluster_id", "ID", "The cluster that the data folder must belong to.", _text, ""),
    Option("rack", "NAME", "The rack or zone of this machine: replicas are spread over racks.", _text, ""),
    Option(
        "forwarding",
        "POLICY",
        "auto, always or never: whose requests this broker forwards when another broker leads. auto: those "
        "of clients that can't be sent to the leader.",
        _choice(ForwardingPolicy),
        "auto",
    ),
    Option(
        "max_connections",
        "N",
        "The most clients that may be connected.",
        _number(1, 1_000_000),
        str(Limits().connections),
    ),
    Option(
        "stop_grace_ms",
        "MS",
        "How long an orderly stop waits for requests under way.",
        _number(0, 600_000),
        "2000",
    ),
    Option(
        "ready_wait_ms",
        "MS",
        "How long /readyz waits, after a start, until this broker's replicas are in sync.",
        _number(0, 86_400_000),
        "30000",
    ),
)
"""All options, in the order in which `--help` shows them."""
