"""A story of a whole cluster: controllers, brokers, producers and consumers, and everything that fails."""

from dataclasses import dataclass, field

from tank_controller.cluster_state import ClusterState
from tank_node.controller_link import NewTopic, TopicOutcome
from tank_node.log.log import LogState
from tank_protos.error_codes import ErrorCode
from tests.simulation import faults
from tests.simulation.brokers import BrokerMachine
from tests.simulation.client_lines import ClientLine
from tests.simulation.clients import PAUSES_US, Client, Consumer, IdempotentProducer, Producer, Target
from tests.simulation.controllers import Cluster, Controller
from tests.simulation.faults import Faults, Machine
from tests.simulation.message_books import MessageBooks
from tests.simulation.network import Network, Weather
from tests.simulation.replicas import differences
from tests.simulation.serving import Addresses
from tests.simulation.world import MS, SECOND, World, must

HEALS_WITHIN_US = 90 * SECOND
"""After the last fault every partition takes writes again, and its replicas are the same, within so long."""


@dataclass(slots=True)
class Wanted:
    """A topic that somebody wants, until it exists."""

    name: str
    partitions: int
    replication_factor: int
    settings: dict[str, str] = field(default_factory=dict)
    fleeting: bool = False
    """It is deleted and made again under its name, now and then."""
    topic_id: int = 0
    deleted: set[int] = field(default_factory=set)
    """Ids that somebody asked to delete."""
    clients: list[Client] = field(default_factory=list)
    """Those of the topic that is there."""


