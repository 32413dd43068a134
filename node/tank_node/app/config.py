"""A node's configuration: command line, then `TANK_*` environment, then a TOML file, then defaults.

Every option has one name in all of them: `log_format` is `--log-format`, `TANK_LOG_FORMAT` and the file's key
`log_format`. Reading the file and the environment is the caller's; here they are judged.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.limits import Limits
from tank_protos import topic_settings
from tank_protos.topic_settings import FlushPolicy

DEFAULT_PORT = 11011
MAX_BROKER_ID = 0xFFFE
"""A u16 on the wire, where 0xffff stands for nobody."""
LOOPBACK = "127.0.0.1"


class ConfigError(ValueError):
    """A value that can't be used: one sentence that names the flag, the variable, or the file and its key."""


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True, frozen=True)
class Address:
    """A host (a name or an address) and a port; port 0: one that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(slots=True, frozen=True)
class NodeConfig:
    """What a node is told at its start."""

    data: Path
    listen: Address
    http: Address | None
    """None: no HTTP port."""
    advertise: Address | None
    """Where clients and other brokers reach the node, when it isn't where it listens."""
    outside_listen: Address | None
    """A second address for clients that don't reach what is advertised; None: there is none."""
    outside_advertise: Address | None
    """What those are told instead. Set exactly when `outside_listen` is."""
    flush: FlushPolicy
    """For topics that don't say."""
    log_format: LogFormat
    log_level: LogLevel
    broker_id: int | None
    """None: the data folder's; 1 for a new one."""
    cluster_id: str
    """Empty: the data folder's; a random one for a new one."""
    rack: str
    forwarding: ForwardingPolicy
    """Which clients' requests for what another broker leads are brought to it."""
    max_connections: int
    stop_grace_ms: int
    """How long an orderly stop waits for what is under way."""
    ready_wait_ms: int
    """How long /readyz waits, after a start, for this broker's replicas to be in sync."""
    secret_file: Path | None
    """With the cluster's secret; None: nothing is proved to the controllers."""


@dataclass(slots=True, frozen=True)
class Option:
    """One option: what it is called, what it takes, what it is for."""

    name: str
    metavar: str
    help: str
    read: Callable[[str], object]
    default: str | None
    """As a user would write it; None: it follows from others, as its help says."""

    @property
    def flag(self) -> str:
        """As the command line has it."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """As the environment has it."""
        return "TANK_" + self.name.upper()


def load(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    read_file: Callable[[str], bytes] = lambda path: Path(path).read_bytes(),
) -> NodeConfig:
    """The configuration that these give together. `flags` by option name; None where a flag wasn't given.

    The file is the one that `--config` or `TANK_CONFIG` names. ConfigError.
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
    if (values["outside_listen"] is None) != (values["outside_advertise"] is None):
        raise ConfigError(
            "--outside-listen and --outside-advertise go together: where clients of the outside are served, "
            "and where they reach that"
        )
    return NodeConfig(**values)  # type: ignore[arg-type]


def _given(
    option: Option,
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    in_file: Mapping[str, str],
    config_file: str,
) -> tuple[str | None, str]:
    """What was given for an option, and where. An empty variable counts as none, as in a shell."""
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
    """The user's state folder, as the XDG base directory specification has it."""
    state = environment.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        home = environment.get("HOME") or os.path.expanduser("~")
        if not home.startswith("/"):
            raise ConfigError("--data: this user has no home folder: name a folder for the data")
        state = f"{home}/.local/state"
    return Path(state) / "tank"


def _default_http(listen: object) -> Address:
    """Loopback, one port above the TANK port; both free ones when that is."""
    assert isinstance(listen, Address)
    return Address(LOOPBACK, listen.port + 1 if 0 < listen.port < 65_535 else 0)


def _shown(text: str) -> str:
    return repr(text[:80])


# --- values ---


