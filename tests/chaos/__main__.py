"""`make chaos`: a cluster of real processes under load and faults, and everything read back at the end.

Three controllers and three brokers, in network namespaces where they can be made, and clients of every kind:
ours, librdkafka and aiokafka where both are installed, and with `--iggy` Iggy's, in their own environment.
Each fault is followed by the time that the cluster needs until all replicas are in sync again and all clients
get on; then comes the next, in an order drawn from the seed, every kind once before any comes again. At the
end all that clients were told is held against the log, and the replicas against each other. Exit code 1, and
the processes' last words, when anything acknowledged is lost, repeated or out of order, when a consumer saw
what is no more, when a client met an error, when something doesn't heal in time, or a process ended by
itself.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tank_cli.cluster.controller_calls import Controllers
from tank_cli.cluster.options import prover_of
from tank_cli.shell.exit_codes import CliError
from tank_client import TankError
from tank_client.sync import Client
from tests.chaos import network
from tests.chaos.faults import FAULTS
from tests.chaos.hogs import hogs
from tests.chaos.members import Members, StuckError
from tests.chaos.run import BROKERS, CONTROLLERS, Run
from tests.iggy_clients import package

KAFKA_CLIENTS = ("confluent_kafka", "aiokafka")
END_S = 900
"""A run that takes so much longer than its faults hangs, and is ended."""


def main() -> int:
    """See the module."""
    chosen = _chosen()
    seed = random.SystemRandom().randrange(1_000_000) if chosen.seed is None else chosen.seed
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="tank-chaos-"))
    if chosen.keep is not None:
        folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was made is removed
    signal.signal(signal.SIGALRM, _takes_too_long)
    signal.alarm(int(chosen.minutes * 60) + END_S)
    links, why = network.make(CONTROLLERS + BROKERS, namespaces=False if chosen.loopback else None)
    print(f"seed {seed}, on {links.name}{f' ({why}): LINKS ARE NOT CUT' if why else ''}", flush=True)
    iggy_python = _iggy_python() if chosen.iggy else ""
    members = Members(folder, links)
    found: list[str] = []
    try:
        members.plan(
            CONTROLLERS,
            BROKERS,
            kafka=_has_kafka_clients(),
            iggy=bool(iggy_python),
            minutes=chosen.minutes,
            session_timeout_ms=chosen.session_timeout_ms,
        )
        addresses = [member.address for member in members.controllers]
        with (
            Client(members.servers) as client,
            Controllers(addresses, "", prover_of(members.secret)) as controllers,
            hogs(chosen.hogs),
        ):
            run = Run(
                members, controllers, seed, chosen.minutes, chosen.rate, not chosen.no_old_clients,
                chosen.only, iggy_python, calm=chosen.calm,
            )  # fmt: skip
            found = run.live(client)
    except (StuckError, TankError, CliError) as error:
        found = [str(error)]
    finally:
        signal.alarm(0)
        members.close(keep=bool(found))
        links.close()
    if found:
        print("\n".join(["", "VIOLATIONS:", *found]))
        for member in members.all:
            print(f"\n{member.name} said at last:\n{member.last_words()}")
        print(f"\ndata, logs and records: {folder}")
        only = (" --iggy" if chosen.iggy else "") + (f" --only '{chosen.only}'" if chosen.only else "")
        print(f"again: python -m tests.chaos --minutes {chosen.minutes:g} --seed {seed}{only} --keep DIR")
        return 1
    if chosen.keep is None:
        shutil.rmtree(folder)
    print("nothing acknowledged was lost, repeated or out of order")
    return 0


def _has_kafka_clients() -> bool:
    """Whether they are installed; says it if not."""
    missing = [name for name in KAFKA_CLIENTS if find_spec(name) is None]
    if missing:
        print(f"WITHOUT KAFKA'S CLIENTS: there is no {' and no '.join(missing)}", flush=True)
    return not missing


def _iggy_python() -> str:
    """The interpreter that has Iggy's client; says it if there is none."""
    found = package.interpreter() or ""
    if not found:
        print(f"WITHOUT IGGY'S CLIENT: {package.PACKAGE} can't be installed", flush=True)
    return found


def _chosen() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults are made; default 5")
    parser.add_argument("--seed", type=int, default=None, help="the order of faults; default: by chance")
    parser.add_argument(
        "--rate", type=float, default=100.0, help="messages a second of each idempotent producer"
    )
    parser.add_argument("--loopback", action="store_true", help="no network namespaces")
    parser.add_argument("--no-old-clients", action="store_true", help="without clients of the old document")
    parser.add_argument("--iggy", action="store_true", help="with Iggy's client, which is installed for it")
    parser.add_argument("--only", default="", help="only faults that have this in their names")
    parser.add_argument("--keep", type=Path, help="a new folder for data, logs and records, which stays")
    parser.add_argument(
        "--calm", action="store_true", help="no faults: the load alone, and who is fenced by it"
    )
    parser.add_argument(
        "--hogs", type=int, default=0, help="processes beside it that take all they get; default 0"
    )
    parser.add_argument("--session-timeout-ms", type=int, help="of the controllers; default: theirs")
    chosen = parser.parse_args()
    if not any(chosen.only in fault.name for fault in FAULTS):
        parser.error(f"--only: no fault has this in its name: {', '.join(fault.name for fault in FAULTS)}")
    if chosen.keep is not None and chosen.keep.exists():
        parser.error(f"--keep: {chosen.keep} is there already")
    return chosen


def _takes_too_long(*_: object) -> None:
    raise StuckError("the run doesn't come to its end")


if __name__ == "__main__":
    sys.exit(main())
