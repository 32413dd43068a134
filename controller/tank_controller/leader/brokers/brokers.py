"""Brokers' streams at one controller: each message goes to the part that handles its subject. No I/O.

Every controller has one. While it doesn't lead, it names the leader to brokers. When its leadership ends, all
streams end, and messages that are unread in them are dropped: a broker sends each request without an answer
again, to the next leader.
"""

from collections.abc import Callable

from tank_controller.leader.brokers.deltas import BrokerViews
from tank_controller.leader.brokers.registration import BrokerRegistration
from tank_controller.leader.brokers.requests import BrokerRequests
from tank_controller.leader.brokers.streams import BrokerLine, Stream
from tank_controller.leader.brokers.waiting_streams import WaitingStreams
from tank_controller.leader.leadership import ControllerLeadership
from tank_controller.leader.log_ends import LogEndQuery
from tank_controller.leader.tasks import LeaderTasks
from tank_protos.generated import control_pb2 as pb


class BrokerStreams:
    """One controller's streams. All calls on the driver's thread."""

    def __init__(
        self, cluster_id: str, leadership: ControllerLeadership, leader_address: Callable[[], str]
    ) -> None:
        """`leader_address`: host:port of the leading controller; empty where none is known."""
        self.streams: dict[int, Stream] = {}
        """By broker id: the newest of each broker that is registered, or about to be."""
        self.leadership = leadership
        self._leader_address = leader_address
        self._clock = leadership.clock
        self._metadata = leadership.proposals.metadata
        self._views = BrokerViews(self._metadata, self.streams)
        self._requests = BrokerRequests(leadership.proposals, self._send_alive, self._send_away)
        self._registration = BrokerRegistration(
            cluster_id, leadership, self.streams, self._views, self._send_away
        )
        self._waiting = WaitingStreams(leadership.proposals.driver)
        leadership.on_end = self._send_all_away
        self._metadata.on_delta = self._on_delta
        self._metadata.on_restored = self._on_restored

    def tick(self) -> None:
        """Notices a change of leadership, and does all that is due at the leader."""
        late_ms = self.leadership.measure_tick()
        term = self.leadership.look()
        for stream, up in self._waiting.release(leads=term is not None):
            self.received(stream, up)
        for stream in self._waiting.too_long():
            self._send_away(stream)
        if term is None:
            return
        self._views.go_on()
        for query in self.leadership.tick(term, self.streams, late_ms):
            self._send_query(query)

    @property
    def leads(self) -> bool:
        """Whether this controller leads, and so answers brokers and operators."""
        return self.leadership.look() is not None

    @property
    def tasks(self) -> LeaderTasks | None:
        """The leader's tasks; None while this controller doesn't lead."""
        term = self.leadership.term
        return None if term is None else term.tasks

    def not_leader(self) -> pb.NotLeader:
        """The answer of a controller that doesn't lead: the leader's address."""
        return pb.NotLeader(leader=self._leader_address())

    def opened(self, line: BrokerLine) -> Stream:
        """A new stream; `received` and `closed` take it."""
        return Stream(line)

    def received(self, stream: Stream, up: pb.BrokerUp) -> None:
        """Handles a broker's message. A message that makes no sense is refused or ignored."""
        if not stream.open:
            return
        now_ms = self._clock.monotonic_ms()
        term = self.leadership.look()
        if term is None:
            if not self._waiting.take(stream, up):
                self._send_away(stream)
            return
        kind = up.WhichOneof("message")
        if kind == "register":
            self._registration.register(term, stream, up.register)
        elif stream.epoch == 0:
            return  # before its registration is committed no message of the broker counts
        elif kind == "heartbeat":
            term.liveness.heard(stream.broker_id, stream.epoch, up.heartbeat.seen_index, now_ms)
            self.leadership.parts.clocks.heard(stream.broker_id, up.heartbeat, now_ms)
            self.leadership.parts.volumes.heard(stream.broker_id, stream.epoch, up.heartbeat)
            self.leadership.parts.raising.held.heard(stream.broker_id, stream.epoch, up.heartbeat)
            self._send_alive(stream)
            self._let_stop(stream)  # MayStop may have been lost with an earlier stream or leader
        elif kind == "proposal":
            self._requests.propose(term, stream, up.proposal)
        elif kind == "query":
            self._requests.query(stream, up.query)
        elif kind == "log_ends":
            term.tasks.ends(stream.broker_id, stream.epoch, up.log_ends, now_ms)

    def closed(self, stream: Stream) -> None:
        """The stream broke, or the broker ended it."""
        was_open, stream.open, stream.follows = stream.open, False, False
        self._waiting.forget(stream)
        if self.streams.get(stream.broker_id) is not stream:
            return
        del self.streams[stream.broker_id]
        if was_open:
            self._registration.broken(stream)

    def _send_alive(self, stream: Stream) -> None:
        stream.send(pb.BrokerDown(view=self._views.alive(stream, self._clock.monotonic_ms())))

    def _send_away(self, stream: Stream) -> None:
        stream.end(pb.BrokerDown(not_leader=self.not_leader()))

    def _send_all_away(self) -> None:
        for stream in list(self.streams.values()):
            self._send_away(stream)
        self.streams.clear()
        self._views.forget_streams()

    def _send_query(self, query: LogEndQuery) -> None:
        stream = self.streams.get(query.broker_id)
        if stream is not None and stream.epoch == query.broker_epoch:
            ends = [pb.LogEnd(topic_id=topic_id, partition=number) for topic_id, number in query.partitions]
            stream.send(pb.BrokerDown(ask_ends=pb.AskEnds(question=query.question, partitions=ends)))

    def _let_stop(self, stream: Stream) -> None:
        """Sends MayStop to a broker that shuts down, once no other broker could lead in its place."""
        broker = self._metadata.state.brokers.get(stream.broker_id)
        tasks = self.tasks
        if broker is None or tasks is None or not broker.shutting_down or stream.asked_to_stop:
            return
        if tasks.may_stop(self._metadata.state, stream.broker_id):
            stream.asked_to_stop = True
            stream.send(pb.BrokerDown(may_stop=pb.MayStop()))

    def _on_delta(self, delta: pb.Delta) -> None:
        for stream in self._views.send(delta):
            self._let_stop(stream)

    def _on_restored(self) -> None:
        """The state was replaced by a snapshot: no view can follow it, and a term as leader ends."""
        self._views.restored()
        self.leadership.term = None
        self._send_all_away()
