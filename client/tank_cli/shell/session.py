"""The options that every command shares: the servers, the output, whether to show tracebacks."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tank_client.sync import Client

DEFAULT_SERVERS = "127.0.0.1:11011"
SERVERS_VARIABLE = "TANK_SERVERS"
CONTROLLERS_VARIABLE = "TANK_CONTROLLERS"
OUTPUTS = click.Choice(["text", "json"])


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The options that every command shares."""

    servers: str = DEFAULT_SERVERS
    output: str = "text"
    debug: bool = False

    @property
    def as_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output == "json"

    def client(
        self, unknown_topic_hint: str = "tank topic create {topic}"
    ) -> "AbstractContextManager[Client]":
        """A connected client, for `with`. `unknown_topic_hint`: what to type when there is no such topic."""
        from tank_cli.shell.connect import open_client

        return open_client(self.servers, unknown_topic_hint=unknown_topic_hint)

    def overridden(self, servers: str | None, output: str | None, debug: bool) -> "CommandSession":
        """Returns this, with the options behind the command's name in place of those before it."""
        return CommandSession(servers or self.servers, output or self.output, debug or self.debug)


def root_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The shared options on `tank` itself; the function gets them as `session`."""

    @functools.wraps(function)
    def with_session(*args: Any, servers: str, output: str, debug: bool, **kwargs: Any) -> Any:
        return function(*args, session=CommandSession(servers, output, debug), **kwargs)

    servers = click.option(
        "--servers",
        metavar="HOST:PORT,…",
        envvar=SERVERS_VARIABLE,
        show_envvar=True,
        default=DEFAULT_SERVERS,
        show_default=True,
        help="Brokers to ask; the first that answers is used.",
    )
    output = click.option(
        "--output",
        "-o",
        type=OUTPUTS,
        default="text",
        show_default=True,
        help="text for people, json for programs.",
    )
    return servers(output(debug_option(with_session)))


def shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same options on a command, where they win over the ones before its name; the function gets
    `session`.
    """

    @functools.wraps(function)
    def with_session(*args: Any, servers: str | None, output: str | None, debug: bool, **kwargs: Any) -> Any:
        return function(*args, session=current().overridden(servers, output, debug), **kwargs)

    servers = click.option(
        "--servers",
        metavar="HOST:PORT,…",
        help=f"Brokers to ask.  [env var: {SERVERS_VARIABLE}; default: {DEFAULT_SERVERS}]",
    )
    return servers(output_option(debug_option(with_session)))


def offline_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--output` and `--debug` alone, for commands that ask no broker; the function gets `session`."""

    @functools.wraps(function)
    def with_session(*args: Any, output: str | None, debug: bool, **kwargs: Any) -> Any:
        return function(*args, session=current().overridden(None, output, debug), **kwargs)

    return output_option(debug_option(with_session))


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--output` behind a command's name; None when it was not said there."""
    text = "text for people, json for programs.  [default: text]"
    return click.option("--output", "-o", type=OUTPUTS, help=text)(function)


def debug_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--debug`."""
    return click.option("--debug", is_flag=True, help="Show the traceback of an error.")(function)


def current() -> CommandSession:
    """The options before the command's name; the defaults when the command runs alone."""
    session = click.get_current_context().find_object(CommandSession)
    return session if session is not None else CommandSession()
