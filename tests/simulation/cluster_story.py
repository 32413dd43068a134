"""The story of a whole cluster: controllers, brokers, producers and consumers, with faults of all kinds."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tank_controller.state.state import ClusterState
from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.log.log import LogState, PartitionLog
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import FlushPolicy
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.changed_byte import change
from tests.simulation.books.committed import Committed
from tests.simulation.books.group_books import GroupBooks
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.books.replicas import damage, differences
from tests.simulation.books.stored_batches import is_whole
from tests.simulation.clients.client_mix import clients_of
from tests.simulation.clients.clients import Client, Target
from tests.simulation.clients.consumers import Consumer
from tests.simulation.clients.group_members import GroupMember
from tests.simulation.clients.group_swarm import SETTLES_US, GroupSwarm
from tests.simulation.clients.kafka_producers import KafkaProducer
from tests.simulation.clients.producers import Producer
from tests.simulation.iggy.iggy_crowd import IggyCrowd
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.ingredients import Ingredient, Wanted, any_topic, ingredients
from tests.simulation.world import faults
from tests.simulation.world.adversary import Adversary
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.controller_rot import spoil
from tests.simulation.world.controllers import Cluster, Controller
from tests.simulation.world.faults import UNDER_A_BROKER, Faults, Machine
from tests.simulation.world.network import Network, Weather
from tests.simulation.world.orders import Orders
from tests.simulation.world.serving import Addresses
from tests.simulation.world.world import MS, SECOND, World, must

HEALS_WITHIN_US = 90 * SECOND
"""After the last fault every partition takes writes again, and its replicas are the same, within so long."""
_WRITERS = (Producer, KafkaProducer, GroupMember)


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
        self.group_books = GroupBooks(self.books)
        self.swarm = GroupSwarm(seed)
        self.cluster.metadata_books.on_lossy = self._lossy
        self.cluster.metadata_books.on_in_sync = self._in_sync
        self.books.replica = lambda broker_id, key: self.brokers[broker_id].replica(key)
        self.brokers = {
            n: BrokerMachine(self.cluster, self.network, self.addresses, self.books, n)
            for n in range(1, chance.choice((3, 3, 4, 5)) + 1)
        }
        self.among = ingredients(world)
        self.iggy = IggyCrowd(seed, IggyLedger(world, self.books, self.cluster.metadata_books))
        self._wanted = [any_topic(world, n, self.among) for n in range(chance.choice((1, 1, 2)))]
        # What is forwarded goes by the view of two brokers: the books could not tell by which topic's id.
        if chance.random() < 0.5 and Ingredient.FORWARDING not in self.among:
            self._wanted.append(any_topic(world, 9, self.among))
            self._wanted[-1].fleeting = True
        if self.among & {Ingredient.GROUPS, Ingredient.IGGY}:
            self._wanted.append(self.swarm.topic())
        self.orders = Orders(self.cluster, self.brokers, self._wanted, self.among)
        machines: list[Machine] = [*self.cluster.nodes.values(), *self.brokers.values()]
        own = {
            "emptied disk": self.empty,
            "folder put back": self._put_back,
            "address reused": self._swap,
            "clean stop": self._stop,
        }
        if Ingredient.ROT in self.among:
            own |= {"changed bytes": partial(self._damage, index=False)}
            own |= {"lost index": partial(self._damage, index=True)}
            own |= {UNDER_A_BROKER: lambda machine: self._damage_below()}
        self._configure(weather)
        self.faults = Faults(world, self.network, machines, faults.plan(world), own)
        if Ingredient.PROPOSALS in self.among:
            names = [node.name for node in self.cluster.nodes.values()]
            adversary = Adversary(world, self.network, self.faults, self.brokers, names)
            for machine in self.brokers.values():
                machine.proposes = partial(adversary.proposed, machine)
        self._emptied: dict[tuple[Key, int], int] = {}
        """By partition and broker: where the partition ended when the broker's disk was emptied last."""
        self.clients: dict[str, list[Client]] = {}
        """By topic's name: those of the topic that is there."""
        self.length_us = chance.choice((8, 12, 20)) * SECOND

    def _configure(self, weather: Weather) -> None:
        """Brokers and network, by what the story is made of."""
        chance = self.world.random
        if Ingredient.CATCH_UP in self.among:
            for machine in self.brokers.values():
                machine.limits = replace(
                    machine.limits,
                    catch_up_from_bytes=chance.choice((200, 3000)),
                    catch_up_bytes_per_s=chance.choice((1000, 20_000, 64 << 20)),
                )
        for machine in self.brokers.values():
            machine.new_member_id = self.group_books.new_member_id
            if self.among & {Ingredient.GROUPS, Ingredient.IGGY}:
                machine.groups = self.swarm.settings
                machine.limits = replace(machine.limits, group_sweep_ms=self.swarm.sweep_ms)
        if Ingredient.FORWARDING in self.among:
            for machine in self.brokers.values():
                machine.forwarding = chance.choice((ForwardingPolicy.AUTO, ForwardingPolicy.ALWAYS))
        if Ingredient.DEFAULT_FLUSH in self.among:
            defaults = chance.choice(((FlushPolicy.REPLICATED,), (FlushPolicy.REPLICATED, FlushPolicy.DISK)))
            for machine in self.brokers.values():
                machine.default_flush = partial(chance.choice, defaults)
        for machine in self.brokers.values():
            machine.fsyncs_overlap = Ingredient.OVERLAP in self.among
        if Ingredient.PIECES in self.among:
            weather.pieces = chance.choice((0.05, 0.3))

    # --- the story ---

    def run(self) -> None:
        """From birth to peace."""
        world = self.world
        made_of = sorted(one.name.lower().replace("_", " ") for one in self.among)
        world.say("STORY", "is made of %s; topics %s", made_of, [(w.name, w.settings) for w in self._wanted])
        if Ingredient.IGGY in self.among:
            self.iggy.begin(self.network, self.addresses, self.brokers)
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
        if self.faults.active:
            self.orders.give()
        else:
            self.orders.end()
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
        new.is_internal = wanted.name == GROUPS_TOPIC

        def done(outcome: TopicOutcome) -> None:
            if wanted.topic_id or outcome.topic_id in wanted.deleted:
                return  # somebody was quicker; or the answer is late, and it is to go already
            if outcome.error == ErrorCode.NONE:
                wanted.topic_id = outcome.topic_id
                self._use(wanted)
            elif outcome.error == ErrorCode.TOPIC_EXISTS and machine.link is not None:
                view = machine.link.view.topic(wanted.name)
                if view is not None and view.topic_id not in wanted.deleted:
                    wanted.topic_id = view.topic_id
                    self._use(wanted)

        def create() -> None:
            if machine.link is not None:
                machine.link.requests.create_topic(new, done)

        self.world.after(0, machine.life, create)

    def _delete(self, wanted: Wanted) -> None:
        """With everybody who uses it; it is made again the next time that somebody looks."""
        machine = self.world.random.choice(list(self.brokers.values()))
        if machine.life is None or machine.broker is None:
            return
        for client in self.clients.pop(wanted.name, ()):
            client.retire()
        topic_id = wanted.topic_id
        wanted.deleted.add(topic_id)
        self.world.fault("topic deleted", "%s, %s", wanted.name, topic_id)

        wanted.topic_id = 0
        self._ask_to_delete(machine, wanted.name)

    def _ask_to_delete(self, machine: BrokerMachine, name: str) -> None:
        def done(outcome: TopicOutcome) -> None:
            """Whatever it is: the view of whoever creates it next says which one is there."""

        def delete() -> None:
            if machine.link is not None:
                machine.link.requests.delete_topic(name, done)

        self.world.after(0, machine.life, delete)

    def _use(self, wanted: Wanted) -> None:
        """Clients for each of its partitions."""
        self.world.say("STORY", "topic %s is %s", wanted.name, wanted.topic_id)
        clients = self.clients[wanted.name] = []
        for number in range(wanted.partitions):
            target = Target(wanted.name, wanted.topic_id, number)
            books = self.books.of(target.key)
            books.retains, books.compacts = wanted.retains, wanted.compacts
            for client in self._clients_of(wanted, target):
                client.open_line(self.network, self.addresses, self.brokers)
                clients.append(client)
                client.act()

    def _clients_of(self, wanted: Wanted, target: Target) -> Iterator[Client]:
        if wanted.name == GROUPS_TOPIC:
            if Ingredient.GROUPS not in self.among:
                return iter(())
            topics = [each for each in self._wanted if not each.fleeting and each is not wanted]
            return self.swarm.members_of(self.world, self.books, self.group_books, target, topics)
        partitions = sum(each.partitions for each in self._wanted)
        return clients_of(self.world, self.books, self.among, wanted, target, partitions)

    def empty(self, machine: Machine) -> bool:
        """Whether the disk was emptied: only where somebody else surely has everything."""
        if isinstance(machine, Controller):
            if not self.cluster.may_be_emptied(machine):
                return False
            machine.empty()
            return True
        assert isinstance(machine, BrokerMachine)
        if not self._may_lose_its_disk(machine):
            return False
        machine.empty()
        return True

    def _put_back(self, machine: Machine) -> bool:
        """Whether a broker's disk is an earlier state of itself now: where others surely have everything."""
        if not isinstance(machine, BrokerMachine) or machine.earlier is None:
            return False
        if not self._may_lose_its_disk(machine):
            return False
        machine.end(False)
        machine.put_back(machine.earlier)
        return True

    def _may_lose_its_disk(self, machine: BrokerMachine) -> bool:
        """Whether others have all that it holds. Then it is noted that it lacks it from now on."""
        state = self._state()
        if state is None or machine.broker is None:
            return False
        held = [
            (topic.topic_id, number)
            for topic in state.topics.values()
            for number, partition in enumerate(topic.partitions)
            if machine.broker_id in partition.replicas
        ]
        if not all(self._others_have(state, key, machine) for key in held):
            return False
        self._emptied |= {(key, machine.broker_id): self.books.of(key).end for key in held}
        return True

    def _others_have(self, state: ClusterState, key: Key, machine: BrokerMachine) -> bool:
        """Whether all others in sync, one at least, hold everything that is committed, whole and synced. One
        of them stays: what a replica that moves away has is gone before the change may be found."""
        topic = state.topics[key[0]]
        placed = topic.partitions[key[1]]
        others = [each for each in placed.in_sync if each != machine.broker_id]
        stay = [each for each in others if each not in placed.removing]
        if not stay or topic.settings.get("flush") != "disk" or topic.was_replicated:
            return False
        end = self.books.of(key).end
        for broker_id in others:
            replica = self.brokers[broker_id].replica(key)
            if replica is None or replica.log.synced < end or not is_whole(replica.log):
                return False
        return True

    def _in_sync(self, state: ClusterState, key: Key, members: tuple[int, ...]) -> None:
        """The controllers' log has another in-sync set, or a new partition. Brokers may have made the
        internal topic themselves."""
        if state.topics[key[0]].name == GROUPS_TOPIC:
            self.books.of(key).compacts = True
        self.books.in_sync(key, members)

    def _lossy(self, state: ClusterState, key: Key, epoch: int) -> None:
        """An election that says that it may have lost something. Under flush=disk nothing that fails here can
        take what was acknowledged, but changed bytes and people who allow it."""
        topic = state.topics.get(key[0])
        kept = topic is not None and topic.settings.get("flush") == "disk" and not topic.was_replicated
        lost = Ingredient.UNCLEAN in self.among or self.books.of(key).was_spoiled
        may_lose = lost or not kept or self._is_lost_twice(state, key)
        self.books.lossy(key, epoch, may_lose=may_lose)
        if may_lose and topic is not None and topic.name == GROUPS_TOPIC:
            self.books.are_positions_lost = True

    def _is_lost_twice(self, state: ClusterState, key: Key) -> bool:
        """Whether the leader's disk was emptied, and before anybody knew the others, who had everything, left
        the in-sync set in order: where one replica is enough, that is all of them."""
        topic = state.topics[key[0]]
        placed, replica = topic.partitions[key[1]], self.brokers[topic.partitions[key[1]].leader].replica(key)
        lacks = replica is None or replica.log.written < self._emptied.get((key, placed.leader), 0)
        one_is_enough = len(placed.replicas) < 3 or topic.settings.get("min.insync.replicas") == "1"
        return one_is_enough and lacks

    def _damage(self, machine: Machine, *, index: bool) -> bool:
        """Whether something of a partition, or of a controller, was spoiled, while the process was down."""
        if isinstance(machine, Controller):
            return not index and self.cluster.may_be_emptied(machine) and spoil(self.world, machine)
        for log, books in self._spared_logs(machine):
            machine.end(False)
            damage(self.world, machine.disk, log.folder, index=index)
            books.spoiled.add(machine.name)
            books.was_spoiled = True
            return True
        return False

    def _damage_below(self, tries: int = 20) -> bool:
        """Whether a byte changed below a broker that runs, and goes on: of the first replica that others can
        spare, now or soon."""
        machines = list(self.brokers.values())
        self.world.random.shuffle(machines)
        for machine in machines:
            for log, books in self._spared_logs(machine):
                assert machine.life is not None
                changed = change(self.world, machine.life, machine.disk, log.folder)
                if changed is not None:
                    books.changed.setdefault(machine.name, []).append(changed)
                    books.spoiled.add(machine.name)
                    books.was_spoiled = True
                    return True
        if tries and self.faults.active:
            self.world.after(100 * MS, None, lambda: self._try_again(tries - 1))
        return False

    def _try_again(self, tries: int) -> None:
        if self._damage_below(tries):
            self.world.fault(UNDER_A_BROKER)

    def _spared_logs(self, machine: Machine) -> Iterator[tuple[PartitionLog, Committed]]:
        """A running broker's logs of which others surely have everything, and what is known of them."""
        state = self._state()
        if not isinstance(machine, BrokerMachine) or machine.broker is None or state is None:
            return
        for partition in machine.broker.partitions():
            log = partition.log
            key = log.topic_id, log.partition
            books = self.books.of(key)
            if log.written != books.end:
                continue  # what is not committed may be committed later, as it is
            if key[0] in state.topics and log.synced and self._others_have(state, key, machine):
                yield log, books

    def _stop(self, machine: Machine) -> bool:
        if not isinstance(machine, BrokerMachine) or machine.broker is None:
            return False
        machine.stop()
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
        """The metadata as the leading controller has it; None while it may yet lack what is committed."""
        leader = self.cluster.leader()
        if leader is None or leader.machine is None or leader.brokers is None or leader.brokers.tasks is None:
            return None
        return leader.machine.state

    # --- peace ---

    def _all_clients(self) -> list[Client]:
        return [client for clients in self.clients.values() for client in clients]

    def _heal(self) -> None:
        world = self.world
        world.say("STORY", "faults stop")
        leader = self.cluster.leader()
        if Ingredient.LASTING_FULL_DISK in self.among and leader and self.cluster.may_be_spared(leader):
            self.faults.fill_for_good(leader)
        self.faults.stop()
        self.network.weather = Weather(pieces=self.network.weather.pieces)
        self.swarm.come_to_rest()
        self.iggy.come_to_rest()
        self._settle_defaults()
        for machine in self.brokers.values():
            if machine.broker is not None and any(
                partition.log.state is LogState.FAILED for partition in machine.broker.partitions()
            ):
                machine.end(False)  # somebody starts a broker again whose disk has failed
                machine.start()
        answered = {client: client.answered for client in self._all_clients()}

        def serves() -> bool:
            fresh = all(self._is_served(client, answered) for client in self._all_clients())
            return fresh and all(wanted.topic_id for wanted in self._wanted) and not self._iggys_wait

        done = world.run_until(world.now + HEALS_WITHIN_US, serves)
        must(done, "the cluster did not heal: %s", self._who_waits(answered))
        if self.swarm.complaint:
            world.run_until(world.now + SETTLES_US, lambda: not self.swarm.complaint)
        must(not self.swarm.complaint, "the groups did not settle: %s", self.swarm.complaint)
        self.faults.make_room()
        for client in self._all_clients():
            client.active = isinstance(client, Consumer)
            if isinstance(client, Consumer):
                client.read_again()
        self.iggy.write(active=False)
        self.iggy.read_again()
        done = world.run_until(world.now + HEALS_WITHIN_US // 2, lambda: not self._complaint())
        if not done:
            # What a leader wrote last and had not committed stays at followers until its successor writes.
            last = [client for client in self._all_clients() if type(client) in _WRITERS]
            for active in (True, False):
                for client in last:
                    client.active = active
                self.iggy.write(active=active)
                world.run_until(world.now + 2 * SECOND)
            done = world.run_until(world.now + HEALS_WITHIN_US // 2, lambda: not self._complaint())
        must(done, "the cluster did not come to rest: %s", self._complaint())
        self.books.check_acknowledged()
        self.iggy.ledger.check_once()
        self._check_replicas()

    @property
    def _iggys_wait(self) -> str:
        """Which of Iggy's clients are not served again; empty: all are, or there are none."""
        return self.iggy.waits if Ingredient.IGGY in self.among else ""

    def _settle_defaults(self) -> None:
        """A roll that gives all brokers one default flush ends: while they differ, a follower that fsyncs
        less often than its leader asks for is in sync by turns."""
        if Ingredient.DEFAULT_FLUSH not in self.among:
            return
        default = self.world.random.choice(list(FlushPolicy))
        for machine in self.brokers.values():
            machine.default_flush = lambda: default
            machine.end(False)
            machine.start()

    def _check_replicas(self) -> None:
        state = self._state()
        assert state is not None
        for topic in state.topics.values():
            for number, partition in enumerate(topic.partitions):
                for broker_id in partition.replicas:
                    machine = self.brokers[broker_id]
                    replica = machine.replica((topic.topic_id, number))
                    assert replica is not None
                    self.books.check_rest(machine.name, replica)

    def _is_served(self, client: Client, answered: dict[Client, int]) -> bool:
        return client.answered >= answered.get(client, 0) + client.shows_health

    def _who_waits(self, answered: dict[Client, int]) -> str:
        waiting = [
            f"{client.name} at {client.target.key}"
            for client in self._all_clients()
            if not self._is_served(client, answered)
        ]
        state = self._state()
        shown = "no leading controller"
        if state is not None:
            shown = "; ".join(
                f"{topic.topic_id}/{n}: leader {p.leader} epoch {p.leader_epoch} in sync {p.in_sync}"
                for topic in state.topics.values()
                for n, p in enumerate(topic.partitions)
            )
        return f"{waiting or self._iggys_wait or 'topics were not created'}; {shown}"

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
                books = self.books.of(key)
                if books.waits:
                    return f"{where} has not been judged since its lossy election"
                if problem := differences(found, compacts=books.compacts):
                    return f"{where}: {problem}"
        for client in self._all_clients():
            if isinstance(client, Consumer) and not client.has_all:
                return f"{client.name} has not read everything"
        return self.iggy.complaint if Ingredient.IGGY in self.among else ""