def read_address(text: str) -> Address:
    """`HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for all addresses. ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or (":" in host and not bracketed) or not (port.isascii() and port.isdigit()):
        raise ValueError(f"write HOST:PORT, such as {LOOPBACK}:{DEFAULT_PORT}")
    if int(port) > 65_535:
        raise ValueError("a port is at most 65535")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]{0,253}", host):
        raise ValueError("a host is a name or an address, of at most 253 letters, digits, dots and hyphens")
    return Address(host or "0.0.0.0", int(port))


def _advertised(text: str) -> Address:
    address = read_address(text)
    if address.host in ("0.0.0.0", "::") or address.port == 0:
        raise ValueError("write the host and the port that clients use, such as broker-1.example.org:11011")
    return address


def _http(text: str) -> Address | None:
    return None if text.lower() == "off" else read_address(text)


def _choice(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError(f"write one of {', '.join(kind)}") from None

    return read


def _number(lowest: int, greatest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and lowest <= int(text) <= greatest):
            raise ValueError(f"write a whole number between {lowest} and {greatest}")
        return int(text)

    return read


def _broker_id(text: str) -> int:
    """A number, or the name of a StatefulSet's pod: those are counted from 0, brokers from 1."""
    pod = re.fullmatch(r"[a-z0-9.-]{1,240}-(\d{1,5})", text)
    number = int(pod[1]) + 1 if pod else int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= MAX_BROKER_ID:
        raise ValueError(
            f"write a whole number between 1 and {MAX_BROKER_ID}, or a pod's name such as tank-broker-0"
        )
    return number


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
        "Where messages and metadata are kept; default: tank in the state folder.",
        _folder,
        None,
    ),
    Option(
        "listen", "HOST:PORT", "Where to serve the TANK protocol.", read_address, f"{LOOPBACK}:{DEFAULT_PORT}"
    ),
    Option(
        "http",
        "HOST:PORT",
        "Where to serve /metrics, /healthz and /readyz; off: nowhere. Default: this machine alone, "
        "one port above --listen.",
        _http,
        None,
    ),
    Option(
        "advertise",
        "HOST:PORT",
        "Where clients and other brokers reach this broker. Default: --listen; this machine's name when that "
        "is all.",
        _advertised,
        None,
    ),
    Option(
        "outside_listen",
        "HOST:PORT",
        "A second address for clients that don't reach what is advertised. Default: none.",
        read_address,
        None,
    ),
    Option(
        "outside_advertise",
        "HOST:PORT",
        "Where clients that come by --outside-listen reach this broker, and are told so.",
        _advertised,
        None,
    ),
    Option(
        "flush",
        "disk|replicated",
        "When messages are acknowledged in topics that don't say: on disk, or in memory.",
        topic_settings.parse_flush,
        "disk",
    ),
    Option(
        "secret_file",
        "FILE",
        "The cluster's secret, the same line for all its processes: controllers take no broker without it. "
        "It may be changed while this runs. A lone broker needs none.",
        _file,
        None,
    ),
    Option("log_format", "text|json", "How log lines are written.", _choice(LogFormat), "text"),
    Option("log_level", "LEVEL", "debug, info, warning or error.", _choice(LogLevel), "info"),
    Option(
        "broker_id",
        "N|POD",
        "The id a new data folder gets (1), or that it must have; of a pod NAME-N: N + 1.",
        _broker_id,
        None,
    ),
    Option("cluster_id", "ID", "The cluster that the data folder must belong to.", _text, ""),
    Option("rack", "NAME", "Where this machine stands; replicas are spread over racks.", _text, ""),
    Option(
        "forwarding",
        "POLICY",
        "auto, always or never: which TANK clients reach other leaders through this broker; auto: those that "
        "can't be sent there.",
        _choice(ForwardingPolicy),
        "auto",
    ),
    Option(
        "max_connections",
        "N",
        "How many clients may be connected.",
        _number(1, 1_000_000),
        str(Limits().connections),
    ),
    Option(
        "stop_grace_ms",
        "MS",
        "How long an orderly stop waits for what is under way.",
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
"""All of them, in the order in which `--help` shows them."""
