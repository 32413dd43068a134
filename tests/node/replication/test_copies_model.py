"""Three replicas against a dumb model: appends, epochs, deposed leaders, truncations, crashes that lose what
was not synced, spoiled batches, retention, in any order. Nothing that was committed is lost, and in the end
all hold the same.

The logs, the partitions and `Following` are the real ones; the test plays controller and connections.
"""

import logging
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tank_node.cluster.view import PartitionView
from tank_node.limits import Limits
from tank_node.log.epoch_history import last_common
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.metrics import Metrics
from tank_node.partition.beliefs import Beliefs
from tank_node.partition.follower import PartitionFollower, PeerLine
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick
from tank_node.purpose import Purpose
from tank_node.refusal_log import RefusalLog
from tank_node.replication.role import Role
from tank_node.segment.record import Record
from tank_protos.error_codes import PushError
from tank_protos.storage.stretch import Stretch
from tests.support.controllers.instant_controller import InstantController
from tests.support.examples import examples
from tests.support.nodes.replicas import records_of, stretch_of
from tests.support.storage.logs import TOPIC, Folder, append, append_sparse

REPLICAS = st.integers(0, 2)
MIN_IN_SYNC = 2


class Replica:
    """One broker's copy, through all of its processes."""

    def __init__(self, own_id: int, segment_bytes: int) -> None:
        self.own_id = own_id
        self.folder = Folder(settings=LogSettings(segment_bytes=segment_bytes, replication_factor=3))
        self.log: PartitionLog
        self.use(self.folder.log())

    def use(self, log: PartitionLog) -> None:
        """A process begins."""
        self.log = log
        self.partition = Partition(
            "a",
            0,
            log,
            tick=Tick(),
            limits=Limits(),
            metrics=Metrics(),
            refusals=RefusalLog(Metrics()),
            on_failure=lambda partition, error: None,
        )
        self.partition.high_water_mark = log.high_water_mark
        self.partition.become(Role.NONE, 0)
        self.following = self.partition.follower = PartitionFollower(self.partition)

    @property
    def start(self) -> int:
        return max(self.log.first_available, 1)

    @property
    def is_whole(self) -> bool:
        return self.log.state is LogState.ACTIVE and not self.log.is_impaired


