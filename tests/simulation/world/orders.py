"""The orders of a story's operators to a running cluster: other settings, moves, drains, elections."""

from collections.abc import Callable

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.state import ClusterState
from tank_node.cluster.link import TopicAlteration, TopicOutcome
from tank_protos.generated import control_pb2 as pb
from tests.simulation.ingredients import Ingredient, Wanted
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.controllers import Cluster


class Orders:
    """Gives one now and then."""

    def __init__(
        self,
        cluster: Cluster,
        brokers: dict[int, BrokerMachine],
        wanted: list[Wanted],
        among: frozenset[Ingredient],
    ) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._brokers = brokers
        self._wanted = wanted
        self._kinds: list[Callable[[ClusterState], None]] = []
        if Ingredient.SETTINGS in among:
            self._kinds += [self._alter, self._alter]
        if Ingredient.MOVES in among:
            self._kinds += [self._move, self._drain, self._prefer, self._cancel]
        if Ingredient.UNCLEAN in among:
            self._kinds.append(self._elect)

    def give(self) -> None:
        """One of those that this story has."""
        state = self._state()
        if self._kinds and state is not None and state.topics and self._world.chance(0.5):
            self._world.random.choice(self._kinds)(state)

    def end(self) -> None:
        """Nobody is drained any more."""
        state = self._state()
        for broker_id, broker in state.brokers.items() if state is not None else ():
            if broker.draining:
                self._set(broker_id, draining=False)

    def _state(self) -> ClusterState | None:
        leader = self._cluster.leader()
        return None if leader is None or leader.machine is None else leader.machine.state

    def _propose(self, command: pb.Command, what: str) -> None:
        leader = self._cluster.leader()
        if leader is None or leader.life is None or leader.proposals is None:
            return
        self._world.counts["orders"] += 1
        self._world.say("ORDER", "%s", what)
        command.now_ms = self._world.now_ms()
        proposals = leader.proposals

        def done(outcome: CommandOutcome) -> None:
            if outcome.rejection is not None:
                self._world.say("ORDER", "%s is refused: %s", what, outcome.rejection.message)

        self._world.after(0, leader.life, lambda: proposals.propose(command, done))

    # --- settings ---

    def _alter(self, state: ClusterState) -> None:
        chance = self._world.random
        wanted = chance.choice(self._wanted)
        machine = chance.choice(list(self._brokers.values()))
        link, life = machine.link, machine.life
        if not wanted.topic_id or link is None or life is None:
            return
        settings: dict[str, str | None] = {
            "min.insync.replicas": chance.choice((None, "1", str(wanted.replication_factor)))
        }
        if chance.random() < 0.7:
            settings = {"flush": chance.choice(("disk", "replicated"))}
        self._world.counts["settings altered"] += 1
        self._world.say("ORDER", "%s gets %s", wanted.name, tuple(settings.items()))

        def done(outcome: TopicOutcome) -> None:
            """Whatever it is."""

        change = TopicAlteration(wanted.name, settings=settings)
        self._world.after(0, life, lambda: link.requests.alter_topic(change, done))

    # --- placement ---

    def _any_partition(self, state: ClusterState) -> tuple[int, int]:
        topic = self._world.random.choice(list(state.topics.values()))
        return topic.topic_id, self._world.random.randrange(len(topic.partitions))

    def _move(self, state: ClusterState) -> None:
        topic_id, number = self._any_partition(state)
        count = len(state.topics[topic_id].partitions[number].replicas)
        known = sorted(state.brokers)
        if count > len(known):
            return
        replicas = self._world.random.sample(known, count)
        placed = pb.Placed(topic_id=topic_id, partition=number, replicas=replicas)
        self._propose(
            pb.Command(reassign=pb.Reassign(partitions=[placed])), f"move {topic_id}/{number} to {replicas}"
        )

    def _cancel(self, state: ClusterState) -> None:
        topic_id, number = self._any_partition(state)
        ref = pb.PartitionRef(topic_id=topic_id, partition=number)
        self._propose(
            pb.Command(cancel_reassign=pb.CancelReassign(partitions=[ref])),
            f"end the move of {topic_id}/{number}",
        )

    def _drain(self, state: ClusterState) -> None:
        if not state.brokers:
            return
        broker_id = self._world.random.choice(sorted(state.brokers))
        self._set(broker_id, draining=not state.brokers[broker_id].draining)

    def _set(self, broker_id: int, *, draining: bool) -> None:
        change = pb.SetBroker(broker_id=broker_id, draining=draining)
        self._propose(pb.Command(set_broker=change), f"{'drain' if draining else 'fill'} broker {broker_id}")

    # --- elections ---

    def _prefer(self, state: ClusterState) -> None:
        self._elect_one(state, unclean=False)

    def _elect(self, state: ClusterState) -> None:
        self._elect_one(state, unclean=True)

    def _elect_one(self, state: ClusterState, *, unclean: bool) -> None:
        kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
        topic_id, number = self._any_partition(state)
        ref = pb.PartitionRef(topic_id=topic_id, partition=number)
        self._propose(
            pb.Command(elect_leader=pb.ElectLeader(kind=kind, partitions=[ref])),
            f"elect a leader of {topic_id}/{number}, {'unclean' if unclean else 'preferred'}",
        )
