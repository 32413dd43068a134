"""Learned Produce requests: most clients send request after request with one batch for one partition, which
differ in correlation id and batch alone. Neither such a request is decoded nor its answer encoded.

Requests of one form that are received together, and whose batches are stored as they come, are taken as one
run (`KafkaProduceRun`): in few steps, however many they are. A request of another form goes to its handler,
and so does one whose batch is refused: the handler says why.
"""

from struct import Struct
from typing import Final

from tank_node.broker.broker import Broker, Topic
from tank_node.broker.shared_parts import shared
from tank_node.kafka.produce.produce_answer import NO_APPEND_TIME, ProduceAnswer, log_start_offset
from tank_node.kafka.produce.produced_records import CheckedBatch, InTransaction, checked_batch
from tank_node.kafka.produce.request_room import RequestRoom
from tank_node.kafka.session import SIZE_BYTES, KafkaApi, KafkaCall, KafkaSession, LearnedRequests
from tank_node.limits import Limits
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Acked
from tank_protos.generated.kafka.produce_request import ProduceRequest
from tank_protos.generated.kafka.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    TopicProduceResponseCollection,
)
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.produce_run import KafkaProduceRun
from tank_protos.kafka.record_batch import ANY_TIME, HEADER_BYTES
from tank_protos.topic_settings import (
    UNLIMITED_MS,
    LogFormat,
    RecordValidation,
    TimestampType,
    TopicSettings,
)
from tank_protos.wire import varint
from tank_protos.wire.message import Message

_LEARNED_SINCE: Final = 3
"""The first version whose requests are learned: those before it bring message sets, which cost more."""
_START_SINCE: Final = 5
"""The first version whose answer has the log start."""
_FLEXIBLE_SINCE: Final = 9
_PREFIX_AT: Final = 8
"""The place in a frame behind key, version and correlation id."""
_NO_TAGS: Final = b"\0\0\0"
"""The end of a request in flexible versions: no tagged fields of partition, topic and request."""
_LONGEST_LENGTH: Final = 5
"""The most bytes of a batch's length."""
_LAST_SHIFT: Final = 7 * (_LONGEST_LENGTH - 1)
"""Of the bits of its last byte."""
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_read_i32: Final = Struct(">i").unpack_from
_write_i64: Final = Struct(">q").pack_into
_CORRELATION_AT: Final = 4
_CORRELATION_BYTES: Final = 4
_FIELD_BYTES: Final = 8
_FORGOTTEN_AFTER: Final = 10_000
"""How many requests that were not learned for want of room make a connection forget those that were."""
_STAND_IN: Final = 0x6B61_666B_6120_6F66
"""Stands for each offset and time in an encoded answer, to find the place of these fields."""


class ProduceForms(LearnedRequests):
    """The learned requests of one connection."""

    __slots__ = ("_forms", "_gate_version", "_last", "_lengths", "_missed", "_most")

    def __init__(self, most: int, gate_version: int) -> None:
        self._most = most
        self._gate_version = gate_version
        """The version of the gate that has allowed all learned requests."""
        self._last: ProduceForm | None = None
        self._forms: dict[bytes, ProduceForm] = {}
        """By prefix."""
        self._lengths: list[int] = []
        """The lengths of the prefixes, each once."""
        self._missed = 0
        """How often there was no room since the forms were forgotten last."""

    @property
    def has_room(self) -> bool:
        """Whether one more form may be learned. A connection with too many keeps the first ones, and forgets
        all from time to time, because their topics may be gone."""
        if len(self._forms) < self._most:
            return True
        self._missed += 1
        if self._missed < _FORGOTTEN_AFTER:
            return False
        self._missed = 0
        self._last = None
        self._forms.clear()
        self._lengths.clear()
        return True

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        if session.gate_version != self._gate_version:
            session.learned = None
            return False
        form = self._last
        if form is None or frame[_PREFIX_AT : form.prefix_end] != form.prefix:
            form = self._find(frame)
            if form is None:
                return False
            self._last = form
        return form.take(session, frame)

    def take_run(self, session: KafkaSession, view: memoryview, at: int, end: int) -> int:
        if session.gate_version != self._gate_version:
            session.learned = None
            return -1
        form = self._last
        if form is None:
            return -1
        stop = form.take_run(session, view, at, end)
        if stop > 0:
            return stop
        begin = at + SIZE_BYTES
        if view[begin + _PREFIX_AT : begin + form.prefix_end] == form.prefix:
            return -1
        form = self._find(view[begin:end])
        if form is None:
            return -1
        self._last = form
        return form.take_run(session, view, at, end)

    def _find(self, frame: memoryview) -> "ProduceForm | None":
        for length in self._lengths:
            form = self._forms.get(bytes(frame[_PREFIX_AT : _PREFIX_AT + length]))
            if form is not None:
                return form
        return None

    def add(self, form: "ProduceForm") -> None:
        """Adds a learned request. Call it only when there is room."""
        self._forms[form.prefix] = self._last = form
        if len(form.prefix) not in self._lengths:
            self._lengths.append(len(form.prefix))


