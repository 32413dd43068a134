"""The protocol state of one TANK connection: frames in, calls to the broker, answers out. No I/O, no clock.

The server passes received bytes to `receive`, sends the output in `out`, and calls `close` at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from tank_node.broker.broker import Broker
from tank_node.client_facts import NO_VERSION, ClientFacts
from tank_node.frame_session import FrameSession
from tank_node.limits import Limits
from tank_node.message_names import MESSAGE_NAMES
from tank_node.metrics import OK, Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Waiter
from tank_node.security.gate import ANONYMOUS, Gate, NotAllowed, Operation, Resource
from tank_node.tank.errors import error_name, tank_error
from tank_node.tank.fetch_templates import MESSAGE_ID, PREFIX_AT, ConsumePath, ConsumePaths
from tank_node.tank.produce_templates import ProducePath, ProducePaths
from tank_node.tank.run_acks import RunAcks
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.storage.produce_run import ANSWER_BYTES, failed
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, frame_of
from tank_protos.wire.message import Message

_PRODUCE: Final = 1
_CONSUME: Final = MESSAGE_ID

_read_head: Final = FRAME_HEAD.unpack_from


class FrameTooLarge(WireError):
    """A frame that is longer than its message id allows."""

    reason: ClassVar[str] = "frame_too_large"


class UnknownMessage(WireError):
    """A frame with an unknown message id."""

    reason: ClassVar[str] = "unknown_message"


@dataclass(frozen=True, slots=True)
class Api:
    """The handler of one message id, and the checks before it."""

    handle: "Callable[[TankSession, memoryview], None]"
    """Takes the session and the payload, which is valid during the call. Raises WireError when the connection
    has to be closed."""
    operation: Operation
    resource: Resource
    """The operation and the resource that the gate checks before the handler is called."""
    carries_bundles: bool = False
    """Whether a frame may be as long as `Limits.frame_bytes`; else `Limits.request_bytes` bounds it."""


FetchAgain: TypeAlias = "Callable[[TankSession, ConsumePath, bytearray, int, int], int]"
"""The fast path of a learned consume request: see `fetch_fast.fetch_again`."""


class TankSession(FrameSession):
    """The session of one client, or of a broker that forwards requests. `dispatch.open_session` makes it."""

    __slots__ = (
        "_apis", "_asked", "_fetch_again", "_gate", "_passed", "answer_bytes", "asked_bytes", "broker",
        "bundle_bytes", "client_id", "fetch_bytes", "fetches", "is_outside", "knows_hosts", "limits",
        "metrics", "most", "old_document", "paths", "principal", "wait_entries", "waits",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        apis: Mapping[int, Api],
        fetch_again: FetchAgain,
        gate: Gate,
        *,
        is_outside: bool = False,
    ) -> None:
        super().__init__()
        self.broker = broker
        self._apis = apis
        """By message id."""
        self._fetch_again = fetch_again
        self._gate = gate
        self._passed = gate.version
        """The version of the gate that allowed every request in `paths` and `fetches`."""
        self.principal = ANONYMOUS
        self.is_outside = is_outside
        """Whether the client connected at the outside address, and gets other brokers' outside addresses."""
        self.limits: Limits = broker.limits
        self.metrics: Metrics = broker.metrics
        self.most = self.limits.in_flight
        """How many requests may be unanswered before no more are read; 0 while the session is held back."""
        self.fetch_bytes = self.limits.fetch_bytes
        """The most bytes of one partition in an answer, unless its first bundle alone is larger."""
        self.answer_bytes = self.limits.answer_bytes
        """The most bytes of all partitions in an answer."""
        self.knows_hosts = False
        """Whether this client finds leaders by the brokers' names: it has sent a Features request."""
        self.bundle_bytes = self.limits.bundle_bytes
        self.paths = ProducePaths(self.limits.learned_paths)
        self.fetches = ConsumePaths(self.limits.learned_paths)
        self.client_id = ""
        """The name that the client gave itself in its last request that has one and was decoded."""
        self._asked: set[int] = set()
        """The ids of messages that came."""
        self.old_document = False
        """Whether the last produce request was of a client that knows no leaders, like the old document."""
        self.asked_bytes = 0
        """The bytes of requests that the controllers, or another broker, have not answered."""
        self.waits: dict[Waiter[Partition], None] = {}
        self.wait_entries = 0
        """The number of partitions that all requests in `waits` name."""

    @property
    def is_full(self) -> bool:
        """Whether no more requests are read until some requests are answered, or some output is sent."""
        limits = self.limits
        return (
            self.in_flight >= self.most
            or self.out_bytes >= limits.unsent_bytes
            or self.asked_bytes >= limits.request_bytes
        )

    @property
    def is_peer(self) -> bool:
        return self.is_forwarder

    @property
    def is_client(self) -> bool:
        return True

    def client_facts(self) -> ClientFacts:
        requests = {MESSAGE_NAMES[each]: NO_VERSION for each in sorted(self._asked)}
        return ClientFacts(ConnectionProtocol.TANK, self.client_id, "", "", requests)

    # --- input -----------------------------------------------------------------------------------

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        """Takes frames, as `Session.receive` says. Frames wait while `Limits.in_flight` requests are
        unanswered."""
        self.kept = at
        if self._gate.version != self._passed:
            self._forget_learned()
        guess = self.paths.last  # most clients produce to one partition: without a look-up
        most = self.most
        if self.asked_bytes and self.is_full:
            most = 0
        while end - at >= HEADER_BYTES and self.in_flight < most:
            message_id = buffer[at]
            if message_id == _PRODUCE:
                path = guess or self.paths.find(buffer, at, end)
                if path is not None:
                    stop = self._produce_again(path, buffer, view, at, end, most)
                    if stop >= 0:
                        at = stop
                        if at == end:
                            return at
                        guess = None
                        continue
                if guess is not None:
                    guess = None
                    continue
            elif message_id == _CONSUME:
                fetch = self.fetches.last
                if fetch is None or not buffer.startswith(fetch.prefix, at + PREFIX_AT):
                    fetch = self.fetches.find(buffer, at, end)
                if fetch is not None:
                    stop = self._fetch_again(self, fetch, buffer, at, end)
                    if stop >= 0:
                        at = stop
                        if self.is_full:
                            break
                        continue
            message_id, length = _read_head(buffer, at)
            stop = at + HEADER_BYTES + length
            if stop > end:
                self.check_frame(message_id, length)
                break
            guess = None  # the frame may make this a broker's connection, which forgets all learned requests
            self.frame(message_id, view[at + HEADER_BYTES : stop])
            self.kept = at = stop
            if self.is_full:
                break
        return at

    def _produce_again(
        self, path: ProducePath, buffer: bytearray, view: memoryview, at: int, end: int, most: int
    ) -> int:
        """Takes produce requests that match a learned one, from `at` on. Returns where the next frame begins;
        -1: the frame at `at` doesn't match, or its partition refuses appends now."""
        partition = path.partition
        if partition.refusal:
            return -1
        run = partition.found
        acks = run.acks
        if acks is not None and not (isinstance(acks, RunAcks) and run.timeout_ms == path.timeout_ms):
            partition.stage_found()
            acks = None
        found = run.batches
        prefix, bundle_bytes = path.prefix, self.bundle_bytes
        answers = found.find(buffer, view, at, end, prefix, most - self.in_flight, bundle_bytes)
        if not answers:
            return -1
        if acks is None:
            acks = RunAcks()
            partition.expect(acks, path.timeout_ms)
        self.in_flight += len(answers) // ANSWER_BYTES
        acks.parts.append((self, answers))
        self.kept = found.kept
        return found.at

    def hold_back(self) -> None:
        """Reads no more requests until `go_on`."""
        self.most = 0

    def go_on(self) -> None:
        """Reads requests again, first those that are in the buffer."""
        self.most = self.limits.in_flight
        self.ready()

    def forwards(self) -> None:
        """Makes this the connection of a broker that forwards requests: it may have more requests under way,
        and gets smaller answers."""
        super().forwards()
        self._forget_learned()  # learned requests of a client lack the mark of forwarded ones
        limits = self.limits
        self.most = limits.forwarded_requests
        self.fetch_bytes = limits.forwarded_fetch_bytes
        self.answer_bytes = limits.forwarded_answer_bytes

    def _forget_learned(self) -> None:
        """Forgets the learned requests, so that all requests pass the gate and their handlers again."""
        self._passed = self._gate.version
        self.paths = ProducePaths(self.limits.learned_paths)
        self.fetches = ConsumePaths(self.limits.learned_paths)

    def answer_run(self, answers: bytes, refusal: Refusal) -> None:
        """Sends the answers of a run of produce requests, with this refusal in each."""
        self.in_flight -= len(answers) // ANSWER_BYTES
        if refusal:
            answers = failed(answers, tank_error(refusal, self.old_document))
        # The following does what `send` does.
        out = self.out
        if not out:
            self.ready()
        out.append(answers)
        self.out_bytes += len(answers)

    def count_answers(self, requests: int, refusal: Refusal) -> None:
        """Counts this many answers to produce requests in the metrics."""
        outcome = OK
        if refusal:
            outcome = error_name(refusal)
            self.metrics.errors["produce", outcome] += requests
        self.metrics.requests[_PRODUCE, outcome] += requests

    def check_frame(self, message_id: int, length: int) -> None:
        """Raises WireError for a frame of an unknown id or of too many bytes, before its payload has come."""
        api = self._apis.get(message_id)
        if api is None:
            hint = "" if message_id else ": is it a Kafka client? These have a port of their own (--kafka)"
            raise UnknownMessage(f"unknown message id {message_id}{hint}")
        most = self.limits.frame_bytes if api.carries_bundles else self.limits.request_bytes
        if length > most:
            raise FrameTooLarge(f"{length} bytes; message {message_id} may have at most {most}")

    def frame(self, message_id: int, payload: memoryview) -> None:
        """Calls the handler of a whole frame, if the gate allows it. Raises WireError."""
        self.check_frame(message_id, len(payload))
        self._asked.add(message_id)
        api = self._apis[message_id]
        try:
            if not self._gate.allows(self.principal, api.operation, api.resource):
                raise NotAllowed(f"message {message_id}: {api.operation.value} of {api.resource.value}")
            api.handle(self, payload)
        except WireError as error:
            self.metrics.requests[message_id, error.reason] += 1
            raise

    # --- output ----------------------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Sends a ping to our own clients and to brokers that forward requests, which take silence for a dead
        connection. TANK's own clients get none: they skip the first ping alone, and take a second one for
        their answer."""
        if self.knows_hosts or self.is_forwarder:
            self.ping()

    def answer(self, answer: Message, outcome: str = OK, version: int = 0) -> None:
        """Queues an answer, whose id is its request's, and counts it as `outcome`. version: the layout of an
        answer that has several."""
        self.metrics.requests[answer.ID, outcome] += 1
        self.send(frame_of(answer, version))

    # --- waits -----------------------------------------------------------------------------------

    def may_wait(self, partitions: tuple[Partition, ...], entries: int) -> bool:
        """Whether a request that names this many partitions may wait, within the limits; else it is answered
        at once."""
        limits = self.limits
        if (
            self.wait_entries + entries <= limits.wait_entries
            and self.broker.deadlines.entries + entries <= limits.all_wait_entries
            and all(len(partition.waiters) < limits.waits_per_partition for partition in partitions)
        ):
            return True
        self.metrics.refused["too_many_waits"] += 1
        return False

    def begin_wait(
        self, waiter: Waiter[Partition], partitions: tuple[Partition, ...], max_wait_ms: int
    ) -> None:
        """Registers a waiting request, whose `waiter.entries` is set already."""
        waiter.asked_by = self
        self.in_flight += 1
        self.wait_entries += waiter.entries
        self.waits[waiter] = None
        self.broker.deadlines.wait(waiter, partitions, max_wait_ms)

    def end_wait(self, waiter: Waiter[Partition]) -> None:
        """Removes a waiting request, before its answer is sent."""
        self.broker.deadlines.forget(waiter)
        del self.waits[waiter]
        self.wait_entries -= waiter.entries
        self.in_flight -= 1

    def close(self) -> None:
        """Ends all waits. Appended messages stay; their answers are dropped."""
        super().close()
        for waiter in tuple(self.waits):
            self.broker.deadlines.forget(waiter)
        self.waits.clear()
        if self.is_forwarder:
            self.broker.forwarding.left(self)
