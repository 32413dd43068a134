"""Producers that speak TANK's wire by hand: no ids, no retries, each value sent once."""

import random
import threading
import time

from tank_protos.bundle import as_batch, encode
from tank_protos.error_codes import ProduceError
from tank_protos.errors import WireError
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.values import content, named
from tests.support.raw_client import RawConnection

ANSWER_TIMEOUT_S = 12.0
"""More than a broker waits for its replicas (8 s)."""
AFTER_ERROR_S = 0.1
SERVERS_VERSION = 3
"""A client version that understands redirects."""
NOT_STORED = {
    ProduceError.UNKNOWN_PARTITION,
    ProduceError.NOT_ENOUGH_REPLICAS,
    ProduceError.OTHER_LEADER,
    ProduceError.NO_LEADER,
    ProduceError.UNKNOWN_TOPIC,
}
"""Answers that promise that nothing was stored."""

Address = tuple[str, int]


class RawWriter(threading.Thread):
    """Writes to one partition, one request under way, until it is told to stop.

    Version 0 is a client of the old document: it knows one address and no redirect. Newer ones follow
    redirects, and go to the next server when theirs is gone.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        servers: list[Address],
        recorder: Recorder,
        rate: float,
        version: int,
        seed: int,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.place, self.recorder, self.version = place, recorder, version
        self.servers = servers if version else servers[:1]
        self.stored = 0
        self.failure: BaseException | None = None
        """What ended it that shouldn't have."""
        self.stopping = threading.Event()
        self._pause_s = 1 / rate
        self._random = random.Random(seed)
        self._order = 0
        self._at: Address = self._random.choice(self.servers)
        self._connection: RawConnection | None = None

    def run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self._close()

    def _write(self) -> None:
        while not self.stopping.wait(self._pause_s):
            values = [
                named(self.name, self.place, self._order + i) for i in range(self._random.randint(1, 5))
            ]
            try:
                connection = self._connected()
            except OSError:
                self._elsewhere()
                continue
            self.recorder.sent(self.name, self.place, self._order, False, values)
            self._order += len(values)
            try:
                fate = self._ask(connection, values)
            except (OSError, WireError):
                fate = Fate.UNKNOWN
                self._elsewhere()
            self.recorder.told(fate, values)
            self.stored += len(values) if fate is Fate.STORED else 0

    def _connected(self) -> RawConnection:
        if self._connection is None:
            self._connection = RawConnection(self._at[1], ANSWER_TIMEOUT_S, self._at[0])
        return self._connection

    def _ask(self, connection: RawConnection, values: list[str]) -> Fate:
        entry = ProducePartition(
            self.place[1],
            as_batch(encode([content(value) for value in values], timestamps=int(time.time() * 1000))),
        )
        request = ProduceRequest(
            client_version=self.version,
            request_id=self._order,
            client_id=self.name,
            topics=[ProduceTopic(self.place[0], [entry])],
        )
        answer = ProduceResponse.decode(connection.ask(ProduceRequest.ID, request.encode()))
        if answer.request_id != self._order:
            raise ConnectionError("an answer to another request")
        result = answer.results[0]
        if result.error == ProduceError.NONE:
            return Fate.STORED
        if result.error == ProduceError.OTHER_LEADER:
            self._go_to((".".join(map(str, result.leader_ipv4)), result.leader_port))
        else:
            self._elsewhere()
        return Fate.REFUSED if result.error in NOT_STORED else Fate.UNKNOWN

    def _elsewhere(self) -> None:
        self._go_to(self._random.choice(self.servers))
        time.sleep(AFTER_ERROR_S)

    def _go_to(self, address: Address) -> None:
        self._close()
        self._at = address

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
