"""One connection of a leader to a follower: what to send next, and what the answers mean. Pure.

Many partitions share the connection (see docs/protocol/peers.md), each with its `Progress`: how far it was
sent, and how far the follower's log matches. The first stretch of a partition finds out whether the
follower's log agrees; then stretches follow one another without waiting for answers, as far as the window
reaches.
"""

from collections import deque
from typing import ClassVar, Final

from tank_node.log.epoch_history import epoch_at, last_common
from tank_node.replication.progress import Progress, ProgressState, Source
from tank_node.replication.push_frame import Part, PushFrame
from tank_node.segment.errors import StorageError
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import PushAnswer, PushedPartition
from tank_protos.storage.stretch import PUSH_VERSION
from tank_protos.wire.errors import WireError

FRAME_BYTES: Final = 440 * 1024
"""The size up to which a frame is filled, so that a follower receives it in one go
(`Limits.peer_receive_bytes`, with the records of the last stretch). A frame with one larger batch is
longer."""
STRETCH_BYTES: Final = 432 * 1024
"""The most bytes of one partition in a frame. A stretch costs a follower some 45 µs, and 4.5 for each 10 KB;
a longer one would leave the processor's cache between receive and write."""
FRAME_STRETCHES: Final = 1024
"""The most stretches in a frame. Without it a frame could hold 7,000 empty ones of some 60 bytes, which a
follower would answer in one turn of its loop, for a third of a second."""
NEAR_BYTES: Final = 512 * 1024
"""A follower that is no further behind goes over from the catch-up connection to the live one."""
_SHORT_BYTES: Final = 64 * 1024
"""Unanswered pushes count as short while they have less than this together."""
_LAST_ID: Final = 0xFFFF_0000
_SOON_MS: Final = 200
_LATER_MS: Final = 1000
_RETRY_MS: Final = {PushError.UNKNOWN_PARTITION: _SOON_MS, PushError.NOT_READY: _SOON_MS}
"""Pauses after errors that end by themselves; after other errors the pause is _LATER_MS."""


class PushRefused(WireError):
    """A follower's answer that doesn't fit what was sent."""

    reason: ClassVar[str] = "bad_push_answer"


class _SentPush:
    """A push without an answer so far."""

    __slots__ = ("parts", "request_id", "sent_ms", "size")

    def __init__(
        self, request_id: int, size: int, sent_ms: int, parts: list[tuple[Progress, int, int]]
    ) -> None:
        self.request_id = request_id
        self.size = size
        self.sent_ms = sent_ms
        self.parts = parts
        """(place, the number before the stretch, its last number) of each entry."""


