"""`tank cluster up|down|logs`: controllers and brokers as processes on this machine."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import FOLDER, SECRET_VARIABLE
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import seconds_text
from tank_cli.shell.output import Json, note, print_json
from tank_cli.shell.session import CONTROLLERS_VARIABLE, CommandSession, offline_options
from tank_protos import server_packages

if TYPE_CHECKING:
    from tank_cli.cluster.folder import ClusterFolder, ClusterMember

DEFAULT_BASE_PORT = 11011
MAX_BASE_PORT = 65_000
NEXT_BASE_PORT = 1_000
"""The distance of the base port that is proposed when some ports are taken."""
FOLLOW_EVERY_S = 0.2


@click.command()
@click.option(
    "--controllers",
    type=click.IntRange(1, 9),
    metavar="N",
    help="How many controllers: an odd number.  [default: 3, later as many as there are]",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 50),
    metavar="N",
    help="How many brokers; later, more.  [default: 3, later as many as there are]",
)
@FOLDER
@click.option(
    "--base-port",
    type=click.IntRange(1024, MAX_BASE_PORT),
    default=DEFAULT_BASE_PORT,
    show_default=True,
    metavar="N",
    help="The first broker's TANK port; the other ports are up to 299 above it. Kept "
    "from the first start on.",
)
@click.option(
    "--forwarding",
    type=click.Choice(["auto", "always", "never"]),
    help="For which clients brokers forward requests to other leaders, as tank-node's option. Kept in the "
    "folder; "
    "brokers that run heed it from their next start on.  [default: as it was, at first auto]",
)
@click.option(
    "--iggy/--no-iggy",
    default=None,
    help="Whether brokers serve Iggy clients, at ports from 250 above the base port on. Kept in the folder "
    "likewise.  [default: as it was, at first not]",
)
@offline_options
def up(
    session: CommandSession,
    controllers: int | None,
    brokers: int | None,
    data: Path,
    base_port: int,
    forwarding: str | None,
    iggy: bool | None,
) -> None:
    """Start the processes that don't run, and wait until all are ready.

    They go on when this command has ended, and log to DIR/logs. Run it again to start those that died. A
    controller that was removed begins anew with an empty folder, and is added again. A broker that was
    removed stays away, unless --brokers asks for as many.

    TANK_LOG_LEVEL, TANK_FLUSH and other variables that may be the same for all processes reach those that it
    starts.
    """
    server_packages.need()
    from tank_cli.cluster import folder as cluster_folder
    from tank_cli.cluster import processes, repair

    if controllers is not None and controllers % 2 == 0:
        raise CliError(
            f"{controllers} controllers bear no more losses than {controllers - 1}: take an odd number.",
            ExitCode.USAGE,
        )
    began = time.monotonic()
    folder = cluster_folder.planned(data, controllers, brokers, base_port)
    folder.forwarding = forwarding or folder.forwarding
    if iggy is not None:
        folder.serve_iggy(serves=iggy)
    for name in processes.kept_back(os.environ):
        note(f"{name} is for a single process, and is not passed on to the processes of the cluster.")
    for member in repair.begin_anew(folder):
        note(f"{member.name} was removed from the cluster: it begins anew, and its data is set aside.")
    dead = [member for member in folder.members if not processes.is_alive(folder, member)]
    _check_ports(dead, base_port, data)
    data.mkdir(parents=True, exist_ok=True)
    folder.store()
    cluster_folder.make_secrets(folder)

    def tell(member: cluster_folder.ClusterMember) -> None:
        if not session.as_json:
            click.echo(f"{member.name} is ready at {member.address} (process {member.pid})", err=True)

    try:
        if dead and not session.as_json:
            note(f"Starting {len(dead)} of {len(folder.members)} processes ...")
        away = _start(folder, dead, comes_back=brokers is not None)
        count = f"{len(dead) - len(away)} of {len(folder.members)} processes"
        processes.await_ready(folder, tell)
    except KeyboardInterrupt:
        note(f"The processes that were started go on. To wait for them: tank cluster up --data {data}; "
             f"to end it: tank cluster down --data {data}")  # fmt: skip
        raise
    if session.as_json:
        print_json(folder.as_json())
        return
    _tell_next_steps(folder, f"{count} started in {seconds_text(time.monotonic() - began)}")


def _tell_next_steps(folder: "ClusterFolder", said: str) -> None:
    """Prints, on stdout, that the cluster is up, and the next commands."""
    servers = ",".join(member.address for member in folder.brokers)
    click.echo(f"Cluster {folder.cluster_id} is up: {said}.")
    click.echo(f"Kafka clients: {','.join(member.kafka for member in folder.brokers if member.kafka)}")
    if iggy := [member.iggy for member in folder.brokers if member.iggy]:
        click.echo(f"Iggy clients: {','.join(iggy)}")
    click.echo(f"  export TANK_SERVERS={servers}")
    click.echo(f"  export {CONTROLLERS_VARIABLE}={','.join(member.address for member in folder.controllers)}")
    click.echo(f"  export {SECRET_VARIABLE}={folder.secret.absolute()}")
    click.echo("  tank cluster status")
    click.echo(f"  tank cluster down --data {folder.path}")


def _start(
    folder: "ClusterFolder", dead: "list[ClusterMember]", *, comes_back: bool
) -> "list[ClusterMember]":
    """Starts these, but for brokers that were removed from the cluster; returns those. `comes_back`: a number
    of brokers is asked for, so they begin anew."""
    from tank_cli.cluster import processes, repair
    from tank_cli.cluster.folder import BROKER

    for member in dead:
        if member.role != BROKER:
            processes.start(folder, member)
    away = []
    for member in repair.set_removed_aside(folder):
        if comes_back:
            note(f"{member.name} was removed from the cluster: it begins anew, and its data is set aside.")
            continue
        away.append(member)
        folder.members.remove(member)
        folder.store()
        anew = f"`tank cluster up --brokers {len(folder.brokers) + 1}` has another in its place"
        note(f"{member.name} was removed from the cluster, and stays away; {anew}.")
    for member in dead:
        if member.role == BROKER and member not in away:
            processes.start(folder, member)
    return away


def _check_ports(members: "list[ClusterMember]", base_port: int, data: Path) -> None:
    """Raises CliError when a process could not listen. Nothing has been written at that time, so a new
    cluster can be made with other ports.
    """
    from tank_cli.cluster.processes import taken_address

    taken = next(((member, address) for member in members if (address := taken_address(member))), None)
    if taken is None:
        return
    member, address = taken
    what = f"{member.name} can't listen on {address}: another process does, such as `tank serve` or another"
    if (data / "cluster.json").exists():
        raise CliError(f"{what} cluster. Stop that one; this cluster keeps its ports.")
    other = base_port + NEXT_BASE_PORT if base_port + NEXT_BASE_PORT <= MAX_BASE_PORT else DEFAULT_BASE_PORT
    raise CliError(
        f"{what} cluster. Stop that one, or choose other ports.",
        hint=f"tank cluster up --data {data} --base-port {other}",
    )


@click.command()
@FOLDER
@offline_options
def down(session: CommandSession, data: Path) -> None:
    """Stop all processes in order; the data stays."""
    from tank_cli.cluster import folder as cluster_folder
    from tank_cli.cluster import processes

    folder = cluster_folder.load_existing(data)
    ended: list[Json] = []

    def tell(member: cluster_folder.ClusterMember, killed: bool) -> None:
        ended.append({"role": member.role, "id": member.number, "killed": killed})
        if not session.as_json:
            how = "did not stop in time and was killed" if killed else "stopped"
            click.echo(f"{member.name} {how}", err=True)

    processes.stop_all(folder, tell)
    if session.as_json:
        print_json({"stopped": ended})
    else:
        click.echo(f"Stopped {len(ended)} process{'' if len(ended) == 1 else 'es'}.")


@click.command()
@FOLDER
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0, 1_000_000),
    default=20,
    show_default=True,
    metavar="N",
    help="How many lines of each log to show first.",
)
@click.option("--follow", "-f", is_flag=True, help="Show new lines, too, until Ctrl-C.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@offline_options
def logs(session: CommandSession, data: Path, lines: int, follow: bool, names: tuple[str, ...]) -> None:
    """Show the logs of all processes, or of those named, such as broker-1."""
    from tank_cli.cluster import folder as cluster_folder
    from tank_cli.cluster import processes

    folder = cluster_folder.load_existing(data)
    known = [member.name for member in folder.members]
    for name in names:
        if name not in known:
            raise CliError(f"There is no {name} here, but {', '.join(known)}.", ExitCode.NOT_FOUND)
    chosen = [member for member in folder.members if not names or member.name in names]
    found = {member.name: processes.last_lines(folder, member, lines) for member in chosen}
    if session.as_json:
        print_json({"logs": [{"name": name, "lines": list(its)} for name, its in found.items()]})
        return
    width = max(map(len, found))
    for name, its in found.items():
        for line in its:
            click.echo(f"{name:<{width}}  {line}")
    if follow:
        _follow({member.name: folder.log_of(member) for member in chosen}, width)


def _follow(files: dict[str, Path], width: int) -> None:
    ends = {name: path.stat().st_size if path.exists() else 0 for name, path in files.items()}
    while True:
        for name, path in files.items():
            if not path.exists() or path.stat().st_size <= ends[name]:
                continue
            with open(path, "rb") as log:
                log.seek(ends[name])
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            ends[name] += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                click.echo(f"{name:<{width}}  {line}")
        time.sleep(FOLLOW_EVERY_S)
