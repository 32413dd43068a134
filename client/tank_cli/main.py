"""The `tank` command: the group and its table of commands. It imports click and nothing heavier."""

import click

from tank_cli.shell.exit_codes import MEANINGS
from tank_cli.shell.lazy import LazyCommand, LazyGroup
from tank_cli.shell.session import CommandSession, root_options

COMMANDS: dict[str, LazyCommand] = {
    "demo": LazyCommand("tank_cli.serve.demo:demo", "Show a broker at work, in 30 seconds."),
    "serve": LazyCommand(
        "tank_cli.serve.command:serve", "Run a broker, until SIGTERM or Ctrl-C stops it in order."
    ),
    "topic": LazyCommand("tank_cli.messages.topic:topic", "Create, list, describe, alter and delete topics."),
    "produce": LazyCommand(
        "tank_cli.messages.produce:produce", "Write messages to TOPIC, from FILEs or from stdin."
    ),
    "consume": LazyCommand("tank_cli.messages.consume:consume", "Read the messages of TOPIC."),
    "lag": LazyCommand("tank_cli.groups.lag:lag", "Show how far consumer groups are behind."),
    "group": LazyCommand("tank_cli.groups.commands:group", "See, reset and delete consumer groups."),
    "status": LazyCommand(
        "tank_cli.messages.status:status", "Show the broker's version, topics, disk and problems."
    ),
    "connections": LazyCommand(
        "tank_cli.messages.connections:connections", "Show the clients that are connected to the brokers."
    ),
    "cluster": LazyCommand("tank_cli.cluster.commands:cluster", "Run, inspect and change a cluster."),
    "iggy": LazyCommand("tank_cli.iggy.commands:iggy", "See and change what Iggy's clients use."),
    "bench": LazyCommand("tank_cli.bench.commands:bench", "Measure a broker through this client."),
    "log": LazyCommand("tank_cli.files.commands:log", "Inspect a data folder without a broker."),
    "completion": LazyCommand(
        "tank_cli.shell.completion:completion", "Print the completion script of a shell."
    ),
}

EPILOG = (
    "\b\nExit codes:\n"
    + "\n".join(f"  {int(code):>3}  {meaning}" for code, meaning in MEANINGS.items())
    + "\n\n\b\nFirst steps:\n  tank demo\n  tank serve\n  tank topic create greetings\n"
    "  echo hello | tank produce greetings\n  tank consume greetings"
)


def _show_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from tank_node.version import version_and_kernel

        click.echo(f"tank {version_and_kernel()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@root_options
@click.pass_context
def main(ctx: click.Context, session: CommandSession) -> None:
    """Tank Cluster: an ordered log of messages, in topics and partitions.

    Every command takes --servers, --output text|json and --debug, before or after its name.
    """
    ctx.obj = session


if __name__ == "__main__":
    main(prog_name="tank")
