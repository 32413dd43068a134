"""Handles processes that were removed from the cluster, for `tank cluster up`: controllers come back with an
empty folder, brokers stay away.
"""

import json
import time

from tank_cli.cluster import processes
from tank_cli.cluster.controller_calls import Controllers
from tank_cli.cluster.folder import ClusterFolder, ClusterMember
from tank_cli.cluster.options import prover_of
from tank_cli.shell.exit_codes import CliError
from tank_protos.generated import control_pb2 as pb

SET_ASIDE = ".removed"
"""The suffix of the folder of a removed process; only the last such folder is kept."""
READY_S = 20.0
"""The longest wait for controllers, after which brokers are started without knowing whether they were
removed.
"""
POLL_S = 0.1


def begin_anew(folder: ClusterFolder) -> list[ClusterMember]:
    """Stops controllers that their group has removed, and sets their folders aside.

    Only the answer of a leading controller counts: without one this changes nothing.
    """
    known = [member for member in folder.controllers if folder.data_of(member).exists()]
    if not _running(folder):
        return []
    with _controllers(folder) as controllers:
        answers = controllers.describe().values()
    leader = next(
        (each for each in answers if isinstance(each, pb.ControllersDescription) and each.leads), None
    )
    if leader is None:
        return []
    members = {member.node.ordinal for member in leader.members}
    removed = [member for member in known if member.number not in members]
    for member in removed:
        processes.stop_one(folder, member)
        processes.set_aside(folder, member, SET_ASIDE)
    return removed


def set_removed_aside(folder: ClusterFolder) -> list[ClusterMember]:
    """Sets aside the folders of brokers that the cluster has removed: it doesn't use their data. Only the
    answer of a leading controller counts, as with `begin_anew`; waits for controllers that have just started.
    """
    candidates = [
        member
        for member in folder.brokers
        if not processes.is_alive(folder, member) and _was_registered(folder, member)
    ]
    if not candidates:
        return []
    _await_any(folder.controllers)
    try:
        with _controllers(folder) as controllers:
            known = {load.broker.broker_id for load in controllers.overview().brokers}
    except CliError:
        return []
    removed = [member for member in candidates if member.number not in known]
    for member in removed:
        processes.set_aside(folder, member, SET_ASIDE)
    return removed


def _await_any(controllers: list[ClusterMember]) -> None:
    """Waits, for a bounded time, until a controller is ready, and so knows the leader."""
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s and not any(processes.readiness(each)[0] for each in controllers):
        time.sleep(POLL_S)


def _running(folder: ClusterFolder) -> list[ClusterMember]:
    return [member for member in folder.controllers if processes.is_alive(folder, member)]


def _controllers(folder: ClusterFolder) -> Controllers:
    secret = folder.secret if folder.secret.exists() else None
    return Controllers([member.address for member in _running(folder)], "", prover_of(secret))


def _was_registered(folder: ClusterFolder, member: ClusterMember) -> bool:
    """Whether its data folder knows of a registration that was committed."""
    try:
        epoch = json.loads((folder.data_of(member) / "meta.json").read_text()).get("broker_epoch", 0)
    except (OSError, ValueError, AttributeError):
        return False  # a new folder, or a broken one that the broker reports at its start
    return isinstance(epoch, int) and epoch > 0
