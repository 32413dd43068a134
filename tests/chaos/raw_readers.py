"""Consumers that speak TANK's wire by hand: from the first message on, each number asked for once."""

import threading

from tank_protos.bundle import bundles, decode
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import ConsumePartition, ConsumeRequest, ConsumeResponse, ConsumeTopic
from tests.chaos.raw_clients import Address, RawClient
from tests.chaos.record import Place, Recorder
from tests.chaos.values import name_of
from tests.support.clients.raw_client import RawConnection

FETCH_BYTES = 64 << 10
WAIT_MS = 1_000
NEWER = {ConsumeFlag.OTHER_LEADER, ConsumeFlag.NO_LEADER, ConsumeFlag.NOT_OPENED}
"""Flags that the old document (version 0) doesn't have: its clients wait instead."""
PASSING = {*NEWER, ConsumeFlag.UNKNOWN_PARTITION}
"""Answers of a broker that doesn't lead, or that doesn't know yet what others know."""


class RawReader(RawClient):
    """Reads one partition. When `written` is set it reads on until nothing more comes, and ends."""

    def __init__(
        self,
        name: str,
        place: Place,
        servers: list[Address],
        recorder: Recorder,
        version: int,
        seed: int,
        written: threading.Event,
        end_of_log: int,
    ) -> None:
        """`end_of_log`: so many answers without a message, when nobody writes any more."""
        super().__init__(name, place, servers, recorder, version, seed)
        self._written = written
        self._end_of_log = end_of_log
        self._next = 1
        self._asked = 0

    def work(self) -> None:
        empty = 0
        while empty < self._end_of_log:
            connection = self.connected()
            if connection is None:
                continue
            written = self._written.is_set()
            try:
                found = self._ask(connection)
            except OSError:
                self.elsewhere()
                continue
            empty = empty + 1 if written and found == [] else 0
            if found:
                self.recorder.seen(
                    self.name, self.place, [number for number, _ in found], [value for _, value in found]
                )
                self.count += len(found)
                self._next = found[-1][0] + 1
        self.recorder.read_all(self.name, [self.place])

    def _ask(self, connection: RawConnection) -> list[tuple[int, str]] | None:
        """(number, value) of what came, from the number asked for on; None: it has to ask another broker."""
        self._asked += 1
        topic, partition = self.place
        wanted = [ConsumeTopic(topic, [ConsumePartition(partition, self._next, FETCH_BYTES)])]
        request = ConsumeRequest(self.version, self._asked, self.name, WAIT_MS, 0, 0, wanted)
        answer = ConsumeResponse.decode(connection.ask(request.ID, request.encode()))
        assert answer.request_id == self._asked, "an answer to another request"
        (told,) = answer.topics
        if told.unknown:
            self.elsewhere()
            return None
        (fetched,) = told.partitions
        old_was_told = f"an old client was told 0x{fetched.flag:02x}"
        assert self.version or fetched.flag not in NEWER, old_was_told
        if fetched.flag == ConsumeFlag.OTHER_LEADER:
            self.redirected(fetched.leader_ipv4, fetched.leader_port)
            return None
        if fetched.flag in PASSING:
            self.elsewhere()
            return None
        assert fetched.flag == ConsumeFlag.DATA, f"{self._next} was answered with flag 0x{fetched.flag:02x}"
        number, found = fetched.base_sequence_number, []
        for bundle in bundles(answer.chunks):
            messages = decode(bundle, number)
            found += [(m.sequence_number, name_of(bytes(m.value or b""))) for m in messages]
            number = messages[-1].sequence_number + 1
        return [(number, value) for number, value in found if number >= self._next]
