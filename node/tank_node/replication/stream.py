"""What to send next to one follower, and what its answers mean: one connection of a leader. Pure.

Many partitions share the connection (see docs/protocol/peers.md). Each has a place in it: how far it was
sent, and how far the follower matches. A place begins with one stretch that asks whether the follower agrees;
when it does, stretches follow one another without waiting, as far as the window reaches.
"""

from collections import deque
from typing import ClassVar, Final

from tank_node.log.epoch_history import epoch_at, last_common
from tank_node.log.errors import StorageError
from tank_node.replication.progress import Place, PlaceState, Source
from tank_node.replication.push_frame import Part, PushFrame
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import PushAnswer, PushedPartition
from tank_protos.storage.stretch import PUSH_VERSION, PUSH_WITH_PRODUCERS
from tank_protos.wire.errors import WireError

FRAME_BYTES: Final = 440 * 1024
"""A frame is filled up to here: the follower receives it in one go (`Limits.peer_receive_bytes`, with the
records of the last stretch). One batch may be longer."""
STRETCH_BYTES: Final = 432 * 1024
"""Of one partition in a frame. Taking a stretch costs a follower some 45 µs, however short, and 4.5 for each
10 KB; longer ones leave the processor's own cache between the receive and the write."""
FRAME_STRETCHES: Final = 1024
"""Empty ones are some 60 bytes: without this a follower of 10,000 partitions would answer 7,000 of them, for
a third of a second, in one turn of its loop."""
NEAR_BYTES: Final = 512 * 1024
"""A follower that is so little behind goes over from catching up to live pushes."""
_SHORT_BYTES: Final = 64 * 1024
"""Pushes are short that have less altogether."""
_LAST_ID: Final = 0xFFFF_0000
_SOON_MS: Final = 200
_LATER_MS: Final = 1000
_RETRY_MS: Final = {PushError.UNKNOWN_PARTITION: _SOON_MS, PushError.NOT_READY: _SOON_MS}
"""After these, which end by themselves, a follower is asked again sooner than after the others."""


class PushRefused(WireError):
    """A follower's answer that fits nothing that it was sent."""

    reason: ClassVar[str] = "bad_push_answer"


class _Sent:
    """A push whose answer has not come."""

    __slots__ = ("parts", "request_id", "sent_ms", "size")

    def __init__(self, request_id: int, size: int, sent_ms: int, parts: list[tuple[Place, int, int]]) -> None:
        self.request_id = request_id
        self.size = size
        self.sent_ms = sent_ms
        self.parts = parts
        """(place, the number before the stretch, its last number) of each entry."""


