"""`tank iggy token`: personal access tokens, by which Iggy's clients log in without a password."""

import time
from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.user import named, ref_of
from tank_cli.shell.brokers.positions import DurationType
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.lazy import LazyCommand, LazyGroup
from tank_cli.shell.output import done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers

HERE = "tank_cli.iggy.token"
COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand(f"{HERE}:list_tokens", "List a user's tokens."),
    "create": LazyCommand(f"{HERE}:create", "Create a token, and show it once."),
    "delete": LazyCommand(f"{HERE}:delete", "Delete a token: sessions that began with it end."),
}
USER = click.argument("user", metavar="USER")
NAME = click.argument("name", metavar="NAME")


@click.group(cls=LazyGroup, table=COMMANDS)
def token() -> None:
    """See, create and delete personal access tokens."""


@click.command()
@USER
@controller_options
@offline_options
def list_tokens(session: CommandSession, controllers: "Controllers", user: str) -> None:
    """List a user's tokens that have not expired."""
    from tank_protos.users.tokens import is_expired

    now_us = time.time_ns() // 1000
    found = [each for each in named(controllers, user).tokens if not is_expired(each.expires_us, now_us)]
    if session.as_json:
        tokens = [{"name": each.name, "expires_us": each.expires_us or None} for each in found]
        print_json({"user": user, "tokens": tokens})
    else:
        print_table(["Name", "Expires"], [[each.name, _moment(each.expires_us)] for each in found])


@click.command()
@USER
@NAME
@click.option(
    "--expires-in",
    type=DurationType(),
    metavar="DURATION",
    help="How long it is good, such as 30d.  [default: for ever]",
)
@controller_options
@offline_options
def create(
    session: CommandSession, controllers: "Controllers", user: str, name: str, expires_in: int | None
) -> None:
    """Create a token, and show it once: the cluster keeps its digest alone."""
    import secrets

    from tank_protos.generated import control_pb2 as pb
    from tank_protos.users.rules import token_name_problem
    from tank_protos.users.tokens import NEVER_US, RANDOM_BYTES, token_digest, token_of

    if problem := token_name_problem(name):
        raise CliError(f"{problem[:1].upper()}{problem[1:]}.", ExitCode.USAGE)
    made = token_of(secrets.token_bytes(RANDOM_BYTES))
    expires_us = NEVER_US if expires_in is None else time.time_ns() // 1000 + expires_in * 1000
    found = named(controllers, user)
    command = pb.CreateToken(
        user=ref_of(found),
        name=name,
        digest=token_digest(made),
        expires_us=expires_us,
        token_deleted_index=found.token_deleted_index,
    )
    controllers.change(pb.Command(create_token=command))
    shown = made.reveal().decode()
    if session.as_json:
        print_json({"user": user, "name": name, "token": shown, "expires_us": expires_us or None})
        return
    note(f"The token {name} of {user}, which is not shown again:")
    click.echo(shown)


@click.command()
@USER
@NAME
@controller_options
@offline_options
def delete(session: CommandSession, controllers: "Controllers", user: str, name: str) -> None:
    """Delete a token: sessions that began with it end."""
    from tank_protos.generated import control_pb2 as pb

    command = pb.DeleteToken(user=ref_of(named(controllers, user)), name=name)
    controllers.change(pb.Command(delete_token=command))
    if session.as_json:
        print_json({"deleted": name})
    else:
        done(f"Deleted the token {name} of {user}.")


def _moment(expires_us: int) -> str:
    if not expires_us:
        return "never"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(expires_us // 1_000_000))
