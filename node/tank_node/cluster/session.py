"""The node's side of its stream to the controller that leads: messages in, messages out, no I/O.

A shell (`channel`, the simulator, `tank serve`) opens the streams that `target` asks for and hands
their messages over. What was proposed and not answered is sent again on the next stream, in its order: every
command is idempotent. Committed positions alone are not (`pending.NOT_REPEATED`). A process has one
incarnation, so it keeps its epoch over all streams.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_node.clock import Clock
from tank_node.cluster.link import ReplicaEnd
from tank_node.cluster.pending import PENDING_MS, Pending, PendingRequests
from tank_node.cluster.requests import Answered, Proposed, RequestingLink
from tank_node.cluster.view import WholeState
from tank_node.limits import DAMAGED_NAMED
from tank_node.volume import Room
from tank_protos import feature_levels
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb

HEARTBEATS = 6
"""In one session timeout: some may be late."""
FIRST_TIMEOUT_MS = 3000
"""How long a controller may be silent before it has said how long it waits itself."""
SILENCES = 2
"""So often in a session timeout a controller would be given up for its silence: a broker whose controller is
gone has to be with the next leader before it counts as silent itself."""
HELD_UP_MS = 500
"""Between two ticks, it was this process that stood still: that time tells nothing of the controller."""
NAMED_AT_ONCE = 3
"""So many failures in a row are no reason to wait before a leader that was named: a broken stream, another
controller, one that has just fallen. Those behind are of controllers that name each other."""
STEADY_MS = 1000
"""A stream that breaks sooner is no accident of the network."""
BACKOFF_MS = 50
MAX_BACKOFF_MS = 1000

_ROOMS = {
    Room.UNSAID: pb.ROOM_UNSAID,
    Room.ENOUGH: pb.ROOM_ENOUGH,
    Room.NONE: pb.ROOM_NONE,
    Room.AGAIN: pb.ROOM_AGAIN,
}

_log = logging.getLogger("tank.controller")


class Line(Protocol):
    """A stream to one controller, as its shell has it."""

    def send(self, message: pb.BrokerUp) -> None:
        """Puts a message on its way, in order; must not wait."""

    def end(self) -> None:
        """Closes it; `closed` need not be called any more."""


@dataclass(slots=True)
class Registration:
    """What this process says of itself and of its data folder."""

    incarnation: bytes
    """Random, of this process; 16 bytes."""
    disk_uuid: bytes
    tail_sure: bool
    host: str
    port: int
    """Where other brokers reach the TANK port, and clients unless they come from outside."""
    rack: str = ""
    flush_replicated: bool = False
    """What topics that don't say have here."""
    damaged: Callable[[], Sequence[tuple[int, int]]] = tuple
    """(topic id, partition) of the replicas that are damaged now."""
    replicates: bool = True
    """It is registered fenced, and unfenced when the view has the registration. Not so a broker with its
    controller in one process: nobody could take over."""
    folder_epoch: Callable[[], int] = int
    """The broker epoch that the data folder knows now; 0: none. Asked at every registration: a process
    registers again as the same one after it has written its own."""
    levels: Levels = feature_levels.OWN
    """The feature levels that it knows."""
    endpoints: list[pb.Endpoint] = field(default_factory=list)
    """Further ones, such as that for metrics."""

    def message(self, broker_id: int) -> pb.RegisterBroker:
        """The command's fields."""
        own = pb.Endpoint(name="tank", host=self.host, port=self.port)
        damaged = self.damaged()
        all_damaged = len(damaged) > DAMAGED_NAMED
        named = () if all_damaged else damaged
        return pb.RegisterBroker(
            broker_id=broker_id,
            incarnation=self.incarnation,
            disk_uuid=self.disk_uuid,
            tail_sure=self.tail_sure,
            endpoints=[own, *self.endpoints],
            rack=self.rack,
            damaged=[pb.PartitionRef(topic_id=topic, partition=number) for topic, number in named],
            all_damaged=all_damaged,
            replicates=self.replicates,
            flush_replicated=self.flush_replicated,
            min_level=self.levels.lowest,
            max_level=self.levels.highest,
            folder_epoch=self.folder_epoch(),
        )


