"""Makes a fault at the worst moment: just when a leader proposes an in-sync set.

Random faults rarely happen in the milliseconds until the controllers have decided on a proposal.
"""

from collections.abc import Mapping, Sequence

from tank_protos.generated import control_pb2 as pb
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.faults import Faults
from tests.simulation.world.network import Network
from tests.simulation.world.world import MS, SECOND, World

OFTEN = 0.3


class Adversary:
    """Sees every proposal before it leaves."""

    def __init__(
        self,
        world: World,
        network: Network,
        faults: Faults,
        brokers: Mapping[int, BrokerMachine],
        controllers: Sequence[str],
    ) -> None:
        self._world = world
        self._network = network
        self._faults = faults
        self._brokers = brokers
        self._controllers = controllers

    def proposed(self, leader: BrokerMachine, change: pb.ChangeInSync) -> None:
        """The leader is about to send this."""
        world = self._world
        if not self._faults.active or not change.sets or not world.chance(OFTEN):
            return
        named = world.random.choice(list(change.sets)).in_sync
        others = [member.broker_id for member in named if member.broker_id != leader.broker_id]
        if not others:
            return
        victim = self._brokers[world.random.choice(others)]
        strike = world.random.choice((self._restart, self._fail_sync, self._kill_leader))
        strike(leader, victim)

    def _hold(self, leader: BrokerMachine) -> None:
        """The proposal waits on its way."""
        if not self._network.cuts:
            self._network.cut([leader.name], list(self._controllers), one_way=True)
            self._world.after(self._world.between(100, 800) * MS, None, self._network.heal)

    def _restart(self, leader: BrokerMachine, victim: BrokerMachine) -> None:
        world = self._world
        world.fault("restart of a member as it is proposed", "%s by %s", victim.name, leader.name)
        self._hold(leader)
        power = world.chance(0.7)

        def strike() -> None:
            if victim.life is not None:
                victim.end(power)
                victim.start()

        world.after(world.between(1, 20 * MS), None, strike)

    def _fail_sync(self, leader: BrokerMachine, victim: BrokerMachine) -> None:
        self._world.fault("failed fsync of a member as it is proposed", "%s by %s", victim.name, leader.name)
        self._hold(leader)
        victim.disk.failing_syncs += 1

    def _kill_leader(self, leader: BrokerMachine, victim: BrokerMachine) -> None:
        """And the member that it wanted has a slow disk: so the next leader finds it nearly there."""
        world = self._world
        world.fault("death of a leader as it proposes", "%s, who proposes %s", leader.name, victim.name)
        victim.slow_until = world.now + 2 * SECOND

        def strike() -> None:
            if leader.life is not None:
                leader.end(False)

        world.after(1, None, strike)
