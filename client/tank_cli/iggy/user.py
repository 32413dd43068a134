"""`tank iggy user`: the users of Iggy's clients."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.iggy.passwords import hashed, new_password, password_option
from tank_cli.iggy.rights import SERVER, STREAM, TOPIC, parse_permissions
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.lazy import LazyCommand, LazyGroup
from tank_cli.shell.output import done, print_facts, print_json, print_table
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers
    from tank_cli.shell.output import Json
    from tank_protos.generated import control_pb2 as pb
    from tank_protos.users.permissions import Permissions

HERE = "tank_cli.iggy.user"
COMMANDS: dict[str, LazyCommand] = {
    "list": LazyCommand(f"{HERE}:list_users", "List the users."),
    "create": LazyCommand(f"{HERE}:create", "Create a user; the password is asked for."),
    "update": LazyCommand(f"{HERE}:update", "Rename a user, or make it active or inactive."),
    "password": LazyCommand(f"{HERE}:password", "Set a user's password, which is asked for."),
    "permissions": LazyCommand(f"{HERE}:permissions", "Show, set or take away a user's permissions."),
    "delete": LazyCommand(f"{HERE}:delete", "Delete a user with its tokens."),
}
NAME = click.argument("name", metavar="NAME")


@click.group(cls=LazyGroup, table=COMMANDS)
def user() -> None:
    """See and change the users of Iggy's clients."""


@click.command()
@controller_options
@offline_options
def list_users(session: CommandSession, controllers: "Controllers") -> None:
    """List the users."""
    found = controllers.users()
    if session.as_json:
        print_json({"users": [_json(each) for each in found]})
        return
    rows = [
        [
            str(each.number),
            each.name,
            "inactive" if each.inactive else "active",
            "yes" if each.HasField("permissions") else "none",
            str(len(each.tokens)),
        ]
        for each in found
    ]
    print_table([">Number", "Name", "Status", "Permissions", ">Tokens"], rows)


@click.command()
@NAME
@click.option("--inactive", is_flag=True, help="It can't log in until it is made active.")
@SERVER
@STREAM
@TOPIC
@password_option
@controller_options
@offline_options
def create(
    session: CommandSession,
    controllers: "Controllers",
    name: str,
    inactive: bool,
    server: str | None,
    stream: tuple[str, ...],
    topic: tuple[str, ...],
    password_file: Path | None,
) -> None:
    """Create a user.

    The first one of a cluster is the root user, with all rights, which a broker creates, too.
    """
    from tank_protos.generated import control_pb2 as pb
    from tank_protos.users.rights_text import births_of
    from tank_protos.users.rules import user_name_problem

    if problem := user_name_problem(name):
        raise CliError(f"{problem[:1].upper()}{problem[1:]}.", ExitCode.USAGE)
    given = parse_permissions(server, stream, topic) if server or stream or topic else None
    is_root = not controllers.users()
    command = pb.CreateUser(
        name=name,
        password_hash=hashed(new_password(password_file, name)),
        inactive=inactive,
        root=is_root,
    )
    if given is not None and not is_root:
        command.permissions = given.encode()
        command.births.extend(births_of(given, controllers.iggy_names()))
    number = controllers.change(pb.Command(create_user=command)).number
    if session.as_json:
        print_json({"number": number, "name": name, "root": is_root})
    else:
        done(f"Created user {name}, number {number}{', the root user' if is_root else ''}.")


@click.command()
@NAME
@click.option("--rename", metavar="NAME", help="The new name.")
@click.option("--active/--inactive", default=None, help="Whether it may log in.")
@controller_options
@offline_options
def update(
    session: CommandSession, controllers: "Controllers", name: str, rename: str | None, active: bool | None
) -> None:
    """Rename a user, or make it active or inactive: its sessions end then."""
    from tank_protos.generated import control_pb2 as pb

    if rename is None and active is None:
        raise CliError("Say what to change: --rename, --active or --inactive.", ExitCode.USAGE)
    change = pb.UpdateUser(user=ref_of(named(controllers, name)))
    if rename is not None:
        change.name = rename
    if active is not None:
        change.inactive = not active
    controllers.change(pb.Command(update_user=change))
    _say(session, f"Changed user {name}.", {"updated": rename or name})


