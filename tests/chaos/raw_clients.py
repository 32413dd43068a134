"""What clients that speak TANK's wire by hand have in common: where they connect, and what ends them."""

import random
import time

from tests.chaos.client_thread import ClientThread
from tests.chaos.record import Place, Recorder
from tests.support.clients.raw_client import RawConnection

ANSWER_TIMEOUT_S = 12.0
"""More than a broker waits for its replicas (8 s)."""
AFTER_ERROR_S = 0.1
OLD_CLIENT = 0
SERVERS_VERSION = 3
"""A client version that understands redirects."""

Address = tuple[str, int]


class RawClient(ClientThread):
    """Has one request under way. What ends it is an answer that no fault explains, or that can't be read.

    Version 0 is a client of the old document: it knows one address and no redirect. Newer ones follow
    redirects, and go to the next server when theirs is gone.
    """

    def __init__(
        self, name: str, place: Place, servers: list[Address], recorder: Recorder, version: int, seed: int
    ) -> None:
        super().__init__(name, place, recorder)
        self.version = version
        self.servers = servers if version else servers[:1]
        self.random = random.Random(seed)
        self._at: Address = self.random.choice(self.servers)
        self._connection: RawConnection | None = None

    def leave(self) -> None:
        self._close()

    def connected(self) -> RawConnection | None:
        """None: nobody answers there; then it goes elsewhere."""
        if self._connection is None:
            try:
                self._connection = RawConnection(self._at[1], ANSWER_TIMEOUT_S, self._at[0])
            except OSError:
                self.elsewhere()
        return self._connection

    def elsewhere(self) -> None:
        """To any server, after a moment."""
        self._go_to(self.random.choice(self.servers))
        time.sleep(AFTER_ERROR_S)

    def redirected(self, ipv4: bytes, port: int) -> None:
        """To the leader that an answer named."""
        self._go_to((".".join(map(str, ipv4)), port))

    def _go_to(self, address: Address) -> None:
        self._close()
        self._at = address

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
