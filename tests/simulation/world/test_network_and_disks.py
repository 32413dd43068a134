"""The simulated network and disk do what real ones do."""

import copy

import pytest

from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.network import End, Frames, Network, Weather
from tests.simulation.world.world import MS, SECOND, Life, ProcessEnded, World


def nothing(*_: object) -> None:
    """Is done."""


class Pair:
    """Two machines with a stream between them, and what each was told."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world, Weather(slow=0.5))
        self.told: dict[str, list[object]] = {"a": [], "b": []}
        self.lives = {name: Life(name, nothing, nothing) for name in self.told}
        self.ends = [self.end(name) for name in self.told]
        self.stream = self.network.stream(*self.ends)

    def end(self, name: str) -> End:
        told = self.told[name]
        return End(name, self.lives[name], told.append, lambda: told.append("broken"))

    def rest(self) -> None:
        self.world.run_until(self.world.now + 10 * SECOND)


def test_a_stream_keeps_its_order_and_tells_of_its_end_last() -> None:
    pair = Pair()
    for number in range(50):
        pair.stream.send(pair.ends[0], number)
    pair.stream.close(pair.ends[0])
    pair.rest()
    assert pair.told == {"a": [], "b": [*range(50), "broken"]}
    assert pair.network.streams == {}


def test_what_is_on_a_stream_waits_for_the_end_of_a_cut() -> None:
    pair = Pair()
    pair.network.cut(["a"], ["b"], one_way=True)
    pair.stream.send(pair.ends[0], "held up")
    pair.stream.send(pair.ends[1], "the other way")
    pair.rest()
    assert pair.told == {"a": ["the other way"], "b": []}
    pair.network.heal()
    pair.stream.send(pair.ends[0], "later")
    pair.rest()
    assert pair.told["b"] == ["held up", "later"]


def test_a_broken_stream_loses_what_it_carries_and_tells_both() -> None:
    pair = Pair()
    pair.network.cut(["a"], ["b"], one_way=False)
    pair.stream.send(pair.ends[0], "lost")
    pair.stream.reset()
    pair.network.heal()
    pair.rest()
    assert pair.told == {"a": ["broken"], "b": ["broken"]}


def test_a_message_is_lost_in_a_cut_and_never_comes_back() -> None:
    pair = Pair()
    arrived: list[str] = []
    pair.network.cut(["a"], ["b"], one_way=True)
    pair.network.post("a", "b", lambda: arrived.append("no"))
    pair.network.post("b", "a", lambda: arrived.append("yes"))
    pair.rest()
    pair.network.heal()
    pair.rest()
    assert arrived == ["yes"]


def test_a_frozen_process_does_later_what_it_would_have_done_and_a_dead_one_never() -> None:
    pair = Pair()
    pair.lives["b"].frozen = True
    pair.stream.send(pair.ends[0], 1)
    pair.stream.send(pair.ends[0], 2)
    pair.rest()
    assert pair.told["b"] == []
    pair.world.thaw(pair.lives["b"])
    pair.rest()
    assert pair.told["b"] == [1, 2]
    pair.stream.send(pair.ends[0], 3)
    pair.lives["b"].alive = False
    pair.rest()
    assert pair.told["b"] == [1, 2]


def test_a_kill_keeps_what_was_written_and_a_loss_of_power_only_what_was_synced() -> None:
    for power in (False, True):
        disk = SimulatedDisk()
        disk.make_folders("/f")
        disk.sync_folder("/")
        fd = disk.open("/f/a", create=True)
        disk.sync_folder("/f")
        disk.write_at(fd, [b"synced"], 0)
        disk.sync(fd)
        disk.write_at(fd, [b"X" * 6], 0)
        if power:
            disk.lose_power(World(0).random)
        else:
            disk.kill_process()
        assert disk.content("/f/a") in ((b"synced", b"X" * 6) if power else (b"X" * 6,))


def test_a_process_ends_between_two_changes() -> None:
    disk = SimulatedDisk()
    disk.make_folders("/f")
    disk.stop_soon(2, power=True)
    fd = disk.open("/f/a", create=True)
    disk.write_at(fd, [b"there"], 0)
    with pytest.raises(ProcessEnded) as ended:
        disk.sync(fd)
    assert ended.value.power


def test_a_stream_of_bytes_cuts_and_joins_what_it_carries_and_keeps_the_order_and_what_the_books_noted() -> (
    None
):
    pair = Pair()
    pair.network.weather.pieces = 0.7
    pair.stream.carries_bytes = True
    sent = [Frames(bytes([number]) * 10) for number in range(50)]
    for number, frames in enumerate(sent):
        frames.notes = (number,)
        pair.stream.send(pair.ends[0], frames)
    pair.stream.close(pair.ends[0])
    pair.rest()
    *arrived, last = pair.told["b"]
    assert last == "broken"
    pieces = [piece for piece in arrived if isinstance(piece, bytes)]
    assert b"".join(pieces) == b"".join(sent)
    assert {len(piece) for piece in pieces} - {10}, "none was cut or joined"
    noted = [note for piece in pieces if isinstance(piece, Frames) for note in piece.notes]
    assert noted == list(range(50))


def test_what_arrives_of_a_stream_of_bytes_that_breaks_is_a_beginning_of_it() -> None:
    for sent_before in range(1, 100):
        pair = Pair()
        pair.network.weather = Weather(pieces=0.7)
        pair.stream.carries_bytes = True
        sent = [bytes([number]) * 10 for number in range(sent_before)]
        for each in sent:
            pair.stream.send(pair.ends[0], each)
            pair.network.world.run_until(pair.network.world.now + MS // 5)
        pair.stream.reset()
        pair.rest()
        *arrived, last = pair.told["b"]
        assert last == "broken"
        assert b"".join(sent).startswith(b"".join(each for each in arrived if isinstance(each, bytes)))


def test_a_stream_of_messages_keeps_each_together() -> None:
    pair = Pair()
    pair.network.weather.pieces = 0.7
    for number in range(50):
        pair.stream.send(pair.ends[0], bytes([number]) * 10)
    pair.rest()
    assert pair.told["b"] == [bytes([number]) * 10 for number in range(50)]


def file_of(disk: SimulatedDisk) -> int:
    disk.make_folders("/f")
    disk.sync_folder("/")
    fd = disk.open("/f/a", create=True)
    disk.sync_folder("/f")
    return fd


def test_an_fsync_that_overlaps_writes_covers_those_that_came_before_it() -> None:
    disk = SimulatedDisk()
    fd = file_of(disk)
    disk.write_at(fd, [b"before"], 0)
    disk.covers = disk.changes
    disk.write_at(fd, [b"AFTER!"], 0)
    disk.sync(fd)
    disk.covers = None
    kept = set()
    for seed in range(20):
        copied = copy.deepcopy(disk)
        copied.lose_power(World(seed).random)
        kept.add(copied.content("/f/a"))
    assert kept == {b"before", b"AFTER!"}
    disk.sync(fd)
    disk.lose_power(World(0).random)
    assert disk.content("/f/a") == b"AFTER!"


def test_reads_and_opens_fail_for_the_process_and_not_for_the_books() -> None:
    disk = SimulatedDisk()
    fd = file_of(disk)
    disk.write_at(fd, [b"here"], 0)
    disk.failing_reads, disk.max_open_files = 1, disk.open_files
    assert disk.read_at(fd, 4, 0) == b"here"
    disk.close(disk.open("/f/a"))
    disk.is_used = lambda: True
    with pytest.raises(OSError, match="Input/output"):
        disk.read_at(fd, 4, 0)
    with pytest.raises(OSError, match="Too many open files"):
        disk.open("/f/a")
    assert disk.read_at(fd, 4, 0) == b"here"
    disk.recover()
    disk.close(disk.open("/f/a"))


def moved(disk: SimulatedDisk) -> SimulatedDisk:
    """With a folder of two files, all durable, which then gets another name and parent, not durable yet."""
    file_of(disk)
    disk.open("/f/b", create=True)
    disk.sync_folder("/f")
    disk.make_folders("/away")
    disk.sync_folder("/")
    disk.rename("/f", "/away/g")
    return disk


def after_power_losses(disk: SimulatedDisk) -> set[tuple[str, ...]]:
    """The names of files that may be left."""
    kept = set()
    for seed in range(50):
        copied = copy.deepcopy(disk)
        copied.lose_power(World(seed).random)
        kept.add(tuple(copied.paths()))
    return kept


BEFORE, AFTER = ("/f/a", "/f/b"), ("/away/g/a", "/away/g/b")


def test_a_folder_that_gets_another_name_keeps_all_its_files_under_one_of_the_two() -> None:
    disk = moved(SimulatedDisk())
    assert disk.paths() == list(AFTER)
    assert after_power_losses(disk) == {BEFORE, AFTER}


@pytest.mark.parametrize("parent", ["/", "/away"])
def test_a_folders_name_is_durable_when_either_of_its_parents_is_synced(parent: str) -> None:
    disk = moved(SimulatedDisk())
    disk.sync_folder(parent)
    assert after_power_losses(disk) == {AFTER}


def test_what_changes_in_a_folder_may_be_lost_and_kept_apart_from_its_name() -> None:
    disk = moved(SimulatedDisk())
    disk.remove("/away/g/a")
    assert after_power_losses(disk) == {BEFORE, AFTER, BEFORE[1:], AFTER[1:]}
    disk.sync_folder("/away")
    assert after_power_losses(disk) == {AFTER, AFTER[1:]}


def test_a_folder_takes_no_name_that_another_one_has() -> None:
    disk = moved(SimulatedDisk())
    disk.make_folders("/f")
    with pytest.raises(OSError, match="not empty"):
        disk.rename("/away/g", "/f")
