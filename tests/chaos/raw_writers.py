"""Producers that speak TANK's wire by hand: no ids, no retries, each value sent once."""

import time

from tank_protos.bundle import as_batch, encode
from tank_protos.error_codes import ProduceError
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from tests.chaos.raw_clients import Address, RawClient
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.values import content, named
from tests.support.clients.raw_client import RawConnection

NEWER = {ProduceError.OTHER_LEADER, ProduceError.NO_LEADER}
"""Errors that the old document (version 0) doesn't have."""
NOT_STORED = {
    *NEWER,
    ProduceError.UNKNOWN_PARTITION,
    ProduceError.NOT_ENOUGH_REPLICAS,
    ProduceError.UNKNOWN_TOPIC,
}
"""Answers that promise that nothing was stored."""
PERHAPS_STORED = {ProduceError.STORAGE, ProduceError.NOT_ACKNOWLEDGED_IN_TIME}


class RawWriter(RawClient):
    """Writes to one partition."""

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
        super().__init__(name, place, servers, recorder, version, seed)
        self._pause_s = 1 / rate
        self._order = 0

    def work(self) -> None:
        while not self.stopping.wait(self._pause_s):
            values = [named(self.name, self.place, self._order + i) for i in range(self.random.randint(1, 5))]
            connection = self.connected()
            if connection is None:
                continue
            self.recorder.sent(self.name, self.place, self._order, False, values)
            self._order += len(values)
            try:
                fate = self._ask(connection, values)
            except OSError:
                fate = Fate.UNKNOWN
                self.elsewhere()
            self.recorder.told(fate, values)
            self.count += len(values) if fate is Fate.STORED else 0

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
        assert answer.request_id == self._order, "an answer to another request"
        result = answer.results[0]
        if result.error == ProduceError.NONE:
            return Fate.STORED
        old_was_told = f"an old client was told 0x{result.error:02x}"
        assert self.version or result.error not in NEWER, old_was_told
        if result.error == ProduceError.OTHER_LEADER:
            self.redirected(result.leader_ipv4, result.leader_port)
        else:
            self.elsewhere()
        if result.error in NOT_STORED:
            return Fate.REFUSED
        if result.error in PERHAPS_STORED:
            return Fate.UNKNOWN
        raise AssertionError(f"{values[0]} was answered with error 0x{result.error:02x}")
