"""A real broker with a listener for Iggy's clients, beside those for the others."""

import os
from pathlib import Path
from typing import Final

from tank_protos.iggy.eras import B3, Era
from tests.support.iggy.iggy_line import IggyStatus
from tests.support.iggy.iggy_socket import IggySocket
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.ports import free_port
from tests.support.waiting import until

ANNOUNCED: Final = Path(__file__).parents[2] / "iggy_clients" / "announced"


class IggyBroker(BrokerProcess):
    """As BrokerProcess; ready when the root user `iggy` can log in."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.iggy_port = free_port()
        paths = [str(ANNOUNCED), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(
            data,
            "--iggy",
            f"127.0.0.1:{self.iggy_port}",
            *arguments,
            environment={"PYTHONPATH": os.pathsep.join(paths)},
        )

    def wait_until_ready(self) -> None:
        super().wait_until_ready()
        until(self._has_root, "the broker has no root user")

    def iggy(self, era: Era = B3) -> IggySocket:
        """A client that is logged in."""
        client = IggySocket(self.iggy_port, era)
        client.login()
        return client

    def _has_root(self) -> bool:
        try:
            self.iggy().close()
        except IggyStatus:
            return False
        return True
