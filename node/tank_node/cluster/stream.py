"""The broker's side of its stream to the controller that leads: messages in, messages out, no I/O.

A shell (`channel`, the simulator, `tank serve`) opens a stream to the controller that `target` returns, and
passes messages in both directions. A process registers on each stream with the same incarnation, so it keeps
its broker epoch.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tank_node.clock import Clock
from tank_node.cluster.controller_choice import ControllerChoice
from tank_node.cluster.heartbeats import FIRST_TIMEOUT_MS, Heartbeats
from tank_node.cluster.link import ReplicaEnd
from tank_node.cluster.pending import PendingRequests
from tank_node.cluster.registration import Registration
from tank_node.cluster.requests import ControllerRequests
from tank_node.cluster.view import ClusterView, TopicChange
from tank_node.cluster.view_updates import MetadataWentBack, Update, ViewUpdates
from tank_node.volume import Room
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb

STEADY_MS = 1000
"""A stream that broke sooner is opened to another controller: the network is hardly the reason."""

_log = logging.getLogger("tank.controller")


class ControllerLine(Protocol):
    """An open stream to one controller, which the shell implements."""

    def send(self, message: pb.BrokerUp) -> None:
        """Sends a message after those before it; must not block."""

    def end(self) -> None:
        """Closes the stream; the shell need not call `ControllerStream.closed` for it."""


@dataclass(slots=True, frozen=True)
class Taken:
    """A controller's acceptance of this process, on the open stream."""

    epoch: int
    index: int
    """The log index of the registration: the epoch counts when the view has reached it."""
    since_ms: int


