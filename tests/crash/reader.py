"""Reads partitions to their ends and holds them against what the writers were told."""

from dataclasses import dataclass, field

from tank_protos.bundle import bundles, decode, read_header
from tank_protos.generated.tank import ConsumePartition, ConsumeRequest, ConsumeResponse, ConsumeTopic
from tests.crash.writers import Written
from tests.support.clients.raw_client import RawConnection

IDEMPOTENT = b"i-"  # how the values of idempotent writers begin: each is there once


@dataclass(slots=True)
class PartitionReader:
    """All messages of one partition, by number, as far as they were read; read on from there each time."""

    topic: str
    partition: int
    messages: dict[int, bytes] = field(default_factory=dict)
    once: set[bytes] = field(default_factory=set)
    next: int = 1

    def read_on(self, connection: RawConnection) -> int:
        """Reads to the end. Returns the high-water mark."""
        while True:
            wanted = ConsumePartition(partition=self.partition, sequence_number=self.next, fetch_size=1 << 20)
            request = ConsumeRequest(
                client_version=2,
                request_id=7,
                topics=[ConsumeTopic(name=self.topic, partitions=[wanted])],
            )
            answer = ConsumeResponse.decode(connection.ask(ConsumeRequest.ID, request.encode()))
            entry = answer.topics[0].partitions[0]
            assert entry.flag in (0, 0xFE), (
                f"{self.topic}/{self.partition} from {self.next}: flag {entry.flag:#x}"
            )
            if not entry.chunk_length:
                return entry.high_water_mark
            self._take(memoryview(answer.chunks), entry.base_sequence_number, entry.high_water_mark)

    def read_again(self, connection: RawConnection) -> None:
        """Reads all from the first message, and asserts that nothing has changed since it was read."""
        again = PartitionReader(self.topic, self.partition)
        again.read_on(connection)
        assert {n: again.messages[n] for n in self.messages} == self.messages

    def _take(self, chunk: memoryview, base: int, high_water_mark: int) -> None:
        for bundle in bundles(chunk):
            header = read_header(bundle)
            for message in decode(bundle, base):
                if self.next <= message.sequence_number <= high_water_mark:
                    assert message.sequence_number == self.next, "a gap, or a number twice"
                    self._take_message(bytes(message.value))
                    self.next += 1
            base += header.messages

    def _take_message(self, value: bytes) -> None:
        self.messages[self.next] = value
        if value.startswith(IDEMPOTENT):
            assert value not in self.once, f"{self.topic}/{self.partition} repeats {value!r}"
            self.once.add(value)

    def holds(self, written: Written) -> None:
        """Asserts that each acknowledged message is there, by number and bytes, in its writer's order."""
        for first, values in written.numbered.items():
            found = [self.messages.get(first + i) for i in range(len(values))]
            assert found == values, f"{self.topic}/{self.partition} lost what it acknowledged at {first}"
        lost = [value for value in written.stored if value not in self.once]
        assert not lost, f"{self.topic}/{self.partition} lost what it said it had: {lost}"
        for value in written.ordered:
            while self.messages.get(written.reached + 1) not in (value, None):
                written.reached += 1
            written.reached += 1
            assert written.reached in self.messages, f"lost, or out of order: {value!r}"
        written.checked += sum(map(len, written.numbered.values()))
        written.checked += len(written.stored) + len(written.ordered)
        written.numbered.clear()
        written.stored.clear()
        written.ordered.clear()
