"""`tank-node`: a broker of a cluster. With `tank serve` in tank_cli the only place that wires real things."""

import asyncio
import os

import click

from tank_node import config as node_config
from tank_node.command_options import ControllersOption, node_options
from tank_node.config import ConfigError, LogFormat, NodeConfig

EPILOG = """
Every option can also be an environment variable (--log-format: TANK_LOG_FORMAT) or, but for --controllers and
--config, a key of the TOML file. The command line wins over the environment, the environment over the file.

\b
Exit codes:
    0  stopped in order, by SIGTERM or Ctrl-C: others lead what it led
    1  it could not start, or go on: the message says why
    2  an option, a variable or a key of the file can't be used
  128+ stopped at once, by a second signal
"""


@click.command(
    epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--controllers",
    type=ControllersOption(),
    envvar="TANK_CONTROLLERS",
    required=True,
    help="The cluster's controllers; one that answers is enough to find the others.",
)
@node_options
def main(controllers: list[str], **flags: str | None) -> None:
    """Run a broker of a cluster, until SIGTERM or Ctrl-C stops it in order."""
    try:
        config = node_config.load(flags, os.environ)
    except ConfigError as error:
        raise click.UsageError(f"{error}.") from None
    if config.broker_id is None and not (config.data / "meta.json").exists():
        raise click.UsageError("--broker-id: a new data folder needs the number of its broker.")
    raise SystemExit(run(config, controllers))


def run(config: NodeConfig, controllers: list[str]) -> int:
    """The exit code."""
    from tank_node.cluster_process import ClusterNodeProcess, RefusedError, find_cluster_id
    from tank_node.log.errors import DataFolderError, StorageError
    from tank_node.monitoring.logs import set_up_logs
    from tank_node.network.loop import TickLoop
    from tank_node.process import Started

    set_up_logs(as_json=config.log_format is LogFormat.JSON, level=config.log_level)

    def announce(started: Started) -> None:
        http = "" if started.http is None else f", http on {started.http}"
        click.echo(
            f"tank broker {started.broker_id} of cluster {started.cluster_id} listening on "
            f"{started.listen}{http}; data in {started.data}; ready in {started.seconds:.2f} s"
        )

    async def live() -> None:
        cluster_id = ""
        if not (config.data / "meta.json").exists():
            cluster_id = await find_cluster_id(controllers)
        await ClusterNodeProcess(config, controllers, cluster_id).run(announce)

    try:
        with asyncio.Runner(loop_factory=TickLoop) as runner:
            runner.run(live())
    except (DataFolderError, StorageError, RefusedError, OSError) as error:
        click.echo(f"error: {error}.", err=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    main(prog_name="tank-node")
