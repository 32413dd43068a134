"""`tank serve`: a broker with its controller, in one process."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tank_cli.cluster import folder
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import bytes_text, count_text
from tank_cli.shell.session import CommandSession, offline_options
from tank_node.app import config as node_config
from tank_node.app.config import ConfigError, LineFormat, NodeConfig
from tank_node.app.options import node_options
from tank_node.version import kernel_name

if TYPE_CHECKING:
    from tank_node.app.process import Started

EPILOG = """
Every option can also be an environment variable (--log-format: TANK_LOG_FORMAT) or a key of the TOML file
(log_format = "json"). The command line wins over the environment, the environment over the file.

\b
Exit codes:
    0  stopped in order, by SIGTERM or Ctrl-C
    1  it could not start: the message says why (the address or the data folder is in use, …); or its disk
       hung at the stop
    2  an option, a variable or a key of the file can't be used
    8  the metadata on disk is damaged
  128+ stopped at once, by a second signal

It listens on this machine alone unless --listen says otherwise: there is no authentication yet.
"""


@click.command(epilog=EPILOG)
@node_options
@offline_options
def serve(session: CommandSession, **flags: str | None) -> None:
    """Run a broker, until SIGTERM or Ctrl-C stops it in order."""
    try:
        config = node_config.load(flags, os.environ)
    except ConfigError as error:
        raise CliError(f"{error}.", ExitCode.USAGE, "tank serve --help") from None
    folder.refuse_in_cluster(config.data.absolute())
    from tank_protos.log_lines import set_up_logs

    as_json = session.as_json or config.log_format is LineFormat.JSON
    set_up_logs(as_json=as_json, level=config.log_level)
    _run(config, lambda started: _announce(started, as_json))


def _run(config: NodeConfig, announce: "Callable[[Started], None]") -> None:
    from tank_cli.serve.local_controller import LocalRegistrationError
    from tank_cli.serve.process import ServeProcess
    from tank_controller.commands.machine import UnknownEntryError
    from tank_controller.raft_node.frames import JournalDamagedError, JournalError
    from tank_controller.raft_node.replay import RaftStorageError, StorageDamagedError
    from tank_controller.state.state import SnapshotError
    from tank_node.app.ports import ListenError
    from tank_node.segment.errors import DataFolderError, StorageError
    from tank_node.server.loop import TickLoop

    async def live() -> None:
        await ServeProcess(config).run(announce)

    try:
        with asyncio.Runner(loop_factory=TickLoop) as runner:
            runner.run(live())
    except (JournalDamagedError, StorageDamagedError) as error:
        raise CliError(f"{error}.", ExitCode.DAMAGED) from error
    except (
        DataFolderError,
        StorageError,
        JournalError,
        RaftStorageError,
        SnapshotError,
        UnknownEntryError,
        ListenError,
        LocalRegistrationError,
    ) as error:
        raise CliError(f"{error}.") from error


def _announce(started: "Started", as_json: bool) -> None:
    """Prints the one line on standard output: the address, and the data that was found."""
    if as_json:
        fields = {
            "event": "listening",
            "listen": str(started.listen),
            "kafka": None if started.kafka is None else str(started.kafka),
            "iggy": None if started.iggy is None else str(started.iggy),
            "http": None if started.http is None else str(started.http),
            "data": str(started.data),
            "cluster_id": started.cluster_id,
            "broker_id": started.broker_id,
            "topics": started.topics,
            "partitions": started.partitions,
            "messages": started.messages,
            "bytes": started.stored_bytes,
            "cut_bytes": started.cut_bytes,
            "clean": started.clean,
            "problems": started.problems,
            "kernel": kernel_name(),
            "seconds": round(started.seconds, 3),
        }
        click.echo(json.dumps(fields))
    else:
        click.echo(_sentence(started))
    served = [each for each in (started.listen, started.kafka) if each is not None]
    if within_reach := [str(address) for address in served if not address.is_loopback]:
        _warn(
            f"other machines can reach {' and '.join(within_reach)}, and there is no authentication yet: "
            "they can read, write and delete everything",
            as_json,
        )
    if started.iggy is not None and not started.iggy.is_loopback:
        _warn(
            f"other machines can reach {started.iggy}: Iggy's clients log in, but nothing is encrypted, "
            "passwords neither",
            as_json,
        )
    if started.http is not None and not started.http.is_loopback:
        _warn(f"other machines can reach {started.http} and see the metrics", as_json)


def _warn(sentence: str, as_json: bool) -> None:
    if as_json:
        logging.getLogger("tank").warning(sentence)
    else:
        click.echo(f"warning: {sentence}", err=True)


def _sentence(started: "Started") -> str:
    kafka = "" if started.kafka is None else f", Kafka clients on {started.kafka}"
    iggy = "" if started.iggy is None else f", Iggy clients on {started.iggy}"
    http = "" if started.http is None else f", http on {started.http}"
    if started.partitions:
        stop = "after a clean stop" if started.clean else "after a crash"
        cut = f", {bytes_text(started.cut_bytes)} of unfinished writes cut" if started.cut_bytes else ""
        found = (
            f"recovered {_counted(started.partitions, 'partition')} of {_counted(started.topics, 'topic')}, "
            f"{_counted(started.messages, 'message')}, {bytes_text(started.stored_bytes)} {stop}{cut}"
        )
    else:
        found = "no topics yet"
    if started.problems:
        found += f"; {_counted(started.problems, 'damaged partition')}, see the log and /readyz"
    return (
        f"tank broker {started.broker_id} listening on {started.listen}{http}{kafka}{iggy}; "
        f"data in {started.data}: {found}; {kernel_name()} kernel; ready in {started.seconds:.2f} s"
    )


def _counted(number: int, what: str) -> str:
    return f"{count_text(number)} {what}{'' if number == 1 else 's'}"