class ClusterStory:
    """One cluster's."""

    def __init__(self, seed: int) -> None:
        world = self.world = World(seed)
        chance = world.random
        weather = Weather(
            loss=chance.choice((0.0, 0.0, 0.02)),
            doubled=chance.choice((0.0, 0.05)),
            slow=chance.choice((0.0, 0.0, 0.05)),
            slow_us=chance.choice((300, 1500)) * MS,
            usual_us=chance.choice((1, 1, 10)) * MS,
        )
        self.network = Network(world, weather)
        self.cluster = Cluster(world, self.network, chance.choice((1, 3, 3)))
        self.addresses = Addresses()
        self.books = MessageBooks(world)
        self.cluster.metadata_books.on_lossy = self.books.lossy
        self.cluster.metadata_books.on_in_sync = self.books.in_sync
        self.books.replica = lambda broker_id, key: self.brokers[broker_id].replica(key)
        self.brokers = {
            n: BrokerMachine(self.cluster, self.network, self.addresses, self.books, n)
            for n in range(1, chance.choice((3, 3, 4, 5)) + 1)
        }
        machines: list[Machine] = [*self.cluster.nodes.values(), *self.brokers.values()]
        self.faults = Faults(world, self.network, machines, faults.plan(world), self._empty, self._swap)
        self.clients: list[Client] = []
        self.length_us = chance.choice((10, 15, 25)) * SECOND
        self._wanted = [self._topic(n) for n in range(chance.choice((1, 1, 2)))]
        if chance.random() < 0.5:
            self._wanted.append(self._topic(9))
            self._wanted[-1].fleeting = True

    def _topic(self, number: int) -> Wanted:
        chance = self.world.random
        settings = {"flush": chance.choice(("disk", "disk", "disk", "replicated"))}
        if chance.random() < 0.7:  # a stretch ends with its segment: few bytes, many stretches
            settings["log.segment.bytes"] = str(chance.choice((300, 600, 3000)))
        factor = chance.choice((1, 2, 3, 3, 3))
        return Wanted(f"t{number}", chance.choice((1, 2)), factor, settings)

    # --- the story ---

    def run(self) -> None:
        """From birth to peace."""
        world = self.world
        for node in self.cluster.nodes.values():
            node.start()
        world.after(SECOND, None, self._watch)
        world.after(world.between(2 * SECOND, 6 * SECOND), None, self.faults.begin)
        world.run_until(self.length_us)
        self._heal()

    def _watch(self) -> None:
        """What somebody looks after now and then."""
        self.world.after(SECOND, None, self._watch)
        for machine in self.brokers.values():
            if machine.life is None and (not self.faults.active or self.world.chance(0.5)):
                machine.start()
        self.faults.watch()
        for wanted in self._wanted:
            if not wanted.topic_id:
                self._create(wanted)
            elif wanted.fleeting and self.faults.active and self.world.chance(0.2):
                self._delete(wanted)

    def _create(self, wanted: Wanted) -> None:
        ready = [m for m in self.brokers.values() if m.broker is not None and m.life is not None]
        if not ready:
            return
        machine = self.world.random.choice(ready)
        view = machine.link.view.topic(wanted.name) if machine.link is not None else None
        if view is not None and view.topic_id in wanted.deleted:
            self._ask_to_delete(machine, wanted.name)  # nobody heard it the last time
            return
        new = NewTopic(wanted.name, wanted.partitions, wanted.replication_factor, wanted.settings)

        def done(outcome: TopicOutcome) -> None:
            if outcome.error == ErrorCode.NONE and not wanted.topic_id:
                wanted.topic_id = outcome.topic_id
                self._use(wanted)
            elif outcome.error == ErrorCode.TOPIC_EXISTS and not wanted.topic_id and machine.link is not None:
                view = machine.link.view.topic(wanted.name)
                if view is not None and view.topic_id not in wanted.deleted:
                    wanted.topic_id = view.topic_id
                    self._use(wanted)

        def create() -> None:
            if machine.link is not None:
                machine.link.create_topic(new, done)

        self.world.after(0, machine.life, create)

    def _delete(self, wanted: Wanted) -> None:
        """With everybody who uses it; it is made again the next time that somebody looks."""
        machine = self.world.random.choice(list(self.brokers.values()))
        if machine.life is None or machine.broker is None:
            return
        for client in wanted.clients:
            client.retire()
            self.clients.remove(client)
        topic_id, wanted.clients = wanted.topic_id, []
        wanted.deleted.add(topic_id)
        self.world.fault("topic deleted", "%s, %s", wanted.name, topic_id)

        wanted.topic_id = 0
        self._ask_to_delete(machine, wanted.name)

    def _ask_to_delete(self, machine: BrokerMachine, name: str) -> None:
        def done(outcome: TopicOutcome) -> None:
            """Whatever it is: the view of whoever creates it next says which one is there."""

        def delete() -> None:
            if machine.link is not None:
                machine.link.delete_topic(name, done)

        self.world.after(0, machine.life, delete)

    def _use(self, wanted: Wanted) -> None:
        """Producers and consumers for each of its partitions."""
        world = self.world
        world.say("STORY", "topic %s is %s", wanted.name, wanted.topic_id)
        for number in range(wanted.partitions):
            target = Target(wanted.name, wanted.topic_id, number)
            pause = world.random.choice(PAUSES_US)
            name = f"{wanted.name}-{wanted.topic_id}/{number}"
            for client in (
                Producer(world, self.books, target, pause, f"p{name}"),
                IdempotentProducer(world, self.books, target, pause, f"i{name}"),
                Consumer(world, self.books, target, pause, f"r{name}"),
            ):
                client.line = ClientLine(
                    self.network, self.addresses, self.brokers, client.name, client.heard, client.lost
                )
                self.clients.append(client)
                wanted.clients.append(client)
                client.act()

    def _empty(self, machine: Machine) -> bool:
        """Whether the disk was emptied: only where somebody else surely has everything."""
        if isinstance(machine, Controller):
            if not self.cluster.may_be_emptied(machine):
                return False
            machine.empty()
            return True
        assert isinstance(machine, BrokerMachine)
        state = self._state()
        if state is None or machine.broker is None:
            return False
        for topic in state.topics.values():
            for partition in topic.partitions:
                if machine.broker_id not in partition.replicas:
                    continue
                if len(partition.in_sync) < 2 or topic.settings.get("flush") != "disk":
                    return False
        machine.empty()
        return True

    def _swap(self, machine: Machine) -> bool:
        """Two brokers come back at each other's address, faster than anybody notices or slower."""
        if not isinstance(machine, BrokerMachine) or machine.life is None:
            return False
        other = self.world.random.choice(list(self.brokers.values()))
        if other is machine or other.life is None:
            return False
        for one in (machine, other):
            one.end(False)
        machine.host, other.host = other.host, machine.host
        for one in (machine, other):
            self.world.after(self.world.between(1, SECOND), None, lambda one=one: self._start(one))  # type: ignore[misc]
        return True

    def _start(self, machine: BrokerMachine) -> None:
        if machine.life is None:
            machine.start()

    def _state(self) -> ClusterState | None:
        """The metadata as the leading controller has it."""
        leader = self.cluster.leader()
        return None if leader is None or leader.machine is None else leader.machine.state

    # --- peace ---

    def _heal(self) -> None:
        world = self.world
        world.say("STORY", "faults stop")
        self.faults.stop()
        self.network.weather = Weather()
        for machine in self.brokers.values():
            if machine.broker is not None and any(
                partition.log.state is LogState.FAILED for partition in machine.broker.partitions()
            ):
                machine.end(False)  # somebody starts a broker again whose disk has failed
                machine.start()
        answered = {client: client.answered for client in self.clients}

        def serves() -> bool:
            fresh = all(client.answered > answered.get(client, 0) + 2 for client in self.clients)
            return fresh and all(wanted.topic_id for wanted in self._wanted)

        done = world.run_until(world.now + HEALS_WITHIN_US, serves)
        must(done, "the cluster did not heal: %s", self._who_waits(answered))
        for client in self.clients:
            client.active = isinstance(client, Consumer)
        done = world.run_until(world.now + HEALS_WITHIN_US, lambda: not self._complaint())
        must(done, "the cluster did not come to rest: %s", self._complaint())
        self.books.check_acknowledged()

    def _who_waits(self, answered: dict[Client, int]) -> str:
        waiting = [
            f"{client.name} at {client.target.key}"
            for client in self.clients
            if isinstance(client, Producer | Consumer) and client.answered <= answered.get(client, 0) + 2
        ]
        state = self._state()
        shown = "no leading controller"
        if state is not None:
            shown = "; ".join(
                f"{topic.topic_id}/{n}: leader {p.leader} epoch {p.leader_epoch} in sync {p.in_sync}"
                for topic in state.topics.values()
                for n, p in enumerate(topic.partitions)
            )
        return f"{waiting or 'topics were not created'}; {shown}"

    def _complaint(self) -> str:
        state = self._state()
        if state is None:
            return "no controller leads"
        for topic in state.topics.values():
            for number, partition in enumerate(topic.partitions):
                key = topic.topic_id, number
                where = f"{key[0]}/{key[1]}"
                if sorted(partition.in_sync) != sorted(partition.replicas):
                    return f"{where} has {partition.in_sync} of {partition.replicas} in sync"
                found = [self.brokers[broker_id].replica(key) for broker_id in partition.replicas]
                if problem := differences(found, partition.lossy_epoch):
                    return f"{where}: {problem}"
        for client in self.clients:
            books = self.books.of(client.target.key)
            if isinstance(client, Consumer) and client.next <= books.end and not books.lossy:
                return f"{client.name} has not read everything"
        return ""
