"""The TANK conversation of one connection: frames in, calls to the broker, answers out. No I/O, no clock.

The server feeds received bytes to `receive`, sends what collects in `out`, and calls `close` at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Final, TypeAlias

from tank_node.broker.broker import Broker
from tank_node.frame_session import FrameSession
from tank_node.limits import Limits
from tank_node.metrics import OK, Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.tank.errors import error_name, tank_error
from tank_node.tank.fetch_templates import MESSAGE_ID, PREFIX_AT, ConsumePath, ConsumePaths
from tank_node.tank.produce_templates import ProducePaths
from tank_protos.storage.produce_run import ANSWER_BYTES, failed
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES
from tank_protos.wire.message import Message

_PRODUCE: Final = 1
_CONSUME: Final = MESSAGE_ID

_read_frame: Final = Struct("<BI").unpack_from
_write_frame: Final = Struct("<BI").pack


class FrameTooLarge(WireError):
    """A frame that is longer than we take."""

    reason: ClassVar[str] = "frame_too_large"


class UnknownMessage(WireError):
    """A frame with an id that means nothing here."""

    reason: ClassVar[str] = "unknown_message"


@dataclass(frozen=True, slots=True)
class Api:
    """What a broker does with a message of one id."""

    handle: "Callable[[TankSession, memoryview], None]"
    """Takes the session and the payload, which is valid during the call. Raises WireError: the connection is
    to be closed."""
    carries_bundles: bool = False
    """Whether a frame may be as long as `Limits.frame_bytes`; else `Limits.request_bytes` bounds it."""


FetchAgain: TypeAlias = "Callable[[TankSession, ConsumePath, bytearray, int, int], int]"
"""The short way of a learned consume: see `fetch_fast.fetch_again`."""


class TankSession(FrameSession):
    """One client's conversation. `dispatch.open_session` makes it."""

    __slots__ = (
        "_apis", "_fetch_again", "answer_bytes", "asked_bytes", "broker", "bundle_bytes", "fetch_bytes",
        "fetches", "is_outside", "knows_hosts", "limits", "metrics", "most", "old_document", "paths",
        "wait_entries", "waits",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, apis: Mapping[int, Api], fetch_again: FetchAgain, *, is_outside: bool = False
    ) -> None:
        super().__init__()
        self.broker = broker
        self._apis = apis
        """By message id."""
        self._fetch_again = fetch_again
        self.is_outside = is_outside
        """Whether the client came by the address of the outside, and is told of those of other brokers."""
        self.limits: Limits = broker.limits
        self.metrics: Metrics = broker.metrics
        self.most = self.limits.in_flight
        """Requests that may be unanswered before no more are taken; 0 while it is held back."""
        self.fetch_bytes = self.limits.fetch_bytes
        """Of one partition in an answer, but for its first bundle; and of `answer_bytes`, all of one."""
        self.answer_bytes = self.limits.answer_bytes
        self.knows_hosts = False
        """Whether this client finds brokers by their names, and so the leaders: it has asked for features."""
        self.bundle_bytes = self.limits.bundle_bytes
        self.paths = ProducePaths(self.limits.learned_paths)
        self.fetches = ConsumePaths(self.limits.learned_paths)
        self.old_document = False
        """Whether the client that produces here is one of the old document, which knows no leaders."""
        self.asked_bytes = 0
        """Of requests that the controller, or another broker, has not answered."""
        self.waits: dict[Waiter[Partition], None] = {}
        self.wait_entries = 0
        """Partitions that `waits` name, all together."""

    @property
    def is_full(self) -> bool:
        """Whether no more requests are taken until some of what is under way is done or sent."""
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

    # --- input -----------------------------------------------------------------------------------

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        """See `Session.receive`. Frames wait while `Limits.in_flight` requests are unanswered."""
        self.kept = at
        guess = self.paths.last  # most clients produce to one partition: without a look-up
        most = self.most
        if self.asked_bytes and self.is_full:
            most = 0
        while end - at >= HEADER_BYTES and self.in_flight < most:
            message_id = buffer[at]
            if message_id == _PRODUCE:
                path = guess or self.paths.find(buffer, at, end)
                if path is not None and not (partition := path.partition).refusal:
                    acks = partition.found_acks
                    if acks is None or partition.found_timeout_ms != path.timeout_ms:
                        acks = partition.expect(path.timeout_ms)
                    found = partition.found
                    answers = found.find(
                        buffer, view, at, end, path.prefix, most - self.in_flight, self.bundle_bytes
                    )
                    if answers:
                        self.in_flight += len(answers) // ANSWER_BYTES
                        acks.parts.append((self, answers))
                        self.kept = found.kept
                        at = found.at
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
            message_id, length = _read_frame(buffer, at)
            stop = at + HEADER_BYTES + length
            if stop > end:
                self.check_frame(message_id, length)
                break
            guess = None  # the frame may make this a connection on which nothing was learned
            self.frame(message_id, view[at + HEADER_BYTES : stop])
            self.kept = at = stop
            if self.is_full:
                break
        return at

    def hold_back(self) -> None:
        """Takes no more requests until `go_on`."""
        self.most = 0

    def go_on(self) -> None:
        """Takes requests again, those first that had to wait."""
        self.most = self.limits.in_flight
        self.ready()

    def forwards(self) -> None:
        """As the base does: there are more requests then, and smaller answers."""
        super().forwards()
        # Of what a client has sent before, whose mark is another.
        self.paths = ProducePaths(self.limits.learned_paths)
        self.fetches = ConsumePaths(self.limits.learned_paths)
        limits = self.limits
        self.most = limits.forwarded_requests
        self.fetch_bytes = limits.forwarded_fetch_bytes
        self.answer_bytes = limits.forwarded_answer_bytes

    def answer_run(self, answers: bytes, error: int) -> None:
        """Sends the answers of a run of produce requests, with this error in each; 0: none."""
        self.in_flight -= len(answers) // ANSWER_BYTES
        if error:
            answers = failed(answers, tank_error(error, self.old_document))
        # As `send` does.
        out = self.out
        if not out:
            self.ready()
        out.append(answers)
        self.out_bytes += len(answers)

    def count_answers(self, requests: int, error: int) -> None:
        """Counts so many answers to produce requests: once for all that share a tick."""
        outcome = OK
        if error:
            outcome = error_name(error)
            self.metrics.errors["produce", outcome] += requests
        self.metrics.requests[_PRODUCE, outcome] += requests

    def check_frame(self, message_id: int, length: int) -> None:
        """Raises WireError for a frame that we would not take, before its payload has come."""
        api = self._apis.get(message_id)
        if api is None:
            raise UnknownMessage(f"message id {message_id}")
        most = self.limits.frame_bytes if api.carries_bundles else self.limits.request_bytes
        if length > most:
            raise FrameTooLarge(f"{length} bytes; message {message_id} may have {most}")

    def frame(self, message_id: int, payload: memoryview) -> None:
        self.check_frame(message_id, len(payload))
        try:
            self._apis[message_id].handle(self, payload)
        except WireError as error:
            self.metrics.requests[message_id, error.reason] += 1
            raise

    # --- output ----------------------------------------------------------------------------------

    def heartbeat(self) -> None:
        """TANK's own clients read one ping, the first, and take the next frame for their answer. Ours pass
        over all, and a broker that forwards its clients' requests takes silence for a dead connection."""
        if self.knows_hosts or self.is_forwarder:
            self.ping()

    def answer(self, answer: Message, outcome: str = OK) -> None:
        """Queues an answer, whose id is its request's, and counts it as `outcome`."""
        self.metrics.requests[answer.ID, outcome] += 1
        payload = answer.encode()
        self.send(b"".join((_write_frame(answer.ID, sum(map(len, payload))), *payload)))

    # --- waits -----------------------------------------------------------------------------------

    def may_wait(self, partitions: tuple[Partition, ...], entries: int) -> bool:
        """Whether a request that names so many partitions may wait; else it is answered as it stands."""
        limits = self.limits
        if (
            self.wait_entries + entries <= limits.wait_entries
            and self.broker.wait_entries + entries <= limits.all_wait_entries
            and all(len(partition.waiters) < limits.waits_per_partition for partition in partitions)
        ):
            return True
        self.metrics.refused["too_many_waits"] += 1
        return False

    def begin_wait(
        self, waiter: Waiter[Partition], partitions: tuple[Partition, ...], max_wait_ms: int
    ) -> None:
        """Registers a request that waits; `waiter.entries` is set."""
        self.in_flight += 1
        self.wait_entries += waiter.entries
        self.waits[waiter] = None
        self.broker.wait(waiter, partitions, max_wait_ms)

    def end_wait(self, waiter: Waiter[Partition]) -> None:
        """Takes a waiting request back, before its answer."""
        self.broker.forget(waiter)
        del self.waits[waiter]
        self.wait_entries -= waiter.entries
        self.in_flight -= 1

    def close(self) -> None:
        """Ends all waits. What was appended stays; its answers go nowhere."""
        super().close()
        for waiter in tuple(self.waits):
            self.broker.forget(waiter)
        self.waits.clear()
        if self.is_forwarder:
            self.broker.forwarding.left(self)
