"""Where brokers' streams meet the controller that leads: registration, deltas, proposals, fencing. No I/O.

Every controller has one. While it doesn't lead, it tells brokers who does. Leading means that the state holds
everything that was ever committed: nothing is answered before. When leadership ends, all streams end, with
whatever is unread in them: a broker sends again, to the next leader, what it has no answer to.
"""

import logging
from collections import Counter
from collections.abc import Callable

from tank_controller import limits
from tank_controller.leader import queries, registration
from tank_controller.leader.broker_clocks import BrokerClocks
from tank_controller.leader.broker_rooms import BrokerRooms
from tank_controller.leader.liveness import Loss
from tank_controller.leader.proposals import Proposals, rejected
from tank_controller.leader.raising import Raising
from tank_controller.leader.streams import MAX_WAITING_PROPOSALS, DeltaHistory, Line, Stream
from tank_controller.leader.term import Ask, Care, Clock, Leading, Liveness
from tank_controller.leader.waiting_streams import WaitingStreams
from tank_controller.leader.whole_views import WholeViews
from tank_controller.state import levels
from tank_controller.state.machine import Metadata
from tank_controller.state.outcome import Outcome, Rejected
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

STALLED_MS = 1000
"""A tick that comes so late was held up, and brokers' words with it: all get a full timeout again."""
PEER_KEY_BYTES = 16

FROM_BROKERS = frozenset(
    {
        "create_topic", "alter_topic", "delete_topic", "init_producer", "commit_positions",
        "change_in_sync", "report_failed", "set_broker",
    }
)  # fmt: skip
"""Commands that a broker may propose; the others are the controller's own, or come by Admin."""

_log = logging.getLogger("tank.controller")