class ReplicationStream:
    """The leader's end of one connection to a follower.

    Invariant: `unanswered` holds requests in the order in which they left, and their sizes add up to
    `window_used`.
    """

    __slots__ = (
        "_allowance", "_far_bytes", "_next_id", "_pushed_bytes", "_rate", "_refilled_ms", "_short_pushes",
        "_window", "caught_up", "far_behind", "follower", "heartbeat_ms", "is_catch_up",
        "last_sent_ms", "news", "paused", "places", "unanswered", "unmarked", "version", "window_used",
    )  # fmt: skip

    def __init__(
        self,
        follower: int,
        *,
        now_ms: int,
        window_bytes: int,
        far_bytes: int,
        heartbeat_ms: int,
        bytes_per_s: int = 0,
        short_pushes: int = 2,
        pushed_bytes: list[int] | None = None,
        version: int = PUSH_VERSION,
    ) -> None:
        """far_bytes: a follower out of sync that is further behind moves to the catch-up connection.
        bytes_per_s: the rate of a catch-up connection; 0: this is a live one. short_pushes: the most
        unanswered pushes while they are short. pushed_bytes: counters of the bytes sent, for live and for
        catch-up connections. version: the format of pushes, by the feature level in force."""
        self.follower = follower
        self.is_catch_up = bytes_per_s > 0
        self.heartbeat_ms = heartbeat_ms
        self.places: dict[tuple[int, int], Progress] = {}
        """By topic id and partition."""
        self.news: dict[Progress, None] = {}
        """Partitions with something to send now, the longest waiting first."""
        self.unmarked: dict[Progress, None] = {}
        """Partitions whose high-water mark, or log start, moved since the last push that carried it."""
        self.paused: dict[Progress, None] = {}
        self.far_behind: dict[Progress, None] = {}
        """On a live connection: partitions to move to the catch-up connection."""
        self.caught_up: dict[Progress, None] = {}
        """On a catch-up connection: partitions to move to the live connection."""
        self.unanswered: deque[_SentPush] = deque()
        self.window_used = 0
        self.last_sent_ms = now_ms
        self._pushed_bytes = [0, 0] if pushed_bytes is None else pushed_bytes
        self._window = window_bytes
        self._far_bytes = far_bytes
        self._rate = bytes_per_s
        self._short_pushes = short_pushes
        self.version = version
        """The format of the next pushes."""
        self._allowance = bytes_per_s // 10
        self._refilled_ms = now_ms
        self._next_id = 1

    # --- partitions --------------------------------------------------------------------------------

    def add(self, source: Source, sent: int) -> Progress:
        """Pushes a partition on this connection from now on, beginning behind number `sent` if the follower's
        log agrees there."""
        place = Progress(source, sent, self._next_id)
        self.places[place.topic_id, place.number] = place
        self.news[place] = None
        return place

    def remove(self, place: Progress) -> None:
        """Stops pushing a partition here; answers under way count no more."""
        place.state = ProgressState.GONE
        self.places.pop((place.topic_id, place.number), None)
        for kept in (self.news, self.unmarked, self.paused, self.far_behind, self.caught_up):
            kept.pop(place, None)

    def appended(self, place: Progress) -> None:
        """Notes that the leader's log has grown."""
        if place.state is ProgressState.REPLICATE:
            self.news[place] = None

    def marked(self, place: Progress) -> None:
        """Notes that the high-water mark, or the log start, has moved. The next stretch carries it; without
        one, `beat` sends it."""
        self.unmarked[place] = None

    # --- sending -----------------------------------------------------------------------------------

    def beat(self, now_ms: int) -> None:
        """Call it some 20 times a second: queues marks that no stretch has carried, ends pauses, and refills
        the rate's allowance."""
        if self.unmarked:
            for place in self.unmarked:
                if place.state is ProgressState.REPLICATE and _has_unsaid(place):
                    self.news[place] = None
            self.unmarked.clear()
        for place in [place for place in self.paused if place.retry_ms <= now_ms]:
            del self.paused[place]
            place.state = ProgressState.PROBE
            place.sent = place.source.log_end
            self.news[place] = None
        for place in list(self.news):  # they wait because the window is full
            if place.state is ProgressState.REPLICATE:
                self._leave_if_far(place)
        if self._rate:
            refill = (now_ms - self._refilled_ms) * self._rate // 1000
            self._allowance = min(self._allowance + refill, max(self._rate // 10, STRETCH_BYTES))
            self._refilled_ms = now_ms

    def heartbeat(self, now_ms: int) -> list[Part]:
        """A frame without partitions, when nothing was sent for `heartbeat_ms`; else an empty list."""
        if self.unanswered or now_ms - self.last_sent_ms < self.heartbeat_ms:
            return []
        return self._finish(PushFrame(self.version), now_ms, [])

    def silent_since_ms(self) -> int | None:
        """When the oldest unanswered push was sent; None when all are answered."""
        return self.unanswered[0].sent_ms if self.unanswered else None

    @property
    def is_worn(self) -> bool:
        """Whether request ids are used up, so that a new connection is needed."""
        return self._next_id > _LAST_ID

    def next_frame(self, now_ms: int) -> list[Part]:
        """The next push. Empty when there is nothing to send, when the window or the rate is used up, or
        while enough short pushes are unanswered."""
        if not self.news or self.window_used >= self._window or (self._rate and self._allowance <= 0):
            return []
        if self.window_used < _SHORT_BYTES and len(self.unanswered) >= self._short_pushes:
            return []
        frame = PushFrame(self.version)
        parts: list[tuple[Progress, int, int]] = []
        again: list[Progress] = []
        while self.news and frame.size < FRAME_BYTES and len(parts) < FRAME_STRETCHES:
            place = next(iter(self.news))
            if parts and not frame.has_room(place.topic_name):
                break
            del self.news[place]
            before = place.sent
            log_end = self._add(frame, place, now_ms)
            if log_end >= 0:
                parts.append((place, before, place.sent))
                if place.state is ProgressState.REPLICATE and place.sent < log_end:
                    again.append(place)
        for place in again:
            self.news[place] = None
        if len(parts) > 1:  # a frame holds its stretches topic by topic, and answers come in this order
            topics = frame.topics
            parts.sort(key=lambda part: topics[part[0].topic_name])
        return self._finish(frame, now_ms, parts) if parts else []

    def _add(self, frame: PushFrame, place: Progress, now_ms: int) -> int:
        """Adds a partition's next stretch and returns where the leader's log ends; -1: there is nothing to
        send."""
        source = place.source
        piece, producers = None, b""
        start, log_start, end, mark = source.ends()
        if place.sent < start - 1:  # retention removed the next numbers: goes on at the log's start
            place.sent = start - 1
        try:
            if place.sent + 1 == start > 1:
                producers = source.producers_before(place.sent + 1)
            if place.sent < end:
                piece = source.read(place.sent + 1, max(min(STRETCH_BYTES, FRAME_BYTES - frame.size), 1))
        except StorageError:
            if place.state is not ProgressState.GONE:  # the leader may have stepped down
                self._pause(place, now_ms + _LATER_MS)
            return -1
        # A follower takes a mark only as far as it was sent, and a leader's log may end in numbers without a
        # batch.
        knows_mark = min(mark, place.sent) <= place.known_mark
        if place.sent + 1 < log_start:
            # Within the batch that follows: said when this batch is sent, because no log begins above its
            # first stretch.
            log_start = start
        knows_start = log_start <= place.known_start
        if piece is None and place.state is ProgressState.REPLICATE and knows_mark and knows_start:
            return -1
        previous_epoch = epoch_at(source.history, place.sent) if piece is None else piece.previous_epoch
        head = place.topic_id, place.leader_epoch, previous_epoch, mark, log_start
        frame.add(place.topic_name, place.number, place.sent + 1, head, piece, producers)
        if piece is not None:
            place.sent = piece.last
        place.known_mark = min(mark, place.sent)
        if not knows_start:
            place.known_start = log_start
            place.start_request_id = self._next_id
        place.unanswered += 1
        return end

    def _finish(self, frame: PushFrame, now_ms: int, parts: list[tuple[Progress, int, int]]) -> list[Part]:
        request_id = self._next_id
        self._next_id = request_id + 1
        self.unanswered.append(_SentPush(request_id, frame.size, now_ms, parts))
        self.window_used += frame.size
        self._allowance -= frame.size
        self._pushed_bytes[self.is_catch_up] += frame.size
        self.last_sent_ms = now_ms
        return frame.finish(request_id)

    # --- answers -----------------------------------------------------------------------------------

    def answered(self, answer: PushAnswer, now_ms: int) -> None:
        """Takes a follower's answer. Raises PushRefused when it doesn't fit what was sent."""
        if not answer.request_id:
            for told in answer.partitions:
                self._told(told, answer.covers, now_ms)
            return
        if not self.unanswered or self.unanswered[0].request_id != answer.request_id:
            raise PushRefused(f"an answer to push {answer.request_id}, which is not the next one")
        sent = self.unanswered.popleft()
        self.window_used -= sent.size
        if len(answer.partitions) != len(sent.parts):
            raise PushRefused(f"{len(answer.partitions)} answers to {len(sent.parts)} stretches")
        for told, (place, before, last) in zip(answer.partitions, sent.parts, strict=True):
            if told.topic_id != place.topic_id or told.partition != place.number:
                raise PushRefused("the answers are not in the order of the stretches")
            if place.state is ProgressState.GONE or sent.request_id < place.valid_from:
                continue
            place.unanswered -= 1
            if told.error:
                self._refused(place, told, before, now_ms)
            else:
                if place.has_start != place.known_start and sent.request_id >= place.start_request_id:
                    place.has_start = place.known_start
                    place.source.has_start(self.follower, place.has_start)
                self._matched(place, told, last)

    def _matched(self, place: Progress, told: PushedPartition, last: int) -> None:
        if told.matched != last or told.synced > last:
            raise PushRefused(f"matched {told.matched}, synced {told.synced}; the stretch ends at {last}")
        source = place.source
        place.matched = last
        source.matched(self.follower, last, told.synced)
        if place.state is ProgressState.GONE:  # `matched` may have ended the leadership
            return
        if place.state is ProgressState.PROBE:
            place.state = ProgressState.REPLICATE
        if self.is_catch_up:
            is_near = source.bytes_behind(place.sent) <= NEAR_BYTES
            if self._has_gone(place):  # the disk could not be read, and the leader stepped down
                return
            if is_near:
                place.state = ProgressState.LEAVING
        if place.state is ProgressState.LEAVING:
            self._left(place)
        elif place.sent < source.log_end:
            self.news[place] = None
        elif _has_unsaid(place):
            self.unmarked[place] = None

    def _has_gone(self, place: Progress) -> bool:
        """Whether the partition has left this connection: a method, so that mypy doesn't rule out the change
        after a call."""
        return place.state is ProgressState.GONE

    def _left(self, place: Progress) -> None:
        """Lets another connection take over once no stretch is under way here."""
        if not place.unanswered:
            (self.caught_up if self.is_catch_up else self.far_behind)[place] = None

    def _told(self, told: PushedPartition, covers: int, now_ms: int) -> None:
        """Takes a message that answers no push: an fsync of the follower has ended or failed."""
        place = self.places.get((told.topic_id, told.partition))
        if place is None or covers < place.valid_from or place.state is ProgressState.PAUSED:
            return
        if told.error:
            self._refused(place, told, place.sent, now_ms)
            return
        # The message may overtake the answer to a push; only that answer raises `place.matched`.
        matched = min(told.matched, place.matched)
        place.source.matched(self.follower, matched, min(told.synced, matched))

    def _refused(self, place: Progress, told: PushedPartition, before: int, now_ms: int) -> None:
        """Takes a follower's refusal of the stretch behind number `before`."""
        try:
            error = PushError(told.error)
        except ValueError:
            raise PushRefused(f"error {told.error:#x}, which is none") from None
        place.source.refused(self.follower, error, before)
        if place.state is ProgressState.GONE:  # the leader found its own bytes bad, and stepped down
            return
        place.matched = 0
        place.known_mark = -1
        place.known_start = place.has_start = 0
        place.valid_from = self._next_id
        place.unanswered = 0
        # A follower whose log is empty is filled only once it is surely out of the in-sync set. A proposal
        # under way may make it a member for what it had, and a half-filled log would then count as whole.
        is_lost = not told.log_end and place.source.counts_on(self.follower)
        if error is PushError.DISAGREES and not is_lost and self._go_back(place, before, told):
            return
        self._pause(place, now_ms + _RETRY_MS.get(error, _LATER_MS))

    def _go_back(self, place: Progress, before: int, told: PushedPartition) -> bool:
        """Goes on behind the last number at which both logs may agree; False when there is none left to
        try."""
        source = place.source
        history = source.history
        start, _, log_end, _ = source.ends()
        point, _ = last_common(history, log_end, told.log_end, told.epoch_at_log_end)
        if point >= before:
            # The answer names no number below the one just tried: tries the end of the leader's epoch before.
            first = [first for _, first in history if first <= before]
            point = first[-1] - 1 if first else 0
        lowest = start - 1
        if before <= lowest:
            return False
        place.sent = max(min(point, before - 1), lowest)
        place.state = ProgressState.PROBE
        self.news[place] = None
        self._leave_if_far(place)
        return True

    def _leave_if_far(self, place: Progress) -> None:
        """Moves a partition that is far behind from the live connection to the catch-up connection, so that
        the other partitions don't wait behind it."""
        source = place.source
        if self.is_catch_up or source.is_member(self.follower):
            return
        if source.bytes_behind(place.sent) > self._far_bytes:
            place.state = ProgressState.LEAVING
            self.news.pop(place, None)
            self._left(place)

    def _pause(self, place: Progress, retry_ms: int) -> None:
        place.state = ProgressState.PAUSED
        place.retry_ms = retry_ms
        self.paused[place] = None
        self.news.pop(place, None)

    def close(self) -> None:
        """Removes all partitions: the connection has ended."""
        for place in list(self.places.values()):
            self.remove(place)


def _has_unsaid(place: Progress) -> bool:
    """Whether the follower lacks the high-water mark or the log start, and can be told."""
    source = place.source
    return source.mark > place.known_mark or place.known_start < source.log_start <= place.sent + 1