class PushLine:
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
        """far_bytes: from here on a follower that is no member catches up elsewhere. bytes_per_s: of a
        connection for catching up, how much it may take; 0: it is a live one. short_pushes: how many may be
        unanswered while they are short. pushed_bytes: where what was sent is counted, by live connections
        and by those for catching up. version: of the pushes, by the feature level in force."""
        self.follower = follower
        self.is_catch_up = bytes_per_s > 0
        self.heartbeat_ms = heartbeat_ms
        self.places: dict[tuple[int, int], Place] = {}
        """By topic id and partition."""
        self.news: dict[Place, None] = {}
        """Those that have something to send now, the longest waiting first."""
        self.unmarked: dict[Place, None] = {}
        """Those whose mark moved since it was told."""
        self.paused: dict[Place, None] = {}
        self.far_behind: dict[Place, None] = {}
        """On a live connection: those that are to go on where nobody queues behind them."""
        self.caught_up: dict[Place, None] = {}
        """On a connection for catching up: those that have nearly done so."""
        self.unanswered: deque[_Sent] = deque()
        self.window_used = 0
        self.last_sent_ms = now_ms
        self._pushed_bytes = [0, 0] if pushed_bytes is None else pushed_bytes
        self._window = window_bytes
        self._far_bytes = far_bytes
        self._rate = bytes_per_s
        self._short_pushes = short_pushes
        self.version = version
        """Of the next pushes."""
        self._allowance = bytes_per_s // 10
        self._refilled_ms = now_ms
        self._next_id = 1

    # --- partitions --------------------------------------------------------------------------------

    def add(self, source: Source, sent: int) -> Place:
        """Pushes a partition here from now on, behind number `sent` if the follower agrees there."""
        place = Place(source, sent, self._next_id)
        self.places[source.topic_id, source.number] = place
        self.news[place] = None
        return place

    def remove(self, place: Place) -> None:
        """Pushes it no more; answers that are under way count no more."""
        place.state = PlaceState.GONE
        self.places.pop((place.source.topic_id, place.source.number), None)
        for kept in (self.news, self.unmarked, self.paused, self.far_behind, self.caught_up):
            kept.pop(place, None)

    def appended(self, place: Place) -> None:
        """The leader's log has grown."""
        if place.state is PlaceState.STREAMING:
            self.news[place] = None

    def marked(self, place: Place) -> None:
        """The high-water mark has moved: whatever is sent next carries it, and if nothing is, `beat` does."""
        self.unmarked[place] = None

    # --- sending -----------------------------------------------------------------------------------

    def beat(self, now_ms: int) -> None:
        """Some 20 times a second: marks that were not told, followers to be asked again, the throttle."""
        if self.unmarked:
            for place in self.unmarked:
                if place.state is PlaceState.STREAMING and place.source.mark > place.known_mark:
                    self.news[place] = None
            self.unmarked.clear()
        for place in [place for place in self.paused if place.retry_ms <= now_ms]:
            del self.paused[place]
            place.state = PlaceState.ASKING
            place.sent = place.source.log_end
            self.news[place] = None
        for place in list(self.news):  # what there was no room for
            if place.state is PlaceState.STREAMING:
                self._leave_if_far(place)
        if self._rate:
            refill = (now_ms - self._refilled_ms) * self._rate // 1000
            self._allowance = min(self._allowance + refill, max(self._rate // 10, STRETCH_BYTES))
            self._refilled_ms = now_ms

    def heartbeat(self, now_ms: int) -> list[Part]:
        """A frame that names no partition, when nothing was sent for long; else nothing."""
        if self.unanswered or now_ms - self.last_sent_ms < self.heartbeat_ms:
            return []
        return self._finish(PushFrame(self.version), now_ms, [])

    def silent_since_ms(self) -> int | None:
        """When what the follower has not answered was sent; None: it has answered everything."""
        return self.unanswered[0].sent_ms if self.unanswered else None

    @property
    def is_worn(self) -> bool:
        """Whether the numbers of its pushes are used up: a new connection begins anew."""
        return self._next_id > _LAST_ID

    def next_frame(self, now_ms: int) -> list[Part]:
        """The next push; empty when there is nothing to send, no room for it, or when it is worth waiting."""
        if not self.news or self.window_used >= self._window or (self._rate and self._allowance <= 0):
            return []
        if self.window_used < _SHORT_BYTES and len(self.unanswered) >= self._short_pushes:
            return []
        frame = PushFrame(self.version)
        parts: list[tuple[Place, int, int]] = []
        again: list[Place] = []
        while self.news and frame.size < FRAME_BYTES and len(parts) < FRAME_STRETCHES:
            place = next(iter(self.news))
            if not frame.has_room(place.source.topic_name):
                break
            del self.news[place]
            before = place.sent
            if self._add(frame, place, now_ms):
                parts.append((place, before, place.sent))
                if place.state is PlaceState.STREAMING and place.sent < place.source.log_end:
                    again.append(place)
        for place in again:
            self.news[place] = None
        if len(parts) > 1:  # a frame has its stretches topic by topic, and they are answered in its order
            topics = frame.topics
            parts.sort(key=lambda part: topics[part[0].source.topic_name])
        return self._finish(frame, now_ms, parts) if parts else []

    def _add(self, frame: PushFrame, place: Place, now_ms: int) -> bool:
        """Adds what a place has to say; False when that is nothing."""
        source = place.source
        piece, producers = None, b""
        if place.sent < source.log_start - 1:  # retention took what comes next: it begins anew behind that
            place.sent = source.log_start - 1
        try:
            if place.sent + 1 == source.log_start > 1 and self.version >= PUSH_WITH_PRODUCERS:
                producers = source.producers_before(place.sent + 1)
            if place.sent < source.log_end:
                piece = source.read(place.sent + 1, max(min(STRETCH_BYTES, FRAME_BYTES - frame.size), 1))
        except StorageError:
            if place.state is not PlaceState.GONE:  # the leader may have stepped down
                self._pause(place, now_ms + _LATER_MS)
            return False
        mark = source.mark
        # It takes none past what it has, and the leader's log may end in numbers that no batch has.
        knows_mark = min(mark, place.sent) <= place.known_mark
        if piece is None and place.state is PlaceState.STREAMING and knows_mark:
            return False
        previous_epoch = epoch_at(source.history, place.sent) if piece is None else piece.previous_epoch
        head = source.topic_id, source.leader_epoch, previous_epoch, mark, source.log_start
        frame.add(source.topic_name, source.number, place.sent + 1, head, piece, producers)
        if piece is not None:
            place.sent = piece.last
        place.known_mark = min(mark, place.sent)
        place.unanswered += 1
        return True

    def _finish(self, frame: PushFrame, now_ms: int, parts: list[tuple[Place, int, int]]) -> list[Part]:
        request_id = self._next_id
        self._next_id = request_id + 1
        self.unanswered.append(_Sent(request_id, frame.size, now_ms, parts))
        self.window_used += frame.size
        self._allowance -= frame.size
        self._pushed_bytes[self.is_catch_up] += frame.size
        self.last_sent_ms = now_ms
        return frame.finish(request_id)

    # --- answers -----------------------------------------------------------------------------------

    def answered(self, answer: PushAnswer, now_ms: int) -> None:
        """Takes what the follower says. Raises PushRefused when that fits nothing that it was sent."""
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
            source = place.source
            if (told.topic_id, told.partition) != (source.topic_id, source.number):
                raise PushRefused("the answers are not in the order of the stretches")
            if place.state is PlaceState.GONE or sent.request_id < place.valid_from:
                continue
            place.unanswered -= 1
            if told.error:
                self._refused(place, told, before, now_ms)
            else:
                self._matched(place, told, last)

    def _matched(self, place: Place, told: PushedPartition, last: int) -> None:
        if told.matched != last or told.synced > last:
            raise PushRefused(f"matched {told.matched}, synced {told.synced}; the stretch ends at {last}")
        source = place.source
        place.matched = last
        source.matched(self.follower, last, told.synced)
        if place.state is PlaceState.GONE:  # what follows from it may have ended the leadership
            return
        if place.state is PlaceState.ASKING:
            place.state = PlaceState.STREAMING
        if self.is_catch_up and source.bytes_behind(place.sent) <= NEAR_BYTES:
            place.state = PlaceState.LEAVING
        if place.state is PlaceState.LEAVING:
            self._left(place)
        elif place.sent < source.log_end:
            self.news[place] = None
        elif source.mark > place.known_mark:
            self.unmarked[place] = None

    def _left(self, place: Place) -> None:
        """Whether another connection may take over: nothing is under way here."""
        if not place.unanswered:
            (self.caught_up if self.is_catch_up else self.far_behind)[place] = None

    def _told(self, told: PushedPartition, covers: int, now_ms: int) -> None:
        """What nobody asked for: an fsync has ended, or failed."""
        place = self.places.get((told.topic_id, told.partition))
        if place is None or covers < place.valid_from or place.state is PlaceState.PAUSED:
            return
        if told.error:
            self._refused(place, told, place.sent, now_ms)
            return
        # It may come before the answer that says what is matched; and what that says is all that counts.
        matched = min(told.matched, place.matched)
        place.source.matched(self.follower, matched, min(told.synced, matched))

    def _refused(self, place: Place, told: PushedPartition, before: int, now_ms: int) -> None:
        """The follower did not take the stretch behind number `before`."""
        try:
            error = PushError(told.error)
        except ValueError:
            raise PushRefused(f"error {told.error:#x}, which is none") from None
        place.source.refused(self.follower, error, before)
        if place.state is PlaceState.GONE:  # the leader has found its own bytes bad, and leads no more
            return
        place.matched = 0
        place.known_mark = -1
        place.valid_from = self._next_id
        place.unanswered = 0
        # One that has lost everything is filled anew once it is surely out of the in-sync set: a proposal
        # that is under way may take it in for what it had, and copied by half it would count as whole.
        is_lost = not told.log_end and place.source.counts_on(self.follower)
        if error is PushError.DISAGREES and not is_lost and self._go_back(place, before, told):
            return
        self._pause(place, now_ms + _RETRY_MS.get(error, _LATER_MS))

    def _go_back(self, place: Place, before: int, told: PushedPartition) -> bool:
        """Goes on behind the last point at which both may agree; False when there is none left to try."""
        source = place.source
        history = source.history
        point, _ = last_common(history, source.log_end, told.log_end, told.epoch_at_log_end)
        if point >= before:
            # It disagrees with itself, or answers with its end alone: one epoch of ours further down.
            first = [first for _, first in history if first <= before]
            point = first[-1] - 1 if first else 0
        lowest = source.log_start - 1
        if before <= lowest:
            return False
        place.sent = max(min(point, before - 1), lowest)
        place.state = PlaceState.ASKING
        self.news[place] = None
        self._leave_if_far(place)
        return True

    def _leave_if_far(self, place: Place) -> None:
        """On a live connection nobody is to queue behind a follower that has much to catch up on."""
        source = place.source
        if self.is_catch_up or source.is_member(self.follower):
            return
        if source.bytes_behind(place.sent) > self._far_bytes:
            place.state = PlaceState.LEAVING
            self.news.pop(place, None)
            self._left(place)

    def _pause(self, place: Place, retry_ms: int) -> None:
        place.state = PlaceState.PAUSED
        place.retry_ms = retry_ms
        self.paused[place] = None
        self.news.pop(place, None)

    def close(self) -> None:
        """The connection has ended: nothing that it carried counts any more."""
        for place in list(self.places.values()):
            self.remove(place)
