"""Where a log ends after a crash: at an end that it once had, never below what was synced, with nothing
invented.

Clients may leave numbers out, so the first batch of a segment may lie far behind the end before it.
"""

import contextlib
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.pushed import append_stretch
from tank_node.log.recovery.mend import mend
from tank_node.log.settings import LogSettings
from tests.support.examples import examples
from tests.support.nodes.replicas import push, stretch_of
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import DATA, FOLDER, Folder, append, append_sparse, read_all

REPLICATED = LogSettings(segment_bytes=100, replication_factor=3)


def names(folder: Folder) -> list[int]:
    return [int(path[-24:-4]) for path in folder.fault.paths(".log")]


def crashed_before_its_first_batch() -> Folder:
    """A follower with message 1; the files of a segment for a pushed 101 are there, none of their bytes."""
    leader = Folder(settings=REPLICATED).log()
    append(leader, b"a" * 60)
    append_sparse(leader, [101], b"b" * 60)
    for change in range(20):
        folder = Folder(settings=REPLICATED)
        log = folder.log()
        append(log, b"a" * 60)
        log.flush()
        folder.fault.stop_at = folder.fault.changes + change
        with pytest.raises(PowerLoss):
            append_stretch(log, stretch_of(leader, 2), 0)
        if len(names(folder)) == 2:
            return folder
    raise AssertionError("it never had an empty segment")


def test_a_segment_is_named_by_the_end_before_it() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append_sparse(log, [1_000_000], b"a" * 60)
    append_sparse(log, [1_000_100], b"b" * 60)
    assert names(folder) == [1, 1_000_001]
    assert (log.first_available, read_all(log)) == (1_000_000, {1_000_000: b"a" * 60, 1_000_100: b"b" * 60})
    follower = Folder(settings=REPLICATED)
    push(log, follower.log())
    assert names(follower) == [1, 1_000_001]
    assert log.epochs == follower.log().epochs == [(1, 1)]
    follower.log().retain_from(log.first_available)  # as each push says
    assert follower.log().first_available == folder.kill().first_available == 1_000_000, "nothing is below"
    log = folder.log()
    log.truncate_to(0)
    append(log, b"c")
    assert (log.first_available, read_all(log)) == (1, {1: b"c"})


def test_an_empty_segment_tells_of_no_number_that_was_never_given() -> None:
    """The way to lose an acknowledged message: the end is invented, a lower batch goes into that segment and
    is cut as none of its own."""
    folder = crashed_before_its_first_batch()
    log = folder.kill()
    assert (log.last, log.epochs) == (1, [(1, 1)])
    other = Folder(settings=REPLICATED).log()
    append(other, b"a" * 60)
    append(other, b"acknowledged", epoch=2)
    push(other, log)
    log.flush()
    log = folder.kill()
    assert read_all(log) == read_all(other) == {1: b"a" * 60, 2: b"acknowledged"}


def test_a_tail_that_never_reached_the_disk_is_missed_by_the_name_behind_it() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append(log, b"a" * 30)
    log.flush()
    whole = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    append(log, b"b" * 30)
    log.roll()
    assert names(folder) == [1, 3]
    folder.fault.kill_process()
    for path, content in whole.items():  # their sizes, too, are as they were at the fsync
        folder.fault.overwrite(path, content)
    log = folder.reopen_after_power_loss()
    assert (log.state, log.last, names(folder)) == (LogState.ACTIVE, 1, [1]), "not 2, which it has not"


def test_with_good_batches_behind_it_the_missing_tail_makes_the_log_damaged() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append(log, b"a" * 30)
    log.flush()
    folder.data.write_checkpoint()
    first = [f"{FOLDER}/{1:020d}.log", f"{FOLDER}/{1:020d}.index"]
    whole = {path: folder.fault.content(path) for path in first}
    append(log, b"b" * 30)
    log.roll()
    append(log, b"c" * 30)
    folder.fault.kill_process()
    for path, content in whole.items():
        folder.fault.overwrite(path, content)
    log = folder.reopen_after_power_loss()
    assert (log.state, log.reason) == (
        LogState.DAMAGED,
        "the messages 2 to 2 are missing, and good ones follow",
    )
    mended = mend(log, 1000, 5)
    assert (mended.lost, mended.broken_at) == ([(2, 2)], 2)
    assert log.epochs == [(1, 1), (5, 2)], "other replicas may have the message 2: they part there"


def test_what_compaction_has_emptied_is_not_missed() -> None:
    keep_newest = LogSettings(segment_bytes=60, compact=True, min_cleanable_ratio=0.0, replication_factor=3)
    folder = Folder(settings=keep_newest)
    log = folder.log()
    for number in range(8):
        append(log, b"v%d" % number, keys=[b"k"])
    log.flush()
    maintain(log, 10_000, log.last)
    assert any(not segment.count for segment in log.segments.list[:-1]), "of some segments nothing is left"
    before = read_all(log)
    after = folder.kill()
    assert (after.state, read_all(after)) == (LogState.ACTIVE, before)


def test_where_a_log_began_before_it_was_cut_hides_nothing() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append_sparse(log, [50], b"never synced")
    folder.data.write_checkpoint()
    log.truncate_to(0)
    append(log, b"a", epoch=2)
    log = folder.kill()
    assert (log.first_available, read_all(log)) == (1, {1: b"a"})


# --- any life, any crash ---------------------------------------------------------------------------


