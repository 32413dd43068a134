"""`python -m tank_cli.configuration > docs/configuration.md`: a broker's options and a topic's settings, from
the tables that read them.
"""

import click

from tank_node.app.config import OPTIONS
from tank_node.limits import Limits
from tank_protos.topic_settings import in_units, setting_texts

INTRODUCTION = """# Configuration

Made by `python -m tank_cli.configuration > docs/configuration.md`; a test compares it with the code.

## The broker: `tank serve`

Every option is a flag, an environment variable and a key of a TOML file. The flag wins over the variable, the
variable over the file, the file over the default. An empty variable counts as none. A key that isn't in this
table, or a value that can't be used, ends the start with exit code 2 and a message that names the flag, the
variable, or the file and its key.

```toml
# tank serve --config tank.toml
data = "/var/lib/tank"
listen = "0.0.0.0:11011"
advertise = "broker-1.example.org:11011"
stop_grace_ms = 2000
```
"""

NOTES = """
- `tank-node`, a broker of a cluster, takes the same options, and `--controllers` (`TANK_CONTROLLERS`): see
  [cluster.md](cluster.md).
- `--data`: the default is `$XDG_STATE_HOME/tank`, else `~/.local/state/tank`. One process at a time may use a
  folder.
- `--listen`: port 0 takes a free port, which the line at the start names. `:PORT` listens on all addresses.
  Every process that reaches the port can read, write and delete everything: there is no TLS and no
  authentication yet, and the start warns of any address but this machine's own.
- `--advertise`: the broker's address in answers to clients. Give it where clients reach the broker by another
  address than it listens on: behind a Service, a container's port mapping, or a second network.
- `--outside-listen` and `--outside-advertise` are for clients that reach the brokers by other addresses than
  the brokers reach each other: behind a load balancer, on ports of nodes. A client that comes by the second
  address gets the second addresses of all brokers; replication and all other clients keep to the first.
- `--kafka`: clients of Kafka's protocol connect here, and read and write the same topics; the line at the
  start names the address. A default address that another process uses is no error: the broker warns, serves
  TANK's clients alone, and registers no address for Kafka clients. An address that you gave must be free.
  Where `--listen` has port 0, the default is any free port.
- `--kafka-advertise` is the address that Kafka clients get from all brokers: set it where they reach this
  one by another host or port. `--kafka-outside-listen` and `--kafka-outside-advertise` are for Kafka clients
  what `--outside-listen` and `--outside-advertise` are for TANK's.
- `--kafka-auto-create`: a typing error in a topic's name makes a topic, which is why a cluster doesn't do it
  unless asked.
- A Kafka client that is silent is not disconnected: it may be idle for as long as it likes after its first
  request, and for 10 minutes before. TANK's clients have 16 s for their first request.
- `--flush` is the default for topics whose own `flush` isn't set. `disk`: a message is acknowledged when it
  is fsynced. `replicated`: when the in-sync replicas have it in memory; with one broker a crash of the
  machine (not of the process) loses the messages since the last fsync, up to 5 s of them. Give all
  brokers of a cluster the same: a leader acknowledges by its own value, and a follower with `replicated`
  under a leader with `disk` fsyncs too seldom to stay in sync.
- `--broker-id` and `--cluster-id` are kept in the data folder when it is made. Later they only check that it
  is the right one.
- `--max-connections` is lowered where the limit of open files is too low for it (`ulimit -n`).
- `--stop-grace-ms`: on SIGTERM waiting requests are answered at once; this is how long their clients have to
  take the answers, and the disk to finish. A second SIGTERM or Ctrl-C ends the process at once, and the next
  start recovers.
- The CLI's own commands read `TANK_SERVERS`: see [cli.md](cli.md).
"""

TOPICS = """
## A topic

`tank topic create flights --set log.retention.secs=7d --set flush=replicated`; `tank topic alter` changes and
unsets them; `tank topic describe` shows them. TANK's own CreateTopic takes them as text, one `key=value` a
line, `#` begins a comment.

A size is a number of bytes, with `k`, `m`, `g` or `t` of 1024s. A duration is a number of seconds, or has a
unit: `ms`, `s`, `min`, `h`, `d`, `w`, `mon` (30 days), `y` (365 days). Both may be sums: `1d+12h`, `1g,512m`.

"""

LIMITS = """
## Limits of a broker

Fixed in this version; clients learn them from the features message. Times in ms, sizes in bytes.

"""

_DEPENDS = {"flush": "the broker's `--flush`", "min.insync.replicas": "replicas // 2 + 1 from 3 on, else 1"}


def page() -> str:
    """The whole page, in Markdown."""
    lines = [
        INTRODUCTION,
        "| Flag | Variable | Key | Takes | Default | What for |",
        "|---|---|---|---|---|---|",
    ]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else ""
        names = f"`{option.flag}` | `{option.variable}` | `{option.name}`"
        lines.append(f"| {names} | {_cell(option.metavar)} | {default} | {_cell(option.help)} |")
    lines.append("| `--config` | `TANK_CONFIG` | | FILE | | A TOML file with any of these options. |")
    lines += [NOTES + TOPICS + "| Key | Takes | Default | Meaning |", "|---|---|---|---|"]
    for setting in setting_texts():
        default = _DEPENDS.get(setting.key) or f"`{in_units(setting.key, setting.default)}`"
        lines.append(f"| `{setting.key}` | {setting.takes} | {default} | {setting.about} |")
    lines += [LIMITS + "| Limit | Value |", "|---|---:|"]
    lines += [f"| `{name}` | {value:,} |" for name, value in Limits().published()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    click.echo(page(), nl=False)