class ControllerSession(RequestingLink):
    """Implements `tank_node.cluster.link.ControllerLink`. All calls on the event loop's thread."""

    def __init__(
        self,
        cluster_id: str,
        broker_id: int,
        addresses: Sequence[str],
        registration: Registration,
        clock: Clock,
        random: Callable[[int], int],
    ) -> None:
        """`addresses`: host:port of the controllers, one at least."""
        super().__init__(cluster_id, broker_id, clock)
        self.registration = registration
        self.peer_key = b""
        self.demands_secret = False
        """The cluster demands its secret: no controller is spoken to any more that can't prove it."""
        self.refused: str | None = None
        """Why the controller will never take this broker: it has to end."""
        self.problem = ""
        """Why the controllers didn't take this broker, the last time that they said so; empty: they did."""
        self.may_stop = False
        """It was asked to be let go, and nobody needs it any more as a leader."""
        self._asks_to_stop_again = False
        self._addresses = list(addresses)
        self._random = random
        self._at = random(len(self._addresses))
        self._leader = ""
        """Who leads, as another controller said; tried once."""
        self._silent = "", 0
        """The controller that was given up for its silence, and until when it is not gone to: those that have
        not missed it yet name it, and its turn would come, too."""
        self._ticked_ms = clock.monotonic_ms()
        self._failures = 0
        self._retry_ms = 0
        self._taken_ms = 0
        """When a controller took this process on the present stream, or the last."""
        self._line: Line | None = None
        self._told_index = 0
        """The last entry that an outcome named. It is committed; the view needn't have heard of it."""
        self._wanted_index = 0
        """The view has to reach it before `broker_epoch` counts; 0: nothing is awaited."""
        self._wanted_epoch = 0
        self._serves = False
        self._timeout_ms = FIRST_TIMEOUT_MS
        self._heard_ms = 0
        self._said = 0, 0
        """The last `ViewUpdate.said_ms` of this stream, and when it came."""
        self._spoke_ms = 0
        self._led_ms = clock.monotonic_ms()
        """When a controller that leads was last heard, or this began."""
        self._parts: pb.Delta | None = None
        """Of a delta: what has come of it."""
        self._whole: WholeState | None = None
        """What has come of a whole state: each part is made as it comes, in a turn of its own."""
        self._pending = PendingRequests()
        self._room = Room.UNSAID
        self._ends: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]] = _nothing

    # --- the shell's side ---

    @property
    def addresses(self) -> Sequence[str]:
        """host:port of the controllers that it was told of."""
        return self._addresses

    def target(self) -> str | None:
        """The controller to open a stream to now; None: there is one, or it is too early."""
        if self._line is not None or self.refused or self._clock.monotonic_ms() < self._retry_ms:
            return None
        return self._tried

    def opened(self, line: Line) -> None:
        """A stream is there."""
        assert self._line is None
        self._line = line
        self._parts = self._whole = None
        self._said = 0, 0
        self._heard_ms = self._spoke_ms = self._clock.monotonic_ms()
        self._timeout_ms = FIRST_TIMEOUT_MS
        register = pb.BrokerRegister(
            broker=self.registration.message(self.view.broker_id),
            cluster_id=self.view.cluster_id,
            view_index=self.view.index,
        )
        line.send(pb.BrokerUp(register=register))

    def restart(self) -> None:
        """Registers anew, with what `registration` says now; the next stream may be opened at once."""
        line, self._line = self._line, None
        self._wanted_epoch = self._retry_ms = 0
        if line is not None:
            line.end()
        self._pending.line_ended()

    def closed(self, line: Line | None, why: str) -> None:
        """The stream broke, or could not be opened (None): the next one, after a while."""
        if line is not self._line:
            return
        self._line = None
        is_steady = self._wanted_epoch != 0 and self._clock.monotonic_ms() - self._taken_ms >= STEADY_MS
        self._go_to("", why, again=line is not None and is_steady)

    def received(self, line: Line, down: pb.BrokerDown) -> None:
        """A controller's message; one that comes by a stream which was given up is not heard."""
        if line is not self._line:
            return
        self._heard_ms = self._clock.monotonic_ms()
        match down.WhichOneof("message"):
            case "registered":
                self._on_registration(line, down.registered)
            case "view":
                self._on_view(line, down.view)
            case "outcome":
                self._told_index = max(self._told_index, down.outcome.index)
                self._pending.on_outcome(down.outcome)
            case "answer":
                self._pending.on_answer(down.answer)
            case "ask_ends":
                self._on_ask(line, down.ask_ends)
            case "may_stop":
                self.may_stop = True
            case "not_leader":
                self._give_up(line, down.not_leader.leader, "it doesn't lead")
            case "refused":
                if not down.refused.passing:
                    self.refused = down.refused.message
                self._tell_of(down.refused.message)
                self._give_up(line, "", down.refused.message)
        if self.connected:
            self._led_ms = self._heard_ms

    def _tell_of(self, why: str) -> None:
        """A refusal that will pass, when it is news: it is tried again and again."""
        if why != self.problem:
            self.problem = why
            _log.warning("the controllers don't take this broker now: %s", why)

    def tick(self) -> None:
        """Time passes: a few times in a second."""
        now_ms = self._clock.monotonic_ms()
        held_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        if held_ms > HELD_UP_MS:
            self._heard_ms += held_ms
        line = self._line
        if line is not None and now_ms - self._heard_ms > self._patience_ms:
            self._silent = self._tried, now_ms + self._timeout_ms
            self._give_up(line, "", "it is silent")
        elif line is not None and now_ms - self._spoke_ms >= self._timeout_ms // HEARTBEATS:
            self._beat(line)
        self._pending.tick(now_ms, self.silence_ms)
        if self._serves and self.connected:
            self._producer_ids.fill(now_ms)
        if self._asks_to_stop_again:
            self._asks_to_stop_again = False
            self.shut_down()

    @property
    def connected(self) -> bool:
        """Whether a controller has taken this process on the stream that is open."""
        return self._line is not None and self._wanted_epoch != 0

    @property
    def silence_ms(self) -> int:
        """As ControllerLink."""
        return self._clock.monotonic_ms() - self._led_ms

    @property
    def _patience_ms(self) -> int:
        return self._timeout_ms // SILENCES if self._wanted_epoch else self._timeout_ms

    @property
    def _tried(self) -> str:
        return self._leader or self._addresses[self._at]

    def _is_silent(self, address: str) -> bool:
        silent, until_ms = self._silent
        return address == silent and self._clock.monotonic_ms() < until_ms

    def _give_up(self, line: Line, leader: str, why: str) -> None:
        self._line = None
        line.end()
        self._go_to(leader, why)

    def _go_to(self, leader: str, why: str, *, again: bool = False) -> None:
        """Where to next, and when: at once to a leader that was named, else to the next in turn, later and
        later. again: at once to the same, which had taken this broker: the stream may have broken alone, and
        the controllers wait for a short while only before they fence it."""
        tried = self._tried
        self._parts = self._whole = None  # perhaps as large as the view; the next stream brings it anew
        if again:
            self._wanted_epoch = 0
            self._leader, self._retry_ms = tried, self._clock.monotonic_ms()
            self._pending.line_ended()
            _log.info("the line to controller %s broke: %s", tried, why)
            return
        self._wanted_epoch = 0
        self._failures += 1
        self._leader = "" if leader == tried or self._is_silent(leader) else leader
        wait_ms = 0
        if not self._leader or self._failures > NAMED_AT_ONCE:
            wait_ms = min(BACKOFF_MS << min(self._failures, 6), MAX_BACKOFF_MS)
            wait_ms = wait_ms // 2 + self._random(wait_ms // 2 + 1)
        if not self._leader:
            self._at = (self._at + 1) % len(self._addresses)
            if self._is_silent(self._addresses[self._at]):
                self._at = (self._at + 1) % len(self._addresses)
        self._retry_ms = self._clock.monotonic_ms() + wait_ms
        self._pending.line_ended()
        if self._failures in (1, 10) or self._failures % 100 == 0:
            _log.info("no line to controller %s: %s", tried, why)

    # --- what the controller says ---

    def _on_registration(self, line: Line, registered: pb.Registered) -> None:
        self._failures = 0
        self.problem = ""
        self._taken_ms = self._clock.monotonic_ms()
        self.peer_key = registered.peer_key
        self.demands_secret = self.demands_secret or registered.demands_secret
        self._timeout_ms = registered.session_timeout_ms or FIRST_TIMEOUT_MS
        self._wanted_epoch, self._wanted_index = registered.broker_epoch, registered.index
        for message in self._pending.again():
            line.send(message)
        self._take_epoch()

    def _on_view(self, line: Line, update: pb.ViewUpdate) -> None:
        if update.said_ms:
            self._said = update.said_ms, self._heard_ms
        if update.whole:
            whole = self._whole = self._whole or WholeState(self.view)
            whole.add(update.delta)
            if update.more:
                return
            self._whole = None
            if whole.index < self.view.index:
                self.refused = _rolled_back(whole.index, self.view.index)
                self._give_up(line, "", self.refused)
                return
            self._take_whole(whole)
            brokers = True
        else:
            delta = update.delta
            if self._parts is not None:
                self._parts.MergeFrom(delta)
                delta = self._parts
            self._parts = delta if update.more else None
            if update.more:
                return
            self._take_delta(delta)
            brokers = bool(delta.brokers or delta.removed_brokers)
        self._take_epoch()
        if brokers and self._line is not None:
            self._beat(self._line)  # a fenced broker is let in when it has seen that it is

    def _take_epoch(self) -> None:
        if self._wanted_epoch and self.view.index >= self._wanted_index:
            self._registered(self._wanted_epoch)

    def _on_ask(self, line: Line, asked: pb.AskEnds) -> None:
        ends = self._ends([(wanted.topic_id, wanted.partition) for wanted in asked.partitions])
        found = [
            pb.LogEnd(
                topic_id=e.topic_id,
                partition=e.partition,
                epoch_at_end=e.epoch_at_end,
                end=e.end,
                damaged=e.damaged,
            )
            for e in ends
        ]
        line.send(pb.BrokerUp(log_ends=pb.LogEnds(ends=found, question=asked.question)))

    def _beat(self, line: Line) -> None:
        self._spoke_ms = now_ms = self._clock.monotonic_ms()
        if self._wanted_epoch:
            said_ms, came_ms = self._said
            heartbeat = pb.BrokerHeartbeat(
                seen_index=self.view.index if self._serves else 0,
                wall_ms=self._clock.now_ms(),  # what messages are stamped with; read last, so never too early
                answers_ms=said_ms,
                held_ms=now_ms - came_ms if said_ms else 0,
                room=_ROOMS[self._room],
            )
            line.send(pb.BrokerUp(heartbeat=heartbeat))

    # --- what the node asks ---

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """As ControllerLink."""
        self._ends = answer

    def say_room(self, room: Room) -> None:
        """As ControllerLink."""
        self._room = room
        if self._line is not None:
            self._beat(self._line)

    def serve(self) -> None:
        """The node listens, and follows the view. Before that its heartbeats say that it has seen nothing, so
        that it stays fenced and is given nothing to lead."""
        self._serves = True
        if self._line is not None:
            self._beat(self._line)

    def shut_down(self) -> None:
        """Asks to be let go: leadership moves to others; `may_stop` says when it has."""
        stop = pb.SetBroker(broker_id=self.view.broker_id, epoch=self.broker_epoch, shutting_down=True)
        self._propose(self._dated(pb.Command(set_broker=stop)), self._on_stop_outcome)

    def _on_stop_outcome(self, outcome: pb.ProposalOutcome) -> None:
        """The view shows what came of it; a leader without room, say, has not taken it, the next one may."""
        self._asks_to_stop_again = outcome.error != 0

    def _propose(
        self, command: pb.Command, done: Proposed, *, validate_only: bool = False, of_client: bool = False
    ) -> None:
        seen_index = max(self.view.index, self._told_index)  # now, before others can be answered later
        proposal = pb.BrokerProposal(command=command, validate_only=validate_only, seen_index=seen_index)
        self._ask(pb.BrokerUp(proposal=proposal), proposed=done, of_client=of_client)

    def _query(self, query: pb.BrokerQuery, done: Answered, *, of_client: bool = False) -> None:
        self._ask(pb.BrokerUp(query=query), answered=done, of_client=of_client)

    def _ask(
        self,
        message: pb.BrokerUp,
        proposed: Proposed | None = None,
        answered: Answered | None = None,
        *,
        of_client: bool,
    ) -> None:
        deadline_ms = self._clock.monotonic_ms() + PENDING_MS
        pending = Pending(message, deadline_ms, proposed, answered, of_client)
        line = self._line if self._wanted_epoch else None
        taken = self._pending.take(pending, connected=line is not None, silence_ms=self.silence_ms)
        if taken and line is not None:
            line.send(message)


def _rolled_back(theirs: int, own: int) -> str:
    """What is committed is never taken back, but by hands: this view and theirs are of two histories."""
    return (
        f"the controllers' metadata ends at entry {theirs}, and this broker has seen entry {own}: was their "
        "folder put back from a backup? What was decided since then is lost, and messages may be; start the "
        "broker again to go on with what they have now"
    )


def _nothing(asked: Sequence[tuple[int, int]]) -> Sequence[ReplicaEnd]:
    """Before anybody knows of logs."""
    return ()