@dataclass
class Life:
    """A log, and what it must be like after a crash."""

    folder: Folder
    chance: random.Random
    stored: dict[int, bytes] = field(default_factory=dict)
    ends: list[int] = field(default_factory=lambda: [0])
    """Where it ended after each write that is still in it."""
    synced: int = 0
    leader: PartitionLog | None = None
    """Pushes to it; None: it leads."""
    epoch: int = 1

    @property
    def log(self) -> PartitionLog:
        return self.folder.log()

    def append(self, to: PartitionLog) -> None:
        value = bytes(self.chance.randrange(97, 123) for _ in range(self.chance.choice((1, 20, 90))))
        if self.chance.random() < 0.3:
            numbers = [to.last + self.chance.choice((1, 2, 50))]
            append_sparse(to, numbers, value, epoch=self.epoch)
        else:
            append(to, *[value] * self.chance.randint(1, 3), epoch=self.epoch)

    def will_have(self, source: PartitionLog) -> None:
        """It may have all of this by now."""
        self.stored = read_all(source)
        self.ends = [0] + [record.last for s in source.segments for record in s.index.records()]

    def write(self) -> None:
        """The leader's next batches, or its own."""
        if self.leader is None:
            twin = Folder(settings=self.folder.settings)  # says what comes of it, should the power go
            push(self.log, twin.log())
            state = self.chance.getstate()
            self.append(twin.log())
            self.will_have(twin.log())
            self.chance.setstate(state)
            self.append(self.log)
        else:
            for _ in range(self.chance.randint(1, 4)):
                self.append(self.leader)
            self.will_have(self.leader)
            push(self.leader, self.log, max_bytes=self.chance.choice((1, 150, 1 << 20)))

    def go_back(self) -> None:
        """A new leader, which lacks some of the newest batches."""
        self.epoch += 1
        to = self.chance.choice(self.ends[-4:])
        self.synced = min(self.synced, to)
        if self.leader is None:
            self.log.truncate_to(to)
            self.will_have(self.log)
            return
        self.leader.truncate_to(to)
        self.append(self.leader)
        new = read_all(self.leader)
        common = {n: v for n, v in self.stored.items() if n <= to}
        self.ends = [end for end in self.ends if end <= to] + self.ends + [self.leader.last]
        self.stored = self.stored if self.log.last > to else new
        push(self.leader, self.log, start=to + 1)
        self.will_have(self.leader)
        assert common.items() <= self.stored.items()

    def flush(self) -> None:
        self.log.flush()
        self.synced = self.log.last

    def live(self, steps: int) -> None:
        for _ in range(steps):
            what = self.chance.random()
            if what < 0.6:
                self.write()
            elif what < 0.75:
                self.flush()
            elif what < 0.85:
                self.folder.data.write_checkpoint()
            elif what < 0.95:
                self.log.roll()
            else:
                self.go_back()


@settings(examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 2**32), st.booleans(), st.integers(0, 120), st.sampled_from([60, 150, 400]), st.booleans()
)
def test_any_life_ends_where_it_once_did(
    seed: int, follows: bool, crash_after: int, segment_bytes: int, power_lost: bool
) -> None:
    folder = Folder(settings=LogSettings(segment_bytes=segment_bytes, replication_factor=3))
    life = Life(folder, random.Random(seed))
    if follows:
        life.leader = Folder(settings=LogSettings(segment_bytes=130, replication_factor=3)).log()
    folder.log()
    folder.fault.stop_at = folder.fault.changes + crash_after
    with contextlib.suppress(PowerLoss):
        life.live(25)
    if power_lost:
        folder.fault.lose_power(random.Random(seed))
        log = folder.reopen_after_power_loss()
    else:
        log = folder.kill()
    assert log.last >= life.synced
    if log.state is LogState.DAMAGED:  # unsynced batches went that had others behind them
        assert power_lost
        return
    assert log.last in life.ends
    assert read_all(log) == {n: value for n, value in life.stored.items() if n <= log.last}


@pytest.mark.parametrize("zeros", [2, 5, 40])
def test_a_tail_of_zeros_is_cut_and_nothing_that_was_synced_is_doubted(zeros: int) -> None:
    """A file that grew may come back with its new length and none of its new bytes."""
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    for number in range(1, 41):
        append(log, b"%d" % number)
    log.flush()
    folder.data.write_checkpoint()
    for _ in range(zeros):
        append(log, b"lost")
    for suffix in (".index", ".log"):
        [path] = folder.fault.paths(suffix)
        file = folder.fault.file(path)
        folder.fault.overwrite(path, bytes(file.durable) + bytes(len(file.data) - len(file.durable)))
    log = folder.kill()
    assert (log.state, log.written) == (LogState.ACTIVE, 40), log.reason
    assert list(read_all(log)) == list(range(1, 41))


@pytest.mark.parametrize("left", [".index", ".log"])
def test_half_of_an_empty_segment_is_nothing(left: str) -> None:
    log_file, index_file = (f"{FOLDER}/{1:020d}{suffix}" for suffix in (".log", ".index"))
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append(log, b"never synced")
    folder.data.write_checkpoint()  # with an epoch, and nothing synced
    for path in (log_file, index_file):
        folder.fault.overwrite(path, b"")
    folder.fault.delete(index_file if left == ".log" else log_file)
    log = folder.kill()
    assert (log.state, log.last, log.epochs, folder.fault.paths(left)) == (LogState.ACTIVE, 0, [], [])
    assert append(log, b"again") == (1, 1)


def test_the_epoch_history_survives_a_lost_checkpoint() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100))
    log = folder.log()
    for n in range(20):
        append(log, b"%d" % n * 5, epoch=n // 4)
    history = list(log.epochs)
    folder.fault.delete(f"{DATA}/checkpoint") if folder.fault.exists(f"{DATA}/checkpoint") else None
    assert folder.kill().epochs == history == [(0, 1), (1, 5), (2, 9), (3, 13), (4, 17)]
    assert folder.reopen().epochs == history
