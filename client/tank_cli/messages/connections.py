"""`tank connections`: the clients that are connected to the brokers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import bytes_text, seconds_text
from tank_cli.shell.output import Json, done, note, print_json, print_table, warn
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.model import BrokerDescription, ConnectedClient

SHOWN = 100
"""The most connections in a table for people, unless they ask for more."""
PATIENCE_MS = 2_000
"""The longest wait for one broker's answer; all are asked at the same time."""
AT_ONCE = 32
"""How many brokers are asked at the same time."""


@dataclass(slots=True, frozen=True)
class AskedForClients:
    """One broker: its clients, or the reason why they are unknown."""

    broker_id: int
    clients: "tuple[ConnectedClient, ...]" = ()
    why: str = ""

    def json(self) -> dict[str, Json]:
        """The broker in the output of `tank connections`."""
        return {
            "broker_id": self.broker_id,
            "reached": not self.why,
            "connections": [client_json(each) for each in self.clients],
        }


@click.command()
@click.option(
    "--broker", "-b", "chosen", type=click.IntRange(0), multiple=True, metavar="N",
    help="Only the clients of this broker; may be repeated.  [default: all brokers]",
)  # fmt: skip
@click.option("--requests", is_flag=True, help="Show the kinds of requests that came, with their versions.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N",
    help=f"The most connections of a broker to show.  [default: {SHOWN}; with --output json: all]",
)  # fmt: skip
@shared_options
def connections(session: CommandSession, chosen: tuple[int, ...], requests: bool, limit: int | None) -> None:
    """Show the clients that are connected to the brokers.

    Those of TANK's protocol, of Kafka's and of Iggy's, the oldest connection of each broker first. SOFTWARE
    of an Iggy client begins with the era of its protocol. IN and OUT are bytes as the broker's system counts
    them; OUT only what the client has confirmed. Connections between brokers are left out.
    """
    with session.client() as client:
        brokers = {each.broker_id: each for each in client.admin.brokers()}
    for number in chosen:
        if number not in brokers:
            there = ", ".join(map(str, sorted(brokers)))
            raise CliError(f"There is no broker {number}; there are: {there}.", ExitCode.NOT_FOUND)
    wanted = [brokers[number] for number in sorted(chosen or brokers)]
    most = limit or (None if session.as_json else SHOWN)
    # One more than shown tells whether there are more.
    asked = asyncio.run(_ask_all(wanted, None if most is None else most + 1))
    if session.as_json:
        print_json({"brokers": [_cut(each, most).json() for each in asked]})
    else:
        _show(asked, most or SHOWN, requests=requests)
    if all(each.why for each in asked):
        raise CliError(f"No broker told its clients ({asked[0].why}).", ExitCode.UNREACHABLE)


def _show(asked: list[AskedForClients], most: int, *, requests: bool) -> None:
    columns = [">Broker", "Protocol", "Address", "Client", "Software", ">Open for", ">In", ">Out"]
    shown = [(each.broker_id, client) for each in asked for client in each.clients[:most]]
    if shown:
        print_table(
            [*columns, "Requests"] if requests else columns,
            [client_row(broker_id, client, requests=requests) for broker_id, client in shown],
        )
    elif not all(each.why for each in asked):
        done("No client is connected.")
    for each in asked:
        if each.why:
            warn(f"broker {each.broker_id}: {each.why}.")
        elif len(each.clients) > most:
            note(f"Broker {each.broker_id} has more: --limit N shows them.")


def _cut(asked: AskedForClients, most: int | None) -> AskedForClients:
    return AskedForClients(asked.broker_id, asked.clients[:most], asked.why)


async def _ask_all(brokers: "Sequence[BrokerDescription]", most: int | None) -> list[AskedForClients]:
    room = asyncio.Semaphore(AT_ONCE)
    return await asyncio.gather(*(ask_broker(room, each, most) for each in brokers))


async def ask_broker(
    room: asyncio.Semaphore, broker: "BrokerDescription", most: int | None
) -> AskedForClients:
    """Asks one broker for its clients; a failure raises nothing. `most`: enough of them; None: all."""
    from tank_client import Client, errors
    from tank_client.settings import ClientSettings

    settings = ClientSettings(connect_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS)
    found: list[ConnectedClient] = []
    number, after = broker.broker_id, 0
    async with room:
        try:
            async with (
                asyncio.timeout(PATIENCE_MS / 1000),
                Client(str(broker.address), settings=settings) as client,
            ):
                while True:
                    page = await client.admin.describe_connections(after)
                    if page.broker_id != number:
                        why = f"broker {page.broker_id} answers at {broker.address}"
                        return AskedForClients(number, why=why)
                    found += page.connections
                    if page.next_after is None or (most is not None and len(found) >= most):
                        return AskedForClients(number, tuple(found[:most]))
                    after = page.next_after
        except errors.FeatureMissing:
            return AskedForClients(number, why="it is of a version that can't list its clients")
        except (errors.TankError, OSError, TimeoutError):
            return AskedForClients(number, why=f"{broker.address} can't be asked from here")


def client_row(broker_id: int, client: "ConnectedClient", *, requests: bool) -> list[str]:
    """A line of the table."""
    row = [
        str(broker_id),
        client.protocol.value,
        "-" if client.address is None else str(client.address),
        client.client_id or "-",
        f"{client.software} {client.software_version}".strip() or "-",
        seconds_text(client.connected_ms / 1000),
        "-" if client.received_bytes is None else bytes_text(client.received_bytes),
        "-" if client.sent_bytes is None else bytes_text(client.sent_bytes),
    ]
    return [*row, requests_text(client)] if requests else row


def requests_text(client: "ConnectedClient") -> str:
    """The kinds of requests, with their versions: `Fetch 13, Metadata 12`."""
    return ", ".join(
        name if version is None else f"{name} {version}" for name, version in client.requests.items()
    )


def client_json(client: "ConnectedClient") -> dict[str, Json]:
    """A connection in the output of `tank connections`."""
    return {
        "number": client.number,
        "protocol": client.protocol.value,
        "address": None if client.address is None else str(client.address),
        "client_id": client.client_id,
        "software": client.software,
        "software_version": client.software_version,
        "connected_ms": client.connected_ms,
        "received_bytes": client.received_bytes,
        "sent_bytes": client.sent_bytes,
        "in_flight": client.in_flight,
        "requests": [{"name": name, "version": version} for name, version in client.requests.items()],
    }
