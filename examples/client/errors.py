"""What a program does with each kind of failure.

    python -m examples.client.errors

The client itself tries again while a broker restarts or a leader moves. It raises an error when the time for
that is over, or when trying again is of no use. Each error says what happened and what to do.
"""

from examples.client.start import command_line, need_topic
from tank_client import ClientSettings, DeliveryTimedOut, InvalidArgument, TankError, UnknownTopic
from tank_client.sync import Client

NO_BROKER = "127.0.0.1:1"
"""No process listens there."""


def store(client: Client, key: bytes) -> str:
    """Stores one message; returns the result in words."""
    try:
        with client.producer() as producer:
            return f"stored as number {producer.send('attempts', b'value', key=key).result().first}"
    except InvalidArgument as error:  # the program is wrong; nothing was sent
        return f"wrong argument: {error}"
    except UnknownTopic:  # no topic is made by accident
        need_topic(client, "attempts", partitions=1)
        return "created the topic, and " + store(client, key)
    except DeliveryTimedOut as error:  # all tries failed for two minutes (`delivery_timeout_ms`)
        return "may be stored" if error.maybe_stored else "is not stored; send it again"
    except TankError as error:  # all others: `retriable` says whether the same can succeed later
        return f"{'try later' if error.retriable else 'give up'}: {error}"


def attempts(servers: str) -> None:
    """Stores into a topic that is missing, with a key that is too long, and where no broker is."""
    with Client(servers) as client:
        print(store(client, key=b"a"))
        print(store(client, key=b"k" * 256))
    with Client(NO_BROKER, ClientSettings(request_timeout_ms=300)) as client:
        try:
            client.admin.describe_topics()
        except TankError as error:
            print(type(error).__name__, "retriable" if error.retriable else "final", error, sep=": ")


if __name__ == "__main__":
    attempts(command_line(__doc__).parse_args().servers)
