"""Finds a cluster's controllers through its brokers, for a user who knows only addresses of brokers."""

from tank_cli.shell.connect import unreachable
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_client import errors
from tank_client.model import Address, ClusterReport, parse_servers
from tank_client.settings import ClientSettings
from tank_client.sync import Client

ANSWER_MS = 3_000
"""The longest wait for one broker; then the next one is asked."""
OTHER_WAYS = "--data DIR of one on this machine, or --controllers HOST:PORT,… (TANK_CONTROLLERS)"


def find_controllers(servers: str, *, is_default: bool) -> list[str]:
    """Returns host:port of each controller, from the first broker that knows them. Raises CliError when none
    does. `is_default`: no servers were named."""
    reasons: list[str] = []
    older = lone = ""
    for server in parse_servers(servers):
        try:
            report = _ask(server, reasons)
        except errors.FeatureMissing:
            older = older or str(server)
            continue
        if report is not None and report.controllers:
            return [str(controller) for controller in report.controllers]
        if report is not None:
            lone = lone or str(server)
    if is_default and not (older or lone):
        raise CliError(
            f"Which cluster? No broker answers at {servers}: say --servers HOST:PORT,… of its brokers "
            f"(TANK_SERVERS), {OTHER_WAYS}.",
            ExitCode.USAGE,
        )
    if lone:
        raise CliError(
            f"The broker at {lone} runs alone (`tank serve`): it belongs to no cluster, and has no "
            f"controllers to ask.",
            ExitCode.UNSUPPORTED,
            hint="tank status",
        )
    if older:
        raise CliError(
            f"The broker at {older} is of another kind, or of an older version, and names no controllers: "
            f"say {OTHER_WAYS}.",
            ExitCode.UNSUPPORTED,
        )
    raise CliError(
        f"No broker answers ({'; '.join(reasons)}), so the controllers are unknown: name other brokers "
        f"with --servers, "
        f"{OTHER_WAYS}.",
        ExitCode.UNREACHABLE,
    )


def _ask(server: Address, reasons: list[str]) -> ClusterReport | None:
    """The broker's report; None when it does not answer, and the reason is added to `reasons`. Raises
    FeatureMissing.
    """
    if reason := unreachable([server], ANSWER_MS / 1000):
        reasons.append(reason)
        return None
    settings = ClientSettings(connect_timeout_ms=ANSWER_MS, request_timeout_ms=ANSWER_MS)
    try:
        with Client(servers=str(server), settings=settings) as client:
            return client.admin.describe_cluster()
    except errors.FeatureMissing:
        raise
    except errors.TankError as error:
        reasons.append(f"{server}: {error}")
        return None
