"""`tank group delete`: groups without members, with their positions."""

import sys

import click

from tank_cli.groups.members import members_text
from tank_cli.groups.show import unknown_group
from tank_cli.shell.complete import complete_groups
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.output import done, print_json
from tank_cli.shell.session import CommandSession, shared_options


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--if-exists", is_flag=True, help="A group that isn't there is no error.")
@shared_options
def delete(session: CommandSession, names: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete groups with their positions.

    A group with members is refused: stop them first.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise CliError("Deleting a group deletes its positions: say --yes.", ExitCode.USAGE)
        if not click.confirm(f"Delete {', '.join(names)} with all positions?", err=True):
            raise CliError("Nothing was deleted.")
    from tank_client import errors

    deleted: list[str] = []
    with session.client() as client:
        for name in dict.fromkeys(names):
            try:
                client.admin.delete_groups([name])
            except errors.UnknownGroup:
                if not if_exists:
                    raise _after(deleted, unknown_group(client, name)) from None
            except errors.GroupNotEmpty:
                (found,) = client.admin.describe_groups([name])
                refusal = CliError(
                    f"Group {name!r} has {members_text(found.members)}. Stop them, then delete it.",
                    hint=f"tank group members {name}",
                )
                raise _after(deleted, refusal) from None
            else:
                deleted.append(name)
    if session.as_json:
        print_json({"deleted": deleted})
    else:
        done(f"Deleted {', '.join(deleted)}." if deleted else "Nothing was there to delete.")


def _after(deleted: list[str], error: CliError) -> CliError:
    """The error, with the groups that were deleted before it."""
    if deleted:
        error.message += f" Deleted before it: {', '.join(deleted)}."
    return error
