"""A real broker with a listener for Iggy's clients, beside those for the others."""

from pathlib import Path

from tank_protos.iggy.eras import B3, Era
from tests.support.iggy.era_socket import EraSocket
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.ports import free_port


class IggyBroker(BrokerProcess):
    """As BrokerProcess; the root user is `iggy`, with the password `iggy`."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.iggy_port = free_port()
        self.iggy_address = f"127.0.0.1:{self.iggy_port}"
        super().__init__(data, "--iggy", self.iggy_address, *arguments)

    def iggy(self, era: Era = B3) -> EraSocket:
        """A client that is logged in."""
        client = EraSocket(self.iggy_address, era)
        client.login()
        return client