class ProduceForm:
    """The form of one request, and of its answer without errors."""

    __slots__ = (
        "_acked", "_answer_bytes", "_api", "_has_start", "_head", "_name", "_offset_at", "_pack",
        "_partition", "_run", "_run_rules", "_tail", "_template", "_template_start", "_timeout_ms", "_topic",
        "_topic_id", "client_id", "has_tags", "prefix", "prefix_end", "version",
    )  # fmt: skip

    def __init__(
        self,
        call: KafkaCall,
        prefix: bytes,
        request: ProduceRequest,
        topic: Topic,
        partition: Partition,
        timeout_ms: int,
    ) -> None:
        self.prefix = prefix
        """The request's bytes from the client id up to the length of the batch."""
        self.prefix_end = _PREFIX_AT + len(prefix)
        self._api = call.api
        self.client_id = call.client_id
        self.version = call.version
        self.has_tags = call.has_tags
        self._topic = topic
        self._partition = partition
        wanted = request.topic_data[0]
        self._name, self._topic_id = wanted.name, wanted.topic_id
        self._acked = Acked.WRITTEN if request.acks == 1 else Acked.COMMITTED
        self._timeout_ms = timeout_ms
        self._has_start = call.version >= _START_SINCE
        fields = 3 if self._has_start else 2
        result = PartitionProduceResponse(partition.number, 0, _STAND_IN, _STAND_IN, _STAND_IN)
        answer = TopicProduceResponse(self._name, self._topic_id, [result])
        whole = ProduceResponse(TopicProduceResponseCollection([answer]))
        stand_ins = _STAND_IN.to_bytes(_FIELD_BYTES, "big") * fields
        head, _, self._tail = b"".join(whole.encode(call.version)).partition(stand_ins)
        self._head = b"\0" + head if call.has_tags else head
        self._answer_bytes = _CORRELATION_BYTES + len(self._head) + len(stand_ins) + len(self._tail)
        self._pack = Struct(f">ii{len(self._head)}s{fields}q{len(self._tail)}s").pack
        self._run = shared(call.session.broker, KafkaProduceRun, _new_run)
        self._run_rules: RunRules | None = None
        """What the topic demands of a run; None: not looked up so far."""
        self._offset_at = SIZE_BYTES + _CORRELATION_BYTES + len(self._head)
        """The place of the offset in an answer."""
        self._template, self._template_start = b"", -1
        """An answer for a run, and the log start that it names."""

    def take(self, session: KafkaSession, frame: memoryview) -> bool:
        """Appends the batch of a frame that has the prefix. False: nothing is done, and the handler must look
        at it."""
        at, size = self.prefix_end, len(frame)
        if frame[2] << 8 | frame[3] != self.version or size < at + _LONGEST_LENGTH:
            return False
        if self.version < _FLEXIBLE_SINCE:
            (length,) = _read_i32(frame, at)
            at += _I32.size
            stop = size
        else:
            # As `varint.read`, without its call and its tuple. There are enough bytes.
            length = shift = 0
            while True:
                byte = frame[at]
                at += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > _LAST_SHIFT:
                    return False
            length -= 1
            stop = size - len(_NO_TAGS)
            if bytes(frame[stop:]) != _NO_TAGS:
                return False
        partition = self._partition
        if length != stop - at or not partition.takes(self._acked):
            return False
        batch = self._checked(session, frame[at:stop])
        if batch is None:
            return False
        call = KafkaCall(
            session,
            self._api,
            self.version,
            _read_i32(frame, _CORRELATION_AT)[0],
            self.client_id,
            has_tags=self.has_tags,
        )
        session.count_received(self.client_id, SIZE_BYTES + size)
        session.begin(call)
        answer = LearnedAnswer(self, call, partition.end(), batch.append_ms)
        producer = batch.producer
        if producer is not None and session.broker.link.view.producer_ended(producer.producer_id):
            answer.complete(0, Refusal.STALE_PRODUCER_EPOCH, 0, 0)
            return True
        partition.append(
            batch.data,
            answer,
            0,
            max_timestamp_ms=batch.max_timestamp_ms,
            producer=producer,
            timeout_ms=self._timeout_ms,
            acked=self._acked,
        )
        return True

    def _checked(self, session: KafkaSession, given: memoryview) -> CheckedBatch | None:
        """The batch if the topic may store it; else None."""
        settings, tick, room = self._topic.view.settings, self._partition.tick, RequestRoom()
        try:
            return checked_batch(given, self.version, settings, tick.now_ms, session.metrics, room)
        except (InvalidRecords, InTransaction):
            return None
        finally:
            tick.unpacked_bytes += room.unpacked_bytes

    def take_run(self, session: KafkaSession, view: memoryview, at: int, end: int) -> int:
        """Appends the batches of the requests from `at` on, as many as have this form and are stored as they
        come. Returns where the rest begins; -1: nothing is done."""
        partition, settings = self._partition, self._topic.view.settings
        rules = self._run_rules
        if rules is None or rules.settings is not settings:
            rules = self._run_rules = RunRules(settings, session.limits, self.prefix_end)
        if not rules.may_be or partition.refusal:
            return -1
        run, now_ms = self._run, partition.tick.now_ms
        try:
            found = run.find(
                view,
                at,
                end,
                self.version,
                self.prefix,
                session.most - session.in_flight,
                rules.most_bytes,
                min(now_ms + rules.after_ms, ANY_TIME),
                now_ms,
                rules.walks,
                rules.codecs,
                rules.keyed,
            )
            return self._append_run(session, run, found, at) if found else -1
        finally:
            run.clear()

    def _append_run(self, session: KafkaSession, run: KafkaProduceRun, found: int, at: int) -> int:
        """Appends what was found from `at` on; returns what `take_run` does."""
        partition = self._partition
        if run.producer_id and session.broker.link.view.producer_ended(run.producer_id):
            return -1
        if not partition.takes_run(run):
            return -1
        start = log_start_offset(partition)
        if start != self._template_start:
            self._template, self._template_start = self._frame(0, 0, NO_APPEND_TIME, start), start
        answers = run.answers(self._template, self._offset_at, partition.end())
        call = RunCall(self, session, self._api, found, answers, start)
        session.count_received(self.client_id, run.at - at)
        session.begin(call)
        partition.append_run(run, call, self._timeout_ms, self._acked)
        if not run.is_copied:
            session.kept = run.at
        return run.at

    def answer(self, call: KafkaCall, offset: int, append_ms: int) -> None:
        """Answers a request whose batch is stored at this offset."""
        start = log_start_offset(self._partition)
        call.answer_frame(self._frame(call.correlation_id, offset, append_ms, start))

    def answer_run(self, call: "RunCall") -> None:
        """Answers a run whose batches are stored."""
        answers, start = call.answers, log_start_offset(self._partition)
        if start != call.start and self._has_start:
            changed = bytearray(answers)
            at = self._offset_at + 2 * _FIELD_BYTES
            for place in range(at, len(changed), len(changed) // call.requests):
                _write_i64(changed, place, start)
            answers = bytes(changed)
        call.answer_frame(answers)

    def _frame(self, correlation_id: int, offset: int, append_ms: int, start: int) -> bytes:
        """A whole answer."""
        if self._has_start:
            return self._pack(
                self._answer_bytes, correlation_id, self._head, offset, append_ms, start, self._tail
            )
        return self._pack(self._answer_bytes, correlation_id, self._head, offset, append_ms, self._tail)

    def answer_otherwise(self, call: KafkaCall, refusal: Refusal, first: int, last: int) -> None:
        """Answers a request whose batch was refused, or has no offset."""
        reply = ProduceAnswer(call, is_silent=False)
        answer = TopicProduceResponse(self._name, self._topic_id)
        reply.response.responses.append(answer)
        token = reply.expect(answer, self._topic, self._partition.number)
        reply.appends(token, self._partition, NO_APPEND_TIME)
        reply.complete(token, refusal, first, last)
        reply.close()


class LearnedAnswer:
    """The answer to one learned request, which waits for its append."""

    __slots__ = ("_append_ms", "_call", "_end", "_form")

    def __init__(self, form: ProduceForm, call: KafkaCall, end: int, append_ms: int) -> None:
        self._form = form
        self._call = call
        self._end = end
        """The log's end before the append: a batch at or below it is the first copy of a repeat."""
        self._append_ms = append_ms

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        if refusal or not first:
            self._form.answer_otherwise(self._call, refusal, first, last)
        else:
            append_ms = self._append_ms if first > self._end else NO_APPEND_TIME
            self._form.answer(self._call, first - 1, append_ms)


class RunRules:
    """What a topic with these settings demands of requests that are taken as a run."""

    __slots__ = ("after_ms", "codecs", "keyed", "may_be", "most_bytes", "settings", "walks")

    def __init__(self, settings: TopicSettings, limits: Limits, prefix_end: int) -> None:
        """prefix_end: of the requests: where their batch's length begins."""
        self.settings = settings
        around = prefix_end + _LONGEST_LENGTH + len(_NO_TAGS)
        self.most_bytes = min(settings.max_message_bytes, limits.bundle_bytes, limits.frame_bytes - around)
        """The most bytes of a batch. Above it the handler refuses the batch, or the session the frame."""
        self.after_ms = settings.timestamp_after_max_ms
        self.may_be = (
            settings.log_format is LogFormat.KAFKA
            and settings.timestamp_type is TimestampType.CREATE_TIME
            and settings.timestamp_before_max_ms == UNLIMITED_MS
        )
        """Whether batches are stored as they come, and no further check is due."""
        self.keyed = settings.cleanup_policy.compacts
        """Whether each record needs a key."""
        self.walks = self.keyed or settings.record_validation is not RecordValidation.HEADER
        """Whether the records are looked at that are not compressed."""
        self.codecs = not self.keyed and settings.record_validation is not RecordValidation.FULL
        """Whether compressed records need no look."""


class RunCall(KafkaCall):
    """A run of learned requests, which waits for its append. They are answered together."""

    __slots__ = ("_form", "answers", "start")

    def __init__(
        self,
        form: ProduceForm,
        session: KafkaSession,
        api: KafkaApi,
        requests: int,
        answers: bytes,
        start: int,
    ) -> None:
        super().__init__(session, api, form.version, 0, form.client_id, has_tags=form.has_tags)
        self.requests = requests
        self._form = form
        self.answers = answers
        """The answers to all requests if their batches are stored, each of the same length."""
        self.start = start
        """The log start that they name."""

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        if refusal:
            self._form.answer_otherwise(self, refusal, first, last)
        else:
            self._form.answer_run(self)

    def answer(self, response: Message, outcome: str = OK) -> None:
        """Sends this answer to each of the requests."""
        frame, given, place = self.frame(response), self.answers, SIZE_BYTES + _CORRELATION_BYTES
        frames = [
            frame[:SIZE_BYTES] + given[at + SIZE_BYTES : at + place] + frame[place:]
            for at in range(0, len(given), len(given) // self.requests)
        ]
        self.end_with(b"".join(frames), outcome)


def learn(call: KafkaCall, body: memoryview, request: ProduceRequest, topic: Topic, timeout_ms: int) -> None:
    """Learns the form of a request with one batch, if it has one that may be learned. timeout_ms: how long
    its append may take."""
    (entry,) = request.topic_data[0].partition_data
    partition, records = topic.partitions.get(entry.index), entry.records
    if (
        call.version < _LEARNED_SINCE
        or request.transactional_id is not None
        or request.acks not in (-1, 1)
        or partition is None
        or records is None
        or len(records) < HEADER_BYTES
    ):
        return
    if call.version < _FLEXIBLE_SINCE:
        length, tail = _I32.pack(len(records)), b""
    else:
        length, tail = varint.encode(len(records) + 1), _NO_TAGS
    end = len(body) - len(tail) - len(records)
    if bytes(body[end - len(length) : end + HEADER_BYTES]) != length + bytes(records[:HEADER_BYTES]):
        return  # it has tagged fields
    session = call.session
    learned = session.learned
    if not isinstance(learned, ProduceForms):
        learned = session.learned = ProduceForms(session.limits.learned_paths, session.gate_version)
    if not learned.has_room:
        return
    client_id = b""
    if call.client_id is not None:
        client_id = call.client_id.encode("utf-8", "surrogateescape")
    name = _I16.pack(-1 if call.client_id is None else len(client_id)) + client_id
    prefix = name + (b"\0" if call.has_tags else b"") + bytes(body[: end - len(length)])
    learned.add(ProduceForm(call, prefix, request, topic, partition, timeout_ms))


def _new_run(broker: Broker) -> KafkaProduceRun:
    """For the requests of one session's receive, which leaves it empty; so all sessions share one."""
    return KafkaProduceRun()
