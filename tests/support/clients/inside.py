"""Access to a client's private names for tests: each private name is used in one place, here."""

from tank_client import Producer, sync
from tank_client.client import Client
from tank_client.producing.accumulator import Accumulator
from tank_client.routing.calls import Calls


def calls_of(client: Client) -> Calls:
    """The client's way to carry out operations, with its connections and its knowledge of leaders."""
    return client._calls


def held_by(producer: Producer | sync.Producer) -> Accumulator:
    """What a producer holds that is neither stored nor given up."""
    return producer._accumulator
