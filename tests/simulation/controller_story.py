"""The story of controllers without brokers: operators change and read the metadata while faults happen."""

import copy
from functools import partial

from tank_controller.raft.messages import NodeId
from tests.simulation.world import faults, operators
from tests.simulation.world.controller_rot import spoil
from tests.simulation.world.controllers import Cluster, Controller
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.faults import LEADER_AWAY, Faults, Machine
from tests.simulation.world.network import Network, Weather
from tests.simulation.world.operators import Operator, Watcher
from tests.simulation.world.world import MS, SECOND, World, must

HASTY_SHARE = 0.5
"""Of the stories: each election is disturbed, see `faults.hasty_plan`."""
TRUSTING_SHARE = 0.4
"""Of those: controllers trust their disks, which nothing spoils or puts back. Else they ask the others what
they may have forgotten, and a mistake in what they keep does no harm."""
HEALS_WITHIN_US = 60 * SECOND
"""After the last fault everything serves again within so much virtual time."""


class ControllerStory:
    """Controllers alone, with people who change the metadata."""

    def __init__(self, seed: int) -> None:
        world = self.world = World(seed)
        chance = world.random
        is_hasty = chance.random() < HASTY_SHARE
        weather = Weather(
            loss=chance.choice((0.0, 0.0, 0.02, 0.2)),
            doubled=chance.choice((0.0, 0.05, 0.2)),
            slow=0.3 if is_hasty else chance.choice((0.0, 0.05, 0.3)),
            slow_us=chance.choice((300, 2000)) * MS,
            usual_us=chance.choice((1, 1, 20, 150, 500)) * MS,
        )
        self.network = Network(world, weather)
        self.cluster = Cluster(world, self.network, chance.choice((3, 3, 5) if is_hasty else (1, 3, 3, 3, 5)))
        machines = list(self.cluster.nodes.values())
        own = {"emptied disk": self.empty, LEADER_AWAY: self._lose_leader}
        if is_hasty and chance.random() < TRUSTING_SHARE:
            self.cluster.recollects = False
        else:
            own |= {"folder put back": self._put_back, "changed bytes": self._spoil}
        plan = faults.hasty_plan(world) if is_hasty else faults.plan(world)
        self.faults = Faults(world, self.network, machines, plan, own)
        self.operators = [
            Operator(self.cluster, f"o{n}", operators.any_command, chance.choice((20, 100, 400)) * MS)
            for n in range(1, chance.choice((2, 4, 6)))
        ]
        self.watcher = Watcher(self.cluster, chance.choice((20, 100, 300)) * MS)
        self.length_us = chance.choice((5, 10, 20)) * SECOND
        self.removes = len(self.cluster.nodes) > 2 and chance.random() < (0.5 if is_hasty else 0.3)
        """People remove controllers, and put them up again with an empty disk."""
        self._removed: set[NodeId] = set()
        self.disk_stays_full = chance.random() < 0.25 and not self.removes

    def run(self) -> None:
        """From birth to peace."""
        world = self.world
        for node in self.cluster.nodes.values():
            world.after(world.between(0, 2 * SECOND), None, lambda node=node: self._start(node))  # type: ignore[misc]
        world.after(world.between(0, 3 * SECOND), None, self.faults.begin)
        world.after(SECOND, None, self._watch)
        world.after(SECOND, None, self.watcher.act)
        for operator in self.operators:
            world.after(SECOND, None, operator.act)
        world.run_until(self.length_us)
        self._heal()

    def _start(self, node: Controller) -> None:
        if node.life is None:
            node.start()

    def _watch(self) -> None:
        """What somebody looks after now and then."""
        self.faults.watch()
        if self.world.chance(0.1):
            operators.transfer(self.cluster)
        if self.removes and self.faults.active and self.world.chance(0.3):
            self._removed |= operators.remove(self.cluster, self.world.between(1, 2))
            if self.world.chance(0.5):
                self.world.after(self.world.between(1, 5 * MS), None, self.faults.cut_somewhere)
        operators.bring_back(self.cluster, self._removed)
        self.world.after(SECOND, None, self._watch)

    def empty(self, machine: Machine) -> bool:
        if not isinstance(machine, Controller) or not self.cluster.may_be_emptied(machine):
            return False
        machine.empty()
        return True

    def _lose_leader(self, _: Machine) -> bool:
        """The leader stands still and is cut off until another one leads and has changed something. Then it
        goes on, and is asked before it hears of that."""
        leader = self.cluster.leader()
        if leader is None or leader.life is None or leader.life.frozen or self.network.cuts:
            return False
        self.world.fault(LEADER_AWAY, "%s", leader.name)
        life = leader.life
        others = [node.name for node in self.cluster.nodes.values() if node is not leader]
        self.network.cut([leader.name], others, one_way=False)
        life.frozen = True
        away = self.world.random.choice((1500, 3000)) * MS
        self.world.after(away, None, self.watcher.look)
        self.world.after(away + 5 * MS, None, lambda: self.faults.thaw(life))
        self.world.after(away + 100 * MS, None, self.network.heal)
        return False  # it is counted, and nothing is to be started again

    def _spoil(self, machine: Machine) -> bool:
        if not isinstance(machine, Controller) or not self.cluster.may_be_emptied(machine):
            return False
        return spoil(self.world, machine)

    def _put_back(self, machine: Machine) -> bool:
        """It is killed, and soon afterwards has the disk that it had then."""
        if not isinstance(machine, Controller) or not self._may_be_put_back(machine):
            return False
        machine.end(False)
        earlier, own = copy.deepcopy(machine.disk), machine.own
        machine.start()
        delay = self.world.between(500 * MS, 5 * SECOND)
        self.world.after(delay, None, partial(self._rewind, machine, own, earlier))
        return True

    def _may_be_put_back(self, node: Controller) -> bool:
        """Only while all is quiet: each disk has all that was ever promised, in one term."""
        if not self.cluster.may_be_emptied(node) or self.network.cuts:
            return False
        commit = node.raft.log.commit
        nodes = [each for each in self.cluster.nodes.values() if each.driver is not None]
        is_still = len(nodes) == len(self.cluster.nodes) and len({each.raft.term for each in nodes}) == 1
        return is_still and all(each.raft.log.last_index == each.raft.log.commit == commit for each in nodes)

    def _rewind(self, machine: Controller, own: NodeId, earlier: SimulatedDisk) -> None:
        if machine.own != own or not self.faults.active or not self._may_be_put_back(machine):
            return
        self.world.fault("folder put back", "of %s", machine.name)
        machine.end(self.world.chance(0.5))
        machine.put_back(copy.deepcopy(earlier))
        machine.start()

    def _heal(self) -> None:
        """Faults stop: within bounded time everybody who asked is answered, and all have the same state."""
        world, cluster = self.world, self.cluster
        world.say("STORY", "faults stop")
        self.faults.stop()
        self.network.weather = Weather()
        self.watcher.active = False
        for operator in self.operators:
            operator.active = False
        world.after(SECOND, None, self._keep_up)
        leader = cluster.leader()
        if self.disk_stays_full and leader is not None and cluster.may_be_spared(leader):
            self.faults.fill_for_good(leader)
            answered = self.operators[0].answered
            done = world.run_until(
                world.now + HEALS_WITHIN_US, lambda: self.operators[0].answered > answered + 2
            )
            must(done, "nothing can be changed while the disk of %s is full", leader.name)
            self.faults.make_room()
        done = world.run_until(world.now + HEALS_WITHIN_US, self._is_well)
        must(done, "the cluster did not heal: %s", self._complaint())
        states = {
            node.machine.state.snapshot() for node in cluster.nodes.values() if node.machine is not None
        }
        must(len(states) == 1, "the controllers ended with different states")

    def _keep_up(self) -> None:
        """Somebody goes on asking, so that whoever is behind hears of something new."""
        self.faults.stop()
        operator = self.operators[0]
        if not operator.is_waiting:
            operator.ask(operators.any_command(self.world, operator).SerializeToString())
        if not self._is_well():
            self.world.after(2 * SECOND, None, self._keep_up)

    def _is_well(self) -> bool:
        return not self._complaint()

    def _complaint(self) -> str:
        leader = self.cluster.leader()
        if leader is None:
            return "nobody leads"
        raft = leader.raft
        if not raft.own_term_committed:
            return f"{leader.name} commits nothing"
        for node in self.cluster.nodes.values():
            if node.driver is None:
                return f"{node.name} belongs to no cluster"
            same = [member for member in raft.configuration.members if member.ordinal == node.ordinal]
            if node.own not in raft.configuration.voters or same != [node.own]:
                return f"{node.name} does not vote"
            if node.driver.applied != raft.log.commit:
                return f"{node.name} is behind"
        for operator in self.operators:
            if operator.is_waiting:
                return f"{operator.name} waits for an answer"
        return "" if self.world.counts["metadata writes"] else "nothing was ever written"
