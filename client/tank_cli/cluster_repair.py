"""What `tank cluster up` mends beside starting what doesn't run: controllers that were removed come back."""

from tank_cli import cluster_processes
from tank_cli.cluster_folder import ClusterFolder, Member
from tank_cli.cluster_options import prover_of
from tank_cli.controllers import Controllers
from tank_protos.generated import control_pb2 as pb

SET_ASIDE = ".removed"
"""Behind the name of a folder that a removed controller had; of several the last stays."""


def begin_anew(folder: ClusterFolder) -> list[Member]:
    """Sets the folders of controllers aside that their group has removed, and ends what still runs there.

    Only the word of a controller that leads counts: where none does, this changes nothing.
    """
    known = [member for member in folder.controllers if folder.data_of(member).exists()]
    running = [member for member in known if cluster_processes.is_alive(folder, member)]
    if not running:
        return []
    secret = folder.secret if folder.secret.exists() else None
    with Controllers([member.address for member in running], "", prover_of(secret)) as controllers:
        answers = controllers.describe().values()
    leader = next(
        (each for each in answers if isinstance(each, pb.ControllersDescription) and each.leads), None
    )
    if leader is None:
        return []
    members = {member.node.ordinal for member in leader.members}
    removed = [member for member in known if member.number not in members]
    for member in removed:
        cluster_processes.stop_one(folder, member)
        cluster_processes.set_aside(folder, member, SET_ASIDE)
    return removed
