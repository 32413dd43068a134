"""Raft under random faults: delay, loss, repetition, disorder, partitions, crashes, stops in order (on a full
disk, too), emptied disks, changes.

`world` checks the invariants after every event. A failure names the command that replays it.
TANK_RAFT_SEEDS=N runs N seeds, TANK_RAFT_SEED=N that one alone; `make long` has the long form.
"""

import os
import random
from collections.abc import Callable

import pytest

from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import Configuration
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tests.controller.raft.world import Node, World

SEEDS = int(os.environ.get("TANK_RAFT_SEEDS", "60"))
LONG_SEEDS = 3000
EVENTS = 700
SETTINGS = Settings(
    election_ticks=6,
    heartbeat_ticks=2,
    max_entry_bytes=200,
    max_append_bytes=120,
    chunk_bytes=16,
    in_flight_appends=4,
    in_flight_bytes=400,
    promote_within_entries=4,
    uncommitted_bytes=2000,
    trailing_entries=3,
)


class Chaos:
    """One seed's story."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(range(1, self.random.choice((1, 3, 3, 3, 5)) + 1), self.random.randrange, SETTINGS)
        self.loss = self.random.choice((0.0, 0.0, 0.1, 0.3))
        self.number = 0

    def run(self, events: int) -> None:
        """Faults, then peace: it must heal."""
        for _ in range(events):
            self.event()
        self.heal()

    def event(self) -> None:
        """Something happens."""
        world, chance = self.world, self.random
        node = chance.choice(list(world.nodes.values()))
        ordinal = node.own.ordinal
        if node.driver is None:
            if chance.random() < 0.3:
                world.start(ordinal)
            return
        match chance.choices(range(10), (40, 20, 12, 12, 5, 0.8, 0.8, 1.5, 1.5, 2))[0]:
            case 0:
                self.deliver(chance.randint(1, 12))
            case 1:
                self.some(world.disk_step)
            case 2:
                self.some(world.tick)
            case 3:
                self.propose(ordinal)
            case 4:
                world.read(self.a_leader(ordinal))
            case 5:
                if chance.random() < 0.5:
                    world.crash(ordinal)
                else:
                    world.stop(ordinal, full=chance.random() < 0.5)
                if chance.random() < 0.6:
                    world.start(ordinal)
            case 6:
                self.cut_or_heal()
            case 7:
                node.storage.snapshot_due = True
            case 8:
                node.raft.broken(chance.choice(list(world.nodes.values())).own)
            case _:
                self.change(node)

    def some(self, what: Callable[[int], object]) -> None:
        """At most of the nodes that run."""
        for node in self.world.running():
            if self.random.random() < 0.7:
                what(node.own.ordinal)

    def deliver(self, count: int) -> None:
        """Any message, mostly an early one; lost or repeated now and then."""
        for _ in range(count):
            network = self.world.network
            if not network:
                return
            at = 0 if self.random.random() < 0.5 else self.random.randrange(len(network))
            message = network[at]
            if self.random.random() >= 0.1:
                del network[at]
            if self.random.random() >= self.loss:
                self.world.deliver(message)
        del self.world.network[:-200]

    def propose(self, ordinal: int) -> None:
        """At the leader, mostly."""
        ordinal = self.a_leader(ordinal)
        self.number += 1
        self.world.propose(ordinal, b"c%d" % self.number)

    def a_leader(self, ordinal: int) -> int:
        """Mostly one of those that believe so, be it one that was deposed; else this node."""
        leaders = [node.own.ordinal for node in self.world.running() if node.raft.role is RaftRole.LEADER]
        return self.random.choice(leaders) if leaders and self.random.random() < 0.8 else ordinal

    def cut_or_heal(self) -> None:
        """A node alone, both ways or one."""
        ordinals = list(self.world.nodes)
        if self.world.cuts:
            self.world.cuts.clear()
            return
        alone = self.a_leader(self.random.choice(ordinals))
        for other in ordinals:
            if other != alone:
                self.world.cuts |= (
                    {(alone, other), (other, alone)} if self.random.random() < 0.7 else {(alone, other)}
                )

    def change(self, node: Node) -> None:
        """Leadership moves; or a disk is emptied, and the node comes back as a new one."""
        world, raft = self.world, node.raft
        if raft.role is not RaftRole.LEADER:
            if len(raft.configuration.voters) >= 3 and self.may_be_emptied(node):
                world.wipe(node.own.ordinal)
                world.start(node.own.ordinal)
            return
        try:
            if (step := self.next_step(raft.configuration)) is not None:
                raft.propose_change(step)
                node.driver.tick()  # type: ignore[union-attr]
            else:
                raft.transfer_leadership(self.random.choice(raft.configuration.voters))
        except ProposalRefusedError:
            pass
        world.check(node)

    def may_be_emptied(self, node: Node) -> bool:
        """Only while all disks are those that the configuration names, and caught up: one loss at a time."""
        world = self.world
        leaders = [n.raft for n in world.running() if n.raft.role is RaftRole.LEADER]
        if not leaders:
            return False
        leader = max(leaders, key=lambda raft: raft.term)
        voters = leader.configuration.voters
        last = max(world.committed, default=0)
        owners = {n.own: n for n in world.nodes.values()}
        return (
            leader.log.configuration_index <= leader.log.commit
            and all(voter in owners for voter in voters)
            and sorted(voters) == sorted(owners)
            and all(
                owners[voter].storage.has(index, world.committed[index][0])
                for voter in voters
                for index in range(max(1, last - 20), last + 1)
                if index in world.committed
            )
        )

    def next_step(self, configuration: Configuration) -> Change | None:
        """Of bringing every node into the cluster under the disk that it has now."""
        for node in self.world.nodes.values():
            own = node.own
            if own in configuration.learners:
                return Change(MembershipChangeKind.PROMOTE, own)
            if own not in configuration.voters:
                return Change(MembershipChangeKind.ADD_LEARNER, own)
        disks = {node.own for node in self.world.nodes.values()}
        gone = [member for member in configuration.members if member not in disks]
        return Change(MembershipChangeKind.REMOVE, gone[0]) if gone else None

    def heal(self) -> None:
        """Faults stop: within bounded time a leader serves again and everybody has everything."""
        world = self.world
        world.cuts.clear()
        for ordinal, node in world.nodes.items():
            if node.driver is None:
                world.start(ordinal)
        self.number += 1
        last = b"c%d" % self.number
        for _ in range(600):
            for ordinal in world.nodes:
                world.tick(ordinal)
            world.flush_disks()
            arrived, world.network = world.network, []
            for message in arrived:
                world.deliver(message)
            world.flush_disks()
            leaders = [node for node in world.running() if node.raft.role is RaftRole.LEADER]
            for leader in leaders:
                if (step := self.next_step(leader.raft.configuration)) is not None:
                    self.try_change(leader, step)
                elif not any(last in node.machine.commands for node in world.running() if node.machine):
                    world.propose(leader.own.ordinal, last)
            if all(node.machine and last in node.machine.commands for node in world.running()):
                return
        raise AssertionError("it doesn't heal")

    def try_change(self, leader: Node, step: Change) -> None:
        """Refused when it isn't time yet."""
        try:
            leader.raft.propose_change(step)
        except ProposalRefusedError:
            return


def run(seed: int, events: int) -> None:
    """One seed; a failure says how to see it again."""
    try:
        Chaos(seed).run(events)
    except Exception as error:
        error.add_note(f"again: TANK_RAFT_SEED={seed} pytest -q tests/controller/raft/test_properties.py")
        raise


def seeds(count: int) -> list[int]:
    """All, or the one that is asked for."""
    return [int(os.environ["TANK_RAFT_SEED"])] if "TANK_RAFT_SEED" in os.environ else list(range(count))


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_and_nobody_contradicts_under_faults(part: int) -> None:
    for seed in seeds(SEEDS)[part::4]:
        run(seed, EVENTS)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_the_same_for_long(part: int) -> None:
    for seed in seeds(LONG_SEEDS)[part::8]:
        run(seed, 2 * EVENTS)
