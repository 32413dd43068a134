"""The simulated network and disk do what real ones do."""

import pytest

from tests.simulation.disks import SimulatedDisk
from tests.simulation.network import End, Network, Weather
from tests.simulation.world import SECOND, Life, ProcessEnded, World


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