class CopiesAgainstModel(RuleBasedStateMachine):
    """The model: what was committed (number -> its record), who is in sync, what the leader knows."""

    @initialize(sizes=st.tuples(*[st.sampled_from([60, 150, 1000])] * 3))
    def begin(self, sizes: tuple[int, int, int]) -> None:
        logging.disable(logging.CRITICAL)
        self.replicas = [Replica(own_id, size) for own_id, size in enumerate(sizes)]
        self.epoch = 0
        self.leader: int | None = None
        self.in_sync = {0, 1, 2}
        self.eligible: set[int] = set()
        self.committed: dict[int, Record] = {}
        self.mark = 0
        self.deposed: dict[int, int] = {}
        self.value = 0
        self.elect(0)

    beliefs = Beliefs(InstantController(), Metrics(), lambda partition: None, lambda partition: None)
    """Nobody is refuted here."""

    def teardown(self) -> None:
        if hasattr(self, "replicas"):
            self._come_together()
        logging.disable(logging.NOTSET)

    # --- the controller --------------------------------------------------------------------------

    @property
    def placed(self) -> PartitionView:
        leader = self.leader if self.leader is not None else 99
        return PartitionView(0, leader, self.epoch, 1, (0, 1, 2), tuple(sorted(self.in_sync)))

    @property
    def leading(self) -> Replica:
        assert self.leader is not None
        return self.replicas[self.leader]

    @rule(at=REPLICAS)
    def elect(self, at: int) -> None:
        candidates = self.in_sync if any(self.replicas[i].is_whole for i in self.in_sync) else self.eligible
        replica = self.replicas[at]
        if at not in candidates or not replica.is_whole:
            return
        if self.leader is not None and self.leader != at:
            self.deposed[self.leader] = self.epoch  # it doesn't know yet
        self.deposed.pop(at, None)
        self.epoch += 1
        self.leader = at
        self.in_sync |= {at}
        self.eligible -= {at}
        replica.partition.become(Role.LEADER, self.epoch)
        self.start_end = replica.log.last
        self.sent = dict.fromkeys(range(3), replica.log.last)
        self.matched = dict.fromkeys(range(3), 0)
        self.lines = {
            i: PeerLine(at, 1, Purpose.LIVE, lambda covers, answer: None, lambda: None) for i in range(3)
        }

    def _take_out(self, at: int) -> None:
        self.in_sync -= {at}
        if len(self.in_sync) < MIN_IN_SYNC:
            self.eligible |= {at}
        if at == self.leader:
            self.leader = None

    @precondition(lambda self: self.leader is not None)
    @rule(at=REPLICAS)
    def join(self, at: int) -> None:
        replica = self.replicas[at]
        reached = min(replica.log.synced, self.matched[at])
        if at not in self.in_sync and replica.is_whole and reached >= max(self.mark, self.start_end):
            self.in_sync |= {at}
            if len(self.in_sync) >= MIN_IN_SYNC:
                self.eligible = set()

    # --- the leader ------------------------------------------------------------------------------

    @precondition(lambda self: self.leader is not None)
    @rule(count=st.integers(1, 4), gap=st.sampled_from([0, 0, 0, 3]))
    def append(self, count: int, gap: int) -> None:
        self._append(self.leading, self.epoch, count, gap)

    def _append(self, replica: Replica, epoch: int, count: int, gap: int) -> None:
        if not replica.is_whole:
            return
        self.value += 1
        now_ms = 1000 + self.value
        if gap and epoch == self.epoch:
            append_sparse(replica.log, [replica.log.last + 1 + gap], b"v%d" % self.value, epoch=epoch)
        else:
            append(replica.log, *[b"v%d" % self.value] * count, epoch=epoch, now_ms=now_ms)

    @rule(at=REPLICAS)
    def flush(self, at: int) -> None:
        if self.replicas[at].log.state is LogState.ACTIVE:
            self.replicas[at].log.flush()
            self.replicas[at].following.synced()

    @precondition(lambda self: self.leader is not None)
    @rule(at=REPLICAS, max_bytes=st.sampled_from([1, 60, 1 << 20]))
    def push(self, at: int, max_bytes: int) -> None:
        self._push(at, max_bytes)

    def _push(self, at: int, max_bytes: int) -> PushError | None:
        """One stretch, and its answer."""
        if at == self.leader or not self.leading.is_whole:
            return None
        leader = self.leading
        start = self.sent[at] + 1
        if start < leader.start:
            start = leader.start
        answer = self._exchange(leader, self.epoch, at, start, max_bytes, self.lines[at])
        error, matched, log_end, epoch_there = answer
        if error is PushError.NONE:
            self.sent[at] = self.matched[at] = matched
        elif error is PushError.DISAGREES:
            self.matched[at] = 0
            point, _ = last_common(leader.log.epochs, leader.log.written, log_end, epoch_there)
            assert start > leader.start, "at the leader's start nobody disagrees"
            assert point < start - 1, "it goes back"
            self.sent[at] = max(point, leader.start - 1)
        else:
            self.matched[at] = 0
            assert error is not PushError.DIVERGED
            assert error is not PushError.BAD_BATCH
        return error

    def _exchange(
        self, leader: Replica, epoch: int, at: int, start: int, max_bytes: int, line: PeerLine
    ) -> tuple[PushError, int, int, int]:
        pushed = stretch_of(leader.log, start, max_bytes, epoch)
        mark = leader.partition.high_water_mark
        stretch = Stretch(
            TOPIC, epoch, pushed.previous_epoch, mark, leader.start, pushed.records, pushed.batches
        )
        answer = self.replicas[at].following.take(line, 1, start, stretch, self.placed, at, self.beliefs)
        assert answer.synced <= answer.matched
        return PushError(answer.error), answer.matched, answer.log_end, answer.epoch_at_log_end

    @precondition(lambda self: self.deposed)
    @rule(data=st.data(), at=REPLICAS)
    def a_deposed_leader_goes_on(self, data: st.DataObject, at: int) -> None:
        """It was frozen: it appends and pushes in its old epoch."""
        who = data.draw(st.sampled_from(sorted(self.deposed)))
        epoch, replica = self.deposed[who], self.replicas[who]
        if replica.partition.leader_epoch != epoch or not replica.is_whole or at == who:
            return
        self._append(replica, epoch, 1, 0)
        line = PeerLine(who, 1, Purpose.LIVE, lambda covers, answer: None, lambda: None)
        known = self.replicas[at].partition.leader_epoch
        before = records_of(self.replicas[at].log)
        start = max(min(self.replicas[at].log.last, replica.log.last) + 1, replica.start)
        error = self._exchange(replica, epoch, at, start, 1 << 20, line)[0]
        if known > epoch:
            assert error is PushError.STALE_LEADER
            assert records_of(self.replicas[at].log) == before

    @precondition(lambda self: self.leader is not None)
    @rule()
    def commit(self) -> None:
        """The mark: what all in sync have synced, when they are enough."""
        leader = self.leading
        if len(self.in_sync) < MIN_IN_SYNC or not leader.is_whole:
            return
        reached = [
            leader.log.synced if i == self.leader else min(self.replicas[i].log.synced, self.matched[i])
            for i in self.in_sync
        ]
        mark = min(reached)
        leader.partition.advance(mark)
        for record in records_of(leader.log):
            if self.mark < record.last <= mark:
                self.committed[record.first] = record
        self.mark = max(self.mark, mark)

    # --- trouble ---------------------------------------------------------------------------------

    @rule(at=REPLICAS, seed=st.integers(0, 1000), kept=st.booleans())
    def crash(self, at: int, seed: int, kept: bool) -> None:
        """The process dies, and the page cache with it unless `kept`; another one starts."""
        if not self._others_in_sync(at):
            return
        replica = self.replicas[at]
        was_damaged = replica.log.is_impaired
        self.deposed.pop(at, None)
        self._take_out(at)
        if kept:
            replica.use(replica.folder.kill())
        else:
            replica.folder.fault.lose_power(random.Random(seed))
            replica.use(replica.folder.reopen_after_power_loss())
        if was_damaged or replica.log.is_impaired:
            self.eligible -= {at}
        self.matched[at] = 0
        self.sent[at] = self.leading.log.last if self.leader is not None else 0

    def _others_in_sync(self, at: int) -> bool:
        return any(i != at and self.replicas[i].is_whole for i in self.in_sync)

    @rule(at=REPLICAS)
    def spoil(self, at: int) -> None:
        """A batch goes bad on the disk, and scrub finds it."""
        replica = self.replicas[at]
        paths = [path for path in replica.folder.fault.paths(".log") if replica.folder.fault.content(path)]
        if not self._others_in_sync(at) or not paths or not replica.is_whole:
            return
        content = bytearray(replica.folder.fault.content(paths[0]))
        content[0] ^= 0x55
        replica.folder.fault.overwrite(paths[0], bytes(content))
        if replica.log.scrub(1 << 30).bad:
            replica.partition.note_state()
            replica.partition.become(Role.NONE, replica.partition.leader_epoch)
            self.deposed.pop(at, None)
            self._take_out(at)
            self.eligible -= {at}

    @rule(at=REPLICAS)
    def checkpoint(self, at: int) -> None:
        self.replicas[at].folder.data.write_checkpoint()

    @precondition(lambda self: self.leader is not None)
    @rule(back=st.integers(0, 3))
    def retain(self, back: int) -> None:
        leader = self.leading
        if leader.is_whole:
            # A log begins where a batch does: retention takes whole segments.
            number = leader.partition.high_water_mark - back
            begins = [record.first for record in records_of(leader.log) if record.first <= number]
            leader.log.retain_from(max(begins, default=0))

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def two_replicas_agree_up_to_both_marks(self) -> None:
        if not hasattr(self, "replicas"):
            return
        whole = [replica for replica in self.replicas if replica.is_whole]
        for one in whole:
            for other in whole:
                if one.own_id < other.own_id:
                    low = max(one.start, other.start)
                    high = min(one.partition.high_water_mark, other.partition.high_water_mark)
                    assert between(one, low, high) == between(other, low, high)

    @invariant()
    def no_mark_is_beyond_what_was_committed(self) -> None:
        for replica in getattr(self, "replicas", []):
            assert replica.partition.high_water_mark <= self.mark

    @invariant()
    def a_leader_has_everything_committed(self) -> None:
        if getattr(self, "leader", None) is None:
            return
        leader = self.leading
        if leader.is_whole:
            held = {record.first: record for record in records_of(leader.log)}
            wanted = {n: r for n, r in self.committed.items() if r.first >= leader.start}
            assert {number: held.get(number) for number in wanted} == wanted

    def _come_together(self) -> None:
        """Faults stop: everybody gets to hold what the leader holds."""
        if self.leader is None or not self.leading.is_whole:
            for at in range(3):
                self.elect(at)
        if self.leader is None or not self.leading.is_whole:
            return
        self._append(self.leading, self.epoch, 1, 0)  # what is too much goes only for a batch
        self.flush(self.leader)
        for at in range(3):
            if at == self.leader:
                continue
            self.in_sync -= {at}  # a damaged one may be filled anew
            for _ in range(200):
                if self._push(at, 1 << 20) is PushError.NONE and self.sent[at] == self._end():
                    break
            self.flush(at)
            self.join(at)
            leader, replica = self.leading, self.replicas[at]
            low = max(leader.start, replica.start)
            assert between(replica, low, 1 << 62) == between(leader, low, 1 << 62)
            assert at in self.in_sync
        self.commit()
        assert self.mark == self._end()

    def _end(self) -> int:
        return self.leading.log.last


def between(replica: Replica, low: int, high: int) -> list[Record]:
    return [record for record in records_of(replica.log) if low <= record.first and record.last <= high]


CopiesAgainstModel.TestCase.settings = settings(
    examples(40), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
test_copies_against_a_model = CopiesAgainstModel.TestCase
