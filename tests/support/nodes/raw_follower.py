"""A TANK client by hand that follows redirects: version 2, TANK's own messages, one request at a time."""

import time
from typing import TypeVar

from tank_protos.bundle import as_batch, bundles, decode, encode
from tank_protos.error_codes import ConsumeFlag, ProduceError
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection

R = TypeVar("R", ProduceResponse, ConsumeResponse)
VERSION = 2
PAUSE_S = 0.1


class RawFollower:
    """Of partition 0 of a topic. Servers are ports on this machine; when the one that is asked goes away, or
    can't say who leads, it is the next one's turn."""

    def __init__(self, ports: list[int], topic: str) -> None:
        self._ports = ports
        self._port = ports[0]
        self._topic = topic
        self._connection: RawConnection | None = None

    def produce(self, value: bytes, required_acks: int) -> ProduceError:
        """One attempt at the leader. 0x02 (NO_LEADER) too where a connection broke: nobody knows."""
        batch = memoryview(as_batch(encode([value], timestamps=1)))
        topics = [ProduceTopic(self._topic, [ProducePartition(0, batch)])]
        while True:
            answer = self._ask(ProduceRequest(VERSION, 1, "", required_acks, 0, topics), ProduceResponse)
            if answer is None:
                return ProduceError.NO_LEADER
            (result,) = answer.results
            if result.error != ProduceError.OTHER_LEADER:
                return ProduceError(result.error)
            self._go_to(result.leader_ipv4, result.leader_port)

    def produce_until_acknowledged(self, value: bytes, required_acks: int) -> None:
        """Again and again: what was not acknowledged may be stored, too."""
        while self.produce(value, required_acks) != ProduceError.NONE:
            self._leave()
            time.sleep(PAUSE_S)

    def consume(self, number: int, wait_ms: int) -> list[tuple[int, bytes]]:
        """(number, value) of committed messages from that number on; none came when it is empty."""
        wanted = [ConsumeTopic(self._topic, [ConsumePartition(0, number, 1 << 20)])]
        answer = self._ask(ConsumeRequest(VERSION, 1, "", wait_ms, 0, 0, wanted), ConsumeResponse)
        if answer is None:
            return []
        (partition,) = answer.topics[0].partitions
        if partition.flag == ConsumeFlag.OTHER_LEADER:
            self._go_to(partition.leader_ipv4, partition.leader_port)
            return []
        if partition.flag == ConsumeFlag.NO_LEADER:
            self._leave()
            time.sleep(PAUSE_S)
            return []
        assert partition.flag == ConsumeFlag.DATA, partition
        return self._messages(answer, partition, number)

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _messages(
        self, answer: ConsumeResponse, partition: FetchedPartition, number: int
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        base = partition.base_sequence_number
        for bundle in bundles(memoryview(answer.chunks)):
            messages = decode(bundle, base)
            base = messages[-1].sequence_number + 1
            found += [
                (message.sequence_number, message.value)
                for message in messages
                if number <= message.sequence_number <= partition.high_water_mark
            ]
        return found

    def _ask(self, request: ProduceRequest | ConsumeRequest, answer: type[R]) -> R | None:
        try:
            if self._connection is None:
                self._connection = RawConnection(self._port, timeout_s=12)
            return answer.decode(self._connection.ask(request.ID, request.encode()))
        except OSError:
            self._leave()
            time.sleep(PAUSE_S)
            return None

    def _go_to(self, ipv4: bytes | memoryview, port: int) -> None:
        assert bytes(ipv4) == b"\x7f\0\0\x01"
        self.close()
        self._port = port

    def _leave(self) -> None:
        self.close()
        self._port = self._ports[(self._ports.index(self._port) + 1) % len(self._ports)]
