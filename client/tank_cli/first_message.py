"""`python -m tank_cli.first_message`: creates a topic, writes messages, reads them back, and deletes the
topic.

`helm test` runs it in a pod; TANK_SERVERS names the servers.
"""

import os
import secrets
import sys

from tank_cli.shell.session import SERVERS_VARIABLE
from tank_client.errors import TankError
from tank_client.settings import ClientSettings
from tank_client.sync import Client

PARTITIONS = 3
MESSAGES = 300
READ_MS = 30_000
"""How long the next message may take."""
SETTINGS = ClientSettings(client_id="helm-test")


class WrongError(RuntimeError):
    """The messages read differ from those written."""


def try_out(servers: str) -> str:
    """Runs the test; returns a sentence about it. Raises TankError, WrongError. The topic is deleted in any
    case.
    """
    topic = f"helm-test-{secrets.token_hex(6)}"
    written = [b"message %d" % number for number in range(MESSAGES)]
    with Client(servers, settings=SETTINGS) as client:
        client.admin.create_topic(topic, PARTITIONS)
        try:
            producer = client.producer()
            for number, value in enumerate(written):
                producer.send(topic, value, partition=number % PARTITIONS)
            producer.flush()
            found: list[bytes] = []
            with client.consumer(topic) as consumer:
                while len(found) < MESSAGES:
                    batch = consumer.poll(READ_MS)
                    if batch is None:
                        break
                    found += [value for value in batch.values if value is not None]
        finally:
            client.admin.delete_topic(topic)
    if sorted(found) != sorted(written):
        raise WrongError(
            f"{MESSAGES} messages were written to {topic}, and {len(found)} different ones were read"
        )
    return (
        f"{MESSAGES} messages were written to {PARTITIONS} partitions and read back, by {servers}. "
        "The topic is deleted again."
    )


def main() -> int:
    """Runs the test; returns the exit code."""
    servers = os.environ.get(SERVERS_VARIABLE, "")
    if not servers:
        print(f"{SERVERS_VARIABLE} is not set: set it to the brokers' HOST:PORT.", file=sys.stderr)
        return 2
    try:
        print(try_out(servers))
    except (TankError, WrongError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