class ControllerStream:
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
        self.view = ClusterView(cluster_id, broker_id)
        self.broker_epoch = 0
        self.peer_key = b""
        self.registration = registration
        self.demands_secret = False
        """Whether the cluster demands its secret: then controllers have to prove that they know it, too."""
        self.refused: str | None = None
        """Why the controllers will never accept this process, which has to end; None: they may."""
        self.problem = ""
        """The reason of the last refusal of this broker; empty since it was accepted."""
        self.may_stop = False
        """The controllers allow this broker to stop: it leads nothing any more."""
        self.updates = ViewUpdates(self.view)
        self._heartbeats = Heartbeats(clock)
        self._pending = PendingRequests(self.view, clock, lambda: self._heartbeats.leader_silence_ms)
        self.requests = ControllerRequests(self.view, self._pending)
        self._clock = clock
        self._choice = ControllerChoice(addresses, random)
        self._line: ControllerLine | None = None
        self._taken: Taken | None = None
        """None: no controller has accepted this process on the open stream yet."""
        self._asks_to_stop_again = False
        self._ends: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]] = _nothing
        self._names: Callable[[], Sequence[str] | None] = _no_names
        self._on_registered: list[Callable[[], None]] = []

    # --- the shell's side ---

    @property
    def addresses(self) -> Sequence[str]:
        """host:port of the controllers, as given at the start."""
        return self._choice.addresses

    def target(self) -> str | None:
        """The address to open a stream to now; None: a stream is open, the next attempt isn't due yet, or
        this process is refused."""
        if self._line is not None or self.refused or not self._choice.is_due(self._clock.monotonic_ms()):
            return None
        return self._choice.address

    def opened(self, line: ControllerLine) -> None:
        """Registers this broker on the stream that the shell has opened."""
        assert self._line is None
        self._line = line
        self._heartbeats.opened()
        register = pb.BrokerRegister(
            broker=self.registration.message(self.view.broker_id),
            cluster_id=self.view.cluster_id,
            view_index=self.view.index,
        )
        line.send(pb.BrokerUp(register=register))

    def restart(self) -> None:
        """Ends the stream, so that this broker registers again with the present `registration`; the next
        stream may be opened at once."""
        self._choice.retry_now()
        if self._line is not None:
            self._end(self._line)
        self._line_ended()

    def closed(self, line: ControllerLine | None, why: str) -> None:
        """Chooses the next controller, because the stream broke, or could not be opened (`line` is None)."""
        if line is not self._line:
            return
        self._line = None
        taken = None if line is None else self._taken
        if taken is not None and self._clock.monotonic_ms() - taken.since_ms >= STEADY_MS:
            self._stay(why)
        else:
            self._go_on("", why)

    def received(self, line: ControllerLine, down: pb.BrokerDown) -> None:
        """Takes a controller's message. A message of a stream that was given up is dropped."""
        if line is not self._line:
            return
        self._heartbeats.heard()
        match down.WhichOneof("message"):
            case "registered":
                self._on_registration(line, down.registered)
            case "view":
                self._on_view(line, down.view)
            case "outcome":
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
                self._note_refusal(down.refused.message)
                self._give_up(line, "", down.refused.message)
        if self.connected:
            self._heartbeats.heard_leader()

    def tick(self) -> None:
        """Sends heartbeats and notices silence. Called several times a second."""
        heartbeats, line = self._heartbeats, self._line
        heartbeats.tick()
        now_ms = self._clock.monotonic_ms()
        if line is not None and heartbeats.is_silent(taken=self._taken is not None):
            self._choice.fell_silent(now_ms + heartbeats.timeout_ms)
            self._give_up(line, "", "it is silent")
        elif line is not None and heartbeats.is_due:
            self._beat()
        self._pending.tick()
        if heartbeats.serves and self.connected:
            self.requests.producer_ids.fill(now_ms)
        if self._asks_to_stop_again:
            self._asks_to_stop_again = False
            self.shut_down()

    @property
    def connected(self) -> bool:
        """Whether a controller has accepted this process on the open stream."""
        return self._line is not None and self._taken is not None

    @property
    def silence_ms(self) -> int:
        """As ControllerLink."""
        return self._heartbeats.leader_silence_ms

    # --- from one controller to the next ---

    def _note_refusal(self, why: str) -> None:
        """Logs a refusal, unless its reason is the last one's: the registration is tried again and again."""
        if why != self.problem:
            self.problem = why
            _log.warning("the controllers refuse this broker now: %s", why)

    def _give_up(self, line: ControllerLine, leader: str, why: str) -> None:
        self._end(line)
        self._go_on(leader, why)

    def _end(self, line: ControllerLine) -> None:
        """Ends the stream from this side. Requests that are asked meanwhile wait for the next one."""
        self._line = None
        self._pending.stop_sending()
        line.end()

    def _stay(self, why: str) -> None:
        """Tries the same controller again, at once: perhaps only the stream broke, and the controllers soon
        fence a broker without one."""
        self._choice.stay(self._clock.monotonic_ms())
        self._line_ended()
        _log.info("the connection to controller %s broke: %s", self._choice.address, why)

    def _go_on(self, leader: str, why: str) -> None:
        """Chooses the leader that was named, else the next controller."""
        tried = self._choice.address
        self._choice.go_on(leader, self._clock.monotonic_ms())
        self._line_ended()
        failures = self._choice.failures
        if failures in (1, 10) or failures % 100 == 0:
            _log.info("no connection to controller %s: %s", tried, why)

    def _line_ended(self) -> None:
        self._taken = None
        self.updates.drop_parts()
        self._pending.line_ended()

    # --- the controller's messages ---

    def _on_registration(self, line: ControllerLine, registered: pb.Registered) -> None:
        self._choice.was_taken()
        self.problem = ""
        self.peer_key = registered.peer_key
        self.demands_secret = self.demands_secret or registered.demands_secret
        self._heartbeats.timeout_ms = registered.session_timeout_ms or FIRST_TIMEOUT_MS
        self._taken = Taken(registered.broker_epoch, registered.index, self._clock.monotonic_ms())
        self._pending.line_taken(line.send)
        self._take_epoch()

    def _on_view(self, line: ControllerLine, update: pb.ViewUpdate) -> None:
        self._heartbeats.answers(update.said_ms)
        try:
            taken = self.updates.take(update)
        except MetadataWentBack as error:
            self.refused = str(error)
            self._give_up(line, "", self.refused)
            return
        if taken is Update.INCOMPLETE:
            return
        self._take_epoch()
        self._pending.view_moved()
        if taken is Update.BROKERS_CHANGED:
            self._beat()  # the controllers unfence a broker whose heartbeat shows that its view is current

    def _take_epoch(self) -> None:
        """Takes the broker epoch over, once the view has reached the registration."""
        taken = self._taken
        if taken is not None and self.view.index >= taken.index and taken.epoch != self.broker_epoch:
            self.broker_epoch = self.requests.broker_epoch = taken.epoch
            for listener in self._on_registered:
                listener()

    def _on_ask(self, line: ControllerLine, asked: pb.AskEnds) -> None:
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

    def _beat(self) -> None:
        """Sends a heartbeat, if a controller has accepted this broker."""
        if self._line is None or self._taken is None:
            return
        heartbeat = self._heartbeats.next(self.view.index)
        if self.view.feature_level < feature_levels.IGGY and (names := self._names()) is not None:
            heartbeat.names_held.CopyFrom(pb.NamesHeld(groups=names))
        self._line.send(pb.BrokerUp(heartbeat=heartbeat))

    # --- the broker's side ---

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        """As ControllerLink."""
        self.updates.on_change.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """As ControllerLink."""
        self.updates.on_brokers.append(listener)

    def on_registered(self, listener: Callable[[], None]) -> None:
        """As ControllerLink."""
        self._on_registered.append(listener)
        if self.broker_epoch:
            listener()

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """As ControllerLink."""
        self._ends = answer

    def on_names_asked(self, answer: Callable[[], Sequence[str] | None]) -> None:
        """As ControllerLink."""
        self._names = answer

    def say_room(self, room: Room) -> None:
        """As ControllerLink."""
        self._heartbeats.room = room
        self._beat()

    def hold_back(self, *, on: bool) -> None:
        """As ControllerLink."""
        if self._heartbeats.held_back != on:
            self._heartbeats.held_back = on
            self._beat()

    def serve(self) -> None:
        """Notes that the broker listens and follows the view: from now on its heartbeats carry the view's
        index."""
        self._heartbeats.serves = True
        self._beat()

    def shut_down(self) -> None:
        """Asks the controllers to move leadership to other brokers; `may_stop` is set when that is done."""
        self.requests.shut_down(self._on_stop_outcome)

    def _on_stop_outcome(self, outcome: pb.ProposalOutcome) -> None:
        """Asks again after an error: a controller without room on its disk, for example, refuses the command,
        and the next leader may accept it."""
        self._asks_to_stop_again = outcome.error != 0


def _no_names() -> Sequence[str] | None:
    """The broker coordinates no group yet."""
    return None


def _nothing(asked: Sequence[tuple[int, int]]) -> Sequence[ReplicaEnd]:
    """Answers for no replica: the broker has not opened its logs yet."""
    return ()