class BrokerDesk:
    """One controller's. All calls on the driver's thread."""

    def __init__(
        self,
        cluster_id: str,
        proposals: Proposals,
        metadata: Metadata,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        new_sessions: Callable[[], Liveness],
        new_duties: Callable[[], Care],
        leader_address: Callable[[], str],
        session_timeout_ms: int,
        raising: Raising,
        clocks: BrokerClocks,
    ) -> None:
        """`leader_address`: host:port of whoever leads, empty when nobody knows."""
        self.streams: dict[int, Stream] = {}
        """By broker id, the newest of each that leads somewhere: registered, or about to be."""
        self.fences: Counter[Loss] = Counter()
        """How often a broker was fenced here since this process began, by why."""
        self._cluster_id = cluster_id
        self._proposals = proposals
        self._driver = proposals.driver
        self._metadata = metadata
        self._clock = clock
        self._random_bytes = random_bytes
        self._new_sessions = new_sessions
        self._new_duties = new_duties
        self._leader_address = leader_address
        self._session_timeout_ms = session_timeout_ms
        self._raising = raising
        self._clocks = clocks
        self._rooms = BrokerRooms()
        self._history = DeltaHistory(metadata.state.index)
        self._views = WholeViews(metadata, self._follow)
        self._leading: Leading | None = None
        self._waiting = WaitingStreams(self._driver)
        self._last_tick_ms = clock.monotonic_ms()
        self._judged = True
        """Whether the last tick looked at who is silent."""
        metadata.on_delta = self._on_delta
        metadata.on_restored = self._on_restored

    # --- leadership ---

    def tick(self) -> None:
        """Time passes: notices leadership, fences who is silent, does the leader's duties."""
        now_ms = self._clock.monotonic_ms()
        late_ms, self._last_tick_ms = now_ms - self._last_tick_ms, now_ms
        leading = self._look(now_ms)
        for stream, up in self._waiting.release(leads=leading is not None):
            self.received(stream, up)
        for stream in self._waiting.too_long():
            self._send_away(stream)
        if leading is None:
            return
        self._views.go_on()
        if late_ms > STALLED_MS:
            leading.sessions.lead(now_ms)
        # A broker whose stream broke meanwhile may have registered again: that is read before the next tick.
        self._judged = late_ms <= limits.BROKEN_STREAM_GRACE_MS or not self._judged
        if not self._judged or leading.is_busy():
            return
        self._found_cluster(leading)
        if (higher := self._raising.command(self._metadata.state, self.streams)) is not None:
            self._propose_own(leading, higher)
        state = self._metadata.state
        for command in leading.sessions.tick(state, now_ms):
            self._count(leading, command)
            self._propose_own(leading, command)
        for command in self._clocks.tick(state, now_ms, self._clock.now_ms()):
            self._propose_own(leading, command)
        for command in self._rooms.tick(state):
            self._propose_own(leading, command)
        if leading.is_busy():
            return
        work = leading.duties.tick(self._metadata.state, now_ms)
        for command in work.commands:
            self._propose_own(leading, command)
        for ask in work.asks:
            self._ask(ask)

    def _count(self, leading: Leading, command: pb.Command) -> None:
        """Says that a broker is fenced, or is back."""
        if command.WhichOneof("command") == "unfence_broker":
            _log.info("broker %d is heard again, and no longer fenced", command.unfence_broker.broker_id)
            return
        broker_id = command.fence_broker.broker_id
        loss = leading.sessions.loss(broker_id)
        self.fences[loss] += 1
        if loss is Loss.SILENT:
            _log.warning(
                "broker %d is fenced: it was silent for %d ms; it is frozen, cut off, or gets no processor",
                broker_id, self._session_timeout_ms,
            )  # fmt: skip
        elif loss is Loss.STAYED_AWAY:
            _log.warning(
                "broker %d is fenced: it did not come to this controller, which leads now", broker_id
            )
        else:
            _log.warning("broker %d is fenced: its stream broke, and it did not connect again", broker_id)

    def _look(self, now_ms: int) -> Leading | None:
        """Who leads may have changed since the last call."""
        term = self._driver.raft.term if self._driver.ready else None
        if self._leading is not None and self._leading.term != term:
            self._leading = None
            self._clocks.begin_term()
            self._rooms.begin_term()
            self._send_all_away()
        if self._leading is None and term is not None:
            self._leading = Leading(term, self._new_sessions(), self._new_duties())
            self._leading.sessions.lead(now_ms)
            self._found_cluster(self._leading)
        return self._leading

    def _found_cluster(self, leading: Leading) -> None:
        """The first leader of all gives the brokers what they show each other."""
        if not self._metadata.state.peer_key:
            key = self._random_bytes(PEER_KEY_BYTES)
            self._propose_own(leading, pb.Command(found_cluster=pb.FoundCluster(peer_key=key)))

    @property
    def leads(self) -> bool:
        """Whether brokers and people are answered here."""
        return self._look(self._clock.monotonic_ms()) is not None

    @property
    def duties(self) -> Care | None:
        """The leader's, for what people ask of it; None: this controller doesn't lead."""
        return None if self._leading is None else self._leading.duties

    def not_leader(self) -> pb.NotLeader:
        """Where to go instead."""
        return pb.NotLeader(leader=self._leader_address())

    def _propose_own(self, leading: Leading, command: pb.Command) -> None:
        command.now_ms = self._clock.now_ms()
        leading.proposed += 1

        def done(outcome: Outcome) -> None:
            leading.proposed -= 1
            if outcome.rejection is not None:
                _log.debug("%s: %s", command.WhichOneof("command"), outcome.rejection.message)

        self._proposals.propose(command, done)

    # --- streams ---

    def received(self, stream: Stream, up: pb.BrokerUp) -> None:
        """A broker's message. What makes no sense is answered, or passed over; it harms nobody."""
        if not stream.open:
            return
        now_ms = self._clock.monotonic_ms()
        leading = self._look(now_ms)
        if leading is None:
            if not self._waiting.take(stream, up):
                self._send_away(stream)
            return
        kind = up.WhichOneof("message")
        if kind == "register":
            self._register(leading, stream, up.register)
        elif stream.epoch == 0:
            return  # before its registration is committed nothing that it says counts
        elif kind == "heartbeat":
            leading.sessions.heard(stream.broker_id, stream.epoch, up.heartbeat.seen_index, now_ms)
            self._clocks.heard(stream.broker_id, up.heartbeat, now_ms)
            self._rooms.heard(stream.broker_id, stream.epoch, up.heartbeat)
            stream.send(pb.BrokerDown(view=self._alive(stream)))
            self._let_stop(stream)  # it may have been said by a stream that broke, or to a leader before
        elif kind == "proposal":
            self._propose(leading, stream, up.proposal)
        elif kind == "query":
            self._query(stream, up.query)
        elif kind == "log_ends":
            leading.duties.ends(stream.broker_id, stream.epoch, up.log_ends, now_ms)

    def _alive(self, stream: Stream) -> pb.ViewUpdate:
        """This leader lives, and this is how far a view that has everything is; of one that is being brought
        everything, a part."""
        now_ms = self._clock.monotonic_ms()
        if not stream.follows:
            return pb.ViewUpdate(whole=True, more=True, said_ms=now_ms)
        return pb.ViewUpdate(delta=pb.Delta(index=self._metadata.state.index), said_ms=now_ms)

    def closed(self, stream: Stream) -> None:
        """The stream broke, or the broker ended it."""
        was_open, stream.open, stream.follows = stream.open, False, False
        self._waiting.forget(stream)
        if self.streams.get(stream.broker_id) is not stream:
            return
        del self.streams[stream.broker_id]
        if was_open:
            self._broken(stream)

    def _broken(self, stream: Stream) -> None:
        if self._leading is not None and (epoch := self._epoch_of(stream)):
            self._leading.sessions.broken(stream.broker_id, epoch, self._clock.monotonic_ms())

    def _epoch_of(self, stream: Stream) -> int:
        """Of the process at the other end; 0: the state doesn't know it (any more)."""
        broker = self._metadata.state.brokers.get(stream.broker_id)
        return broker.epoch if broker is not None and broker.incarnation == stream.incarnation else 0

    def opened(self, line: Line) -> Stream:
        """A new stream; give it to `received` and `closed`."""
        return Stream(line)

    def _send_all_away(self) -> None:
        for stream in list(self.streams.values()):
            self._send_away(stream)
        self.streams.clear()
        self._views = WholeViews(self._metadata, self._follow)

    def _send_away(self, stream: Stream) -> None:
        stream.end(pb.BrokerDown(not_leader=self.not_leader()))

    def _register(self, leading: Leading, stream: Stream, register: pb.BrokerRegister) -> None:
        wanted = register.broker
        why = registration.refusal(
            register, self._cluster_id, self._metadata.state, self.streams, leading.sessions,
            self._clock.monotonic_ms(),
        )  # fmt: skip
        if why is not None:
            self._refuse(stream, why)
            return
        if stream.broker_id:
            return  # once is enough
        before = self.streams.get(wanted.broker_id)
        if before is not None:
            before.end()  # what waits unread in it was sent before: the broker sends it again
        stream.broker_id, stream.incarnation = wanted.broker_id, wanted.incarnation
        stream.max_level = levels.said(wanted).highest
        self.streams[wanted.broker_id] = stream
        if epoch := self._epoch_of(stream):  # it lives, though the entry that says so is yet to be committed
            leading.sessions.connected(stream.broker_id, epoch, self._clock.monotonic_ms())
        command = pb.Command(now_ms=self._clock.now_ms(), register_broker=wanted)
        self._proposals.propose(
            command, lambda outcome: self._registered(stream, register.view_index, outcome)
        )

    def _registered(self, stream: Stream, view_index: int, outcome: Outcome) -> None:
        if not stream.open:
            return
        leading = self._leading
        if leading is None or (outcome.rejection is not None and outcome.rejection.is_unsure):
            self._send_away(stream)
            return
        if outcome.rejection is not None:
            self._refuse(stream, outcome.rejection)
            return
        state = self._metadata.state
        broker = state.brokers[stream.broker_id]
        if broker.incarnation != stream.incarnation:
            stream.end()  # a later process of this broker has registered meanwhile
            return
        stream.epoch = broker.epoch
        registered = pb.Registered(
            broker_epoch=broker.epoch,
            index=broker.epoch,
            cluster_id=self._cluster_id,
            session_timeout_ms=self._session_timeout_ms,
            peer_key=state.peer_key,
            demands_secret=state.demands_secret,
        )
        stream.send(pb.BrokerDown(registered=registered))
        leading.sessions.connected(stream.broker_id, stream.epoch, self._clock.monotonic_ms())
        if 0 < view_index <= state.index and self._history.complete_from <= view_index:
            self._follow(stream, view_index)
        else:
            self._views.bring(stream)

    def _follow(self, stream: Stream, index: int) -> None:
        """A view that is so far is sent what came since, and every delta from now on."""
        deltas = self._history.since(index)
        if deltas is None:
            stream.end()  # so much came while it was brought the whole state: it comes again
            return
        for message in deltas:
            stream.send(message)
        stream.follows = True

    def _refuse(self, stream: Stream, why: Rejected) -> None:
        refused = pb.RegisterRefused(error=why.error, message=why.message, passing=why.error in _PASSING)
        if self.streams.get(stream.broker_id) is stream:
            del self.streams[stream.broker_id]
            self._broken(stream)
        stream.end(pb.BrokerDown(refused=refused))

    # --- proposals and questions ---

    def _propose(self, leading: Leading, stream: Stream, proposal: pb.BrokerProposal) -> None:
        kind = proposal.command.WhichOneof("command")
        commits = kind == "commit_positions"
        if kind not in FROM_BROKERS:
            self._answer(stream, proposal, rejected(ErrorCode.INVALID_REQUEST, "no command for a broker"))
        elif proposal.validate_only:
            self._answer(stream, proposal, self._proposals.judge(proposal.command))
        elif stream.waiting >= MAX_WAITING_PROPOSALS:
            self._answer(stream, proposal, rejected(ErrorCode.OVERLOADED, "too much waits: ask again"))
        elif commits and (late := leading.positions.refusal(self._metadata.state, stream, proposal)):
            self._driver.figures.refused_proposals["late_position"] += 1
            self._answer(stream, proposal, late)
        else:
            stream.waiting += 1

            def done(outcome: Outcome) -> None:
                stream.waiting -= 1
                if outcome.rejection is not None and outcome.rejection.is_unsure:
                    self._send_away(stream)  # no outcome is no answer: it asks the next leader again
                else:
                    self._answer(stream, proposal, outcome)

            end = self._driver.raft.log.last_index
            self._proposals.propose(proposal.command, done)
            if commits and self._driver.raft.log.last_index > end:  # else it was refused
                commit = proposal.command.commit_positions
                leading.positions.appended(self._metadata.state, stream, commit, end + 1)

    def _answer(self, stream: Stream, proposal: pb.BrokerProposal, outcome: Outcome) -> None:
        stream.send(pb.BrokerDown(outcome=outcome.as_message(proposal.request_id)))

    def _query(self, stream: Stream, query: pb.BrokerQuery) -> None:
        if stream.waiting >= MAX_WAITING_PROPOSALS:
            why = "too much waits: ask again"
            refusal = pb.QueryAnswer(request_id=query.request_id, error=ErrorCode.OVERLOADED, message=why)
            stream.send(pb.BrokerDown(answer=refusal))
            return
        stream.waiting += 1

        def done(problem: Rejected | None) -> None:
            stream.waiting -= 1
            if problem is None:
                if query.HasField("view") and stream.follows:
                    # What tells brokers nothing, positions above all, counts too.
                    stream.send(pb.BrokerDown(view=self._alive(stream)))
                for part in queries.answers(self._metadata.state, query):
                    stream.send(pb.BrokerDown(answer=part))
            elif problem.is_unsure:
                self._send_away(stream)
            else:  # of this question alone
                refusal = pb.QueryAnswer(
                    request_id=query.request_id, error=problem.error, message=problem.message
                )
                stream.send(pb.BrokerDown(answer=refusal))

        self._proposals.read(done)

    def _ask(self, ask: Ask) -> None:
        stream = self.streams.get(ask.broker_id)
        if stream is not None and stream.epoch == ask.broker_epoch:
            wanted = [pb.LogEnd(topic_id=topic_id, partition=number) for topic_id, number in ask.partitions]
            stream.send(pb.BrokerDown(ask_ends=pb.AskEnds(question=ask.question, partitions=wanted)))

    # --- deltas ---

    def _on_delta(self, delta: pb.Delta) -> None:
        messages = self._history.add(delta)
        for broker_id in sorted(self.streams):
            stream = self.streams[broker_id]
            if stream.follows:
                for message in messages:
                    stream.send(message)
                self._let_stop(stream)

    def _let_stop(self, stream: Stream) -> None:
        broker = self._metadata.state.brokers.get(stream.broker_id)
        leading = self._leading
        if broker is None or leading is None or not broker.shutting_down or stream.asked_to_stop:
            return
        if leading.duties.may_stop(self._metadata.state, stream.broker_id):
            stream.asked_to_stop = True
            stream.send(pb.BrokerDown(may_stop=pb.MayStop()))

    def _on_restored(self) -> None:
        """The state has made a step that no delta tells: nobody who followed may follow on."""
        self._history = DeltaHistory(self._metadata.state.index)
        self._leading = None
        self._send_all_away()


_PASSING = (ErrorCode.OVERLOADED, ErrorCode.STORAGE, ErrorCode.IN_USE)
"""Reasons that a registration fails for now: the broker tries again. All others are for good. IN_USE: whoever
had its address before is fenced soon, if it is gone."""
