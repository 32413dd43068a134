"""A Kafka client's connection in the simulated world: to the leader that it knows, else to any broker."""

from collections.abc import Mapping
from struct import Struct

from tank_protos.generated.kafka import MetadataRequest, MetadataResponse
from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.generated.kafka.metadata_request import MetadataRequestTopic
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.generated.kafka.response_header import ResponseHeader
from tank_protos.wire.message import Message
from tests.simulation.books.kafka_ages import Age
from tests.simulation.clients.client_lines import ClientLine
from tests.simulation.clients.clients import Target
from tests.simulation.world.serving import KAFKA_PORT

_SIZE = Struct(">i")
_CORRELATION_ID = Struct(">i")
_WITHOUT_CREATION_SINCE = 4
_IDS_SINCE = 10
NOWHERE = -1

HostPort = tuple[str, int]


class KafkaLine(ClientLine):
    """One client's way. What it hears comes with the correlation id, and as the whole frame."""

    port = KAFKA_PORT
    age: Age
    """Set by the client that opens it."""
    leader: HostPort | None = None
    """Where the partition's leader is. None: Metadata has to be asked for, of whichever broker this is."""
    epoch = NOWHERE
    """The leader epoch that the client knows; -1: it is too old for that."""
    topic_id = bytes(16)
    """The topic's id, where Metadata says it."""
    _received_bytes = b""

    @property
    def knows_leader(self) -> bool:
        """Whether the connection is to the leader, as far as the client was told."""
        return self.leader is not None

    def ask(self, request: Message, version: int, number: int, target: Target) -> None:
        """Sends a request, whose correlation id is this number."""
        header = RequestHeader(request.ID, version, number, self.name)
        pieces = header.encode(request_header_version(request.ID, version)) + request.encode(version)
        size = sum(map(len, pieces))
        self._send(_SIZE.pack(size) + b"".join(pieces), number, target.topic, target.partition)

    def ask_for_leader(self, number: int, target: Target) -> None:
        """Sends a request for Metadata."""
        version = self.age.metadata
        request = MetadataRequest([MetadataRequestTopic(name=target.topic)])
        if version >= _WITHOUT_CREATION_SINCE:
            request.allow_auto_topic_creation = False
        self.ask(request, version, number, target)

    def take_leader(self, payload: memoryview, target: Target) -> bool:
        """Takes an answer to that; whether it names a leader. Clients that know epochs leave out what is
        older than what they know of the same topic: one that was made anew begins with epochs of its own.
        Those that know no topic ids can't tell the two apart (KAFKA-12257), and are started again."""
        version = self.age.metadata
        answer = MetadataResponse.decode(body_of(MetadataResponse.ID, payload, version), version)
        addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            for found in topic.partitions:
                if found.partition_index != target.partition or found.leader_id not in addresses:
                    continue
                if found.leader_epoch >= self.epoch or topic.topic_id != self.topic_id:
                    self.topic_id = topic.topic_id
                    self.go_to(addresses[found.leader_id], found.leader_epoch)
                    return True
                if version < _IDS_SINCE:
                    self.epoch = NOWHERE
        return False

    def take_error(self, leader: int, epoch: int, addresses: Mapping[int, HostPort]) -> bool:
        """Takes the leader that an error names; whether it helps."""
        if leader not in addresses or epoch <= self.epoch:
            return False
        self.go_to(addresses[leader], epoch)
        return True

    def go_to(self, leader: HostPort, epoch: int) -> None:
        """The leader is there. The connection stays if it is to that address."""
        if self._stream is not None and self._goes_to != leader:
            self.hang_up()
        self.leader, self.epoch = leader, epoch

    def reconnect(self) -> None:
        """A new connection to the same leader."""
        leader = self.leader
        self.hang_up()
        self.leader = leader

    _goes_to: HostPort = ("", 0)
    """Where the connection goes."""

    def connect(self) -> None:
        self._received_bytes = b""
        super().connect()

    def turn_to(self, broker_id: int) -> None:
        self.leader = None
        super().turn_to(broker_id)

    def turn_away(self) -> None:
        self.leader = None
        super().turn_away()

    def hang_up(self) -> None:
        self.leader = None
        super().hang_up()

    def _address(self) -> HostPort:
        self._goes_to = self.leader or super()._address()
        return self._goes_to

    def _refused(self) -> None:
        self.leader = None
        super()._refused()

    def _broken(self) -> None:
        self.leader = None
        super()._broken()

    def _received(self, data: object) -> None:
        assert isinstance(data, bytes)
        stream = self._stream
        whole = self._received_bytes + data
        self._received_bytes = b""
        at = 0
        while len(whole) - at >= _SIZE.size and self._stream is stream:
            (size,) = _SIZE.unpack_from(whole, at)
            stop = at + _SIZE.size + size
            if stop > len(whole):
                break
            frame = memoryview(whole)[at + _SIZE.size : stop]
            at = stop
            self._heard(_CORRELATION_ID.unpack_from(frame)[0], frame)
        if self._stream is stream:
            self._received_bytes = whole[at:]


def body_of(api: int, frame: memoryview, version: int) -> memoryview:
    """An answer without its header."""
    _, at = ResponseHeader.read(frame, 0, response_header_version(api, version))
    return frame[at:]
