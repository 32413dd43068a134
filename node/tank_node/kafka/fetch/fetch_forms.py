"""Learned Fetch requests: a consumer sends request after request that name one partition, or none, and differ
in correlation id, session epoch and that partition's fields alone. Neither header nor body of such a request
is decoded.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from tank_node.kafka.fetch.fetch_sessions import FIRST_EPOCH
from tank_node.kafka.learned_forms import LearnedForm, forms_of, head_of
from tank_node.kafka.session import KafkaCall, KafkaSession
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchRequest, FetchTopic

_LEARNED_SINCE: Final = 12
"""The first version whose requests are learned: that of clients of the last years."""
_I32: Final = Struct(">i")
_read_i32: Final = _I32.unpack_from
_ENTRY: Final = Struct(">iiqiqi")
"""The fields of a partition, in the order of the message."""
_STAND_IN: Final = 0x6B61_666B
"""Stands for the session epoch, and for each field of a partition, to find their places."""

CarryOut: TypeAlias = Callable[[KafkaCall, FetchRequest], None]


class FetchForm(LearnedForm):
    """What requests of one form have in common."""

    __slots__ = ("_carry_out", "_entry_at", "_epoch_at", "_request", "_topic")

    def __init__(
        self,
        call: KafkaCall,
        carry_out: CarryOut,
        request: FetchRequest,
        frame: bytes,
        places: tuple[int, int],
    ) -> None:
        """frame: one of them. places: where in it the session epoch and the partition's fields begin; the
        latter is the frame's length where no partition is named."""
        epoch_at, entry_at = places
        entry_end = min(entry_at + _ENTRY.size, len(frame))
        super().__init__(call, frame, ((epoch_at, epoch_at + _I32.size), (entry_at, entry_end)))
        self._carry_out = carry_out
        self._epoch_at, self._entry_at = epoch_at, entry_at
        self._topic: FetchTopic | None = request.topics[0] if request.topics else None
        self._request = request
        """The one request object, whose fields are set anew for each request: handlers keep nothing of it but
        strings and the partition, which is a new object each time."""

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        call = self.begun(session, frame)
        if call is None:
            return False
        request, topic = self._request, self._topic
        (request.session_epoch,) = _read_i32(frame, self._epoch_at)
        if topic is not None:
            topic.partitions = [FetchPartition(*_ENTRY.unpack_from(frame, self._entry_at))]
        self._carry_out(call, request)
        return True


def learn(call: KafkaCall, body: memoryview, request: FetchRequest, carry_out: CarryOut) -> None:
    """Learns the form of a request that names one partition or none, if it may be learned. carry_out: what
    its handler does with a decoded request."""
    topics = request.topics
    if (
        call.version < _LEARNED_SINCE
        or request.session_epoch == FIRST_EPOCH  # the next one has a session, and so another form
        or request.forgotten_topics_data
        or len(topics) > 1
        or (topics and len(topics[0].partitions) != 1)
    ):
        return
    learned, head = forms_of(call), head_of(call)
    length = len(head) + len(body)
    if not learned.wants(length):
        return
    frame = head + bytes(body)
    places = _places(request, call.version, frame, len(head))
    form = None if places is None else FetchForm(call, carry_out, _copy(request), frame, places)
    learned.add(length, form)


def _copy(request: FetchRequest) -> FetchRequest:
    """A copy whose fields may be set anew: the request's own partition stays in its session."""
    made = FetchRequest(
        request.cluster_id, request.replica_id, request.replica_state, request.max_wait_ms,
        request.min_bytes, request.max_bytes, request.isolation_level, request.session_id,
        request.session_epoch, [], [], request.rack_id,
    )  # fmt: skip
    made.topics = [FetchTopic(topic.topic, topic.topic_id, []) for topic in request.topics]
    return made


def _places(request: FetchRequest, version: int, frame: bytes, body_at: int) -> tuple[int, int] | None:
    """Where a frame has the session epoch and the partition's fields; None where the request is laid out in
    another way than the encoder's: it has tagged fields, for example."""
    marked = _copy(request)
    marked.session_epoch = _STAND_IN
    for topic in marked.topics:
        topic.partitions = [FetchPartition(_STAND_IN, _STAND_IN, _STAND_IN, _STAND_IN, _STAND_IN, _STAND_IN)]
    body = b"".join(marked.encode(version))
    epoch, entry = _I32.pack(_STAND_IN), _ENTRY.pack(*[_STAND_IN] * 6)
    epoch_at = body.find(epoch)
    entry_at = body.find(entry, epoch_at + len(epoch)) if marked.topics else len(body)
    if min(epoch_at, entry_at) < 0 or len(body) != len(frame) - body_at:
        return None
    entry_end = min(entry_at + len(entry), len(body))
    given = frame[body_at:]
    made = (
        body[:epoch_at]
        + given[epoch_at : epoch_at + len(epoch)]
        + body[epoch_at + len(epoch) : entry_at]
        + given[entry_at:entry_end]
        + body[entry_end:]
    )
    return (body_at + epoch_at, body_at + entry_at) if made == given else None