@click.command()
@NAME
@password_option
@controller_options
@offline_options
def password(
    session: CommandSession, controllers: "Controllers", name: str, password_file: Path | None
) -> None:
    """Set a user's password.

    The password is hashed here, and only the hash is sent. Sessions that began with another password end.
    """
    from tank_protos.generated import control_pb2 as pb

    found = named(controllers, name)
    encoded = hashed(new_password(password_file, name))
    change = pb.ChangePassword(user=ref_of(found), password_hash=encoded)
    controllers.change(pb.Command(change_password=change))
    _say(session, f"Set the password of {name}.", {"updated": name})


@click.command()
@NAME
@SERVER
@STREAM
@TOPIC
@click.option("--none", "no_rights", is_flag=True, help="Take all permissions away.")
@controller_options
@offline_options
def permissions(
    session: CommandSession,
    controllers: "Controllers",
    name: str,
    server: str | None,
    stream: tuple[str, ...],
    topic: tuple[str, ...],
    no_rights: bool,
) -> None:
    """Show a user's permissions, or set them: what is given takes the place of all that there were.

    \b
    tank iggy user permissions alice
    tank iggy user permissions alice --server read_servers --stream 0:read_stream --topic 1/0:send_messages

    Streams and topics are those that have the numbers now: a stream that gets the number later is another
    one.
    """
    from tank_protos.generated import control_pb2 as pb
    from tank_protos.users.rights_text import births_of

    found = named(controllers, name)
    is_change = bool(server or stream or topic)
    if is_change and no_rights:
        raise CliError("Give permissions, or take them away with --none.", ExitCode.USAGE)
    if not is_change and not no_rights:
        _show_permissions(session, found)
        return
    change = pb.UpdatePermissions(user=ref_of(found))
    if is_change:
        given = parse_permissions(server, stream, topic)
        change.permissions = given.encode()
        change.births.extend(births_of(given, controllers.iggy_names()))
    controllers.change(pb.Command(update_permissions=change))
    _say(session, f"{'Set' if is_change else 'Took away'} the permissions of {name}.", {"updated": name})


@click.command()
@NAME
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@controller_options
@offline_options
def delete(session: CommandSession, controllers: "Controllers", name: str, yes: bool) -> None:
    """Delete a user with its tokens; its sessions end."""
    from tank_protos.generated import control_pb2 as pb

    found = named(controllers, name)
    if not yes:
        if not sys.stdin.isatty():
            raise CliError("Deleting a user ends its sessions and tokens: say --yes.", ExitCode.USAGE)
        if not click.confirm(f"Delete user {name}?", err=True):
            raise CliError("Nothing was deleted.")
    controllers.change(pb.Command(delete_user=pb.DeleteUser(user=ref_of(found))))
    _say(session, f"Deleted user {name}.", {"deleted": name})


# --- for these commands, and those of tokens ---


def named(controllers: "Controllers", name: str) -> "pb.User":
    """The user of this name. Raises CliError."""
    for each in controllers.users():
        if each.name == name:
            return each
    raise CliError(f"There is no user {name}.", ExitCode.NOT_FOUND, "tank iggy user list")


def ref_of(found: "pb.User") -> "pb.UserRef":
    """What a command names the user by."""
    from tank_protos.generated import control_pb2 as pb

    return pb.UserRef(number=found.number, born=found.born)


def _say(session: CommandSession, text: str, body: dict[str, str]) -> None:
    if session.as_json:
        print_json(body)
    else:
        done(text)


def _json(found: "pb.User") -> "dict[str, Json]":
    return {
        "number": found.number,
        "name": found.name,
        "active": not found.inactive,
        "created_ms": found.created_ms,
        "tokens": len(found.tokens),
        "permissions": _permissions_json(found),
    }


def _permissions_json(found: "pb.User") -> "Json":
    from tank_protos.users.rights_text import permission_rows

    given = _permissions_of(found)
    if given is None:
        return None
    return [{"place": place, "rights": rights} for place, rights in permission_rows(given)]


def _permissions_of(found: "pb.User") -> "Permissions | None":
    from tank_protos.users.permissions import decode

    return decode(found.permissions) if found.HasField("permissions") else None


def _show_permissions(session: CommandSession, found: "pb.User") -> None:
    from tank_protos.users.rights_text import permission_rows

    given = _permissions_of(found)
    if session.as_json:
        print_json({"name": found.name, "permissions": _permissions_json(found)})
    elif given is None:
        done(f"User {found.name} has no permissions.")
    else:
        print_facts([(place, ",".join(rights) or "-") for place, rights in permission_rows(given)])
