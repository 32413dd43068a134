"""The base of told stories: a cluster in which only the events of the story happen.

A loss that a seed has found, or a mutant that seeds detect rarely, becomes a told story, which has no random
events: a seed's story changes whenever stories get another part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from tank_controller.state.model import PartitionState
from tank_controller.state.state import ClusterState
from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.offsets_topic import SETTINGS
from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import ProducerStamp
from tank_node.tank.errors import error_code
from tank_protos import bundle
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.message_books import Key
from tests.simulation.clients.clients import Client, Target
from tests.simulation.clients.consumers import MOST_BYTES, Consumer
from tests.simulation.cluster_story import ClusterStory
from tests.simulation.ingredients import Wanted
from tests.simulation.story import listening
from tests.simulation.world.brokers import GROUPS, BrokerMachine
from tests.simulation.world.network import Weather
from tests.simulation.world.world import MS, SECOND, must

BROKERS_OF_THREE = 1
"""A seed whose cluster has three brokers."""
RESTS_WITHIN_US = 60 * SECOND
LIMITS = Limits()


class ToldStory(ClusterStory):
    """Three brokers and one topic of one partition. All that must hold is looked at after every event."""

    def __init__(
        self,
        settings: Mapping[str, str],
        limits: Limits,
        forwarding: ForwardingPolicy,
        *,
        clients: bool,
        replicas: int = 3,
        groups: GroupSettings = GROUPS,
    ) -> None:
        super().__init__(BROKERS_OF_THREE)
        assert len(self.brokers) == 3
        # What random stories draw before they begin is another number of draws with each new ingredient.
        self.world.random.seed(BROKERS_OF_THREE)
        self.network.weather = Weather()
        self.among = frozenset()
        self.wanted = Wanted("told", 1, replicas, dict(settings))
        self._wanted[:] = [self.wanted]
        self._has_clients = clients
        self._told = Outcomes(self)
        for machine in self.brokers.values():
            machine.limits, machine.forwarding, machine.groups = limits, forwarding, groups
            machine.proposes = partial(self._proposed, machine)
        self._awaited: tuple[BrokerMachine, int, Callable[[], None]] | None = None
        """Who proposes whom, and what happens then."""

    def begin(self) -> None:
        """Everybody is there, and the topic."""
        for node in self.cluster.nodes.values():
            node.start()
        self.go_on(3 * SECOND)
        for broker in self.brokers.values():
            broker.start()
        self.go_on(SECOND)
        self.create()

    def create(self) -> None:
        """The topic, with everybody in sync."""
        deadline = self.world.now + 10 * SECOND
        while not self.wanted.topic_id:
            must(self.world.now < deadline, "the topic was not created")
            self._create(self.wanted)
            self.go_on(SECOND)
        self.go_on(SECOND)
        must(len(self.placed.in_sync) == self.wanted.replication_factor, "not all are in sync")

    def create_groups(self) -> Wanted:
        """The internal topic, of one partition, with everybody in sync."""
        return self.add(Wanted(GROUPS_TOPIC, 1, 3, SETTINGS | {"flush": "disk"}))

    def add(self, wanted: Wanted) -> Wanted:
        """Another topic of three replicas, with everybody in sync."""
        self._wanted.append(wanted)
        while not wanted.topic_id:
            self._create(wanted)
            self.go_on(SECOND)
        self.go_on(SECOND)
        for placed in self.state.topics[wanted.topic_id].partitions:
            must(len(placed.in_sync) == 3, "not all are in sync")
        return wanted

    def delete(self) -> None:
        """The topic, by its name."""
        while self.wanted.topic_id:  # asked of a broker that doesn't run, nothing happens
            self._delete(self.wanted)
        self.go_on(SECOND)

    def _clients_of(self, wanted: Wanted, target: Target) -> Iterator[Client]:
        if self._has_clients:
            yield from super()._clients_of(wanted, target)

    # --- time ---

    def go_on(self, time_us: int) -> None:
        """For so long."""
        self.world.run_until(self.world.now + time_us)

    def until(self, done: Callable[[], bool], what: str, within_us: int = 10 * SECOND) -> None:
        """Until then, to the millisecond. Violation when it never comes."""
        deadline = self.world.now + within_us
        while not done():
            must(self.world.now < deadline, "%s: it never came", what)
            self.go_on(MS)

    # --- who is there ---

    @property
    def key(self) -> Key:
        """Of the partition."""
        return self.wanted.topic_id, 0

    @property
    def is_led(self) -> bool:
        """Whether a controller leads that has all that is committed: there is a `state`."""
        return self._state() is not None

    @property
    def state(self) -> ClusterState:
        """As the leading controller has it."""
        state = self._state()
        must(state is not None, "no controller leads")
        assert state is not None
        return state

    @property
    def placed(self) -> PartitionState:
        """The partition, in that state."""
        return self.state.topics[self.wanted.topic_id].partitions[0]

    @property
    def cast(self) -> tuple[BrokerMachine, ...]:
        """Who leads, and the others in the order in which they would."""
        placed = self.placed
        others = [each for each in placed.replicas if each != placed.leader]
        return tuple(self.brokers[broker_id] for broker_id in (placed.leader, *others))

    @property
    def controllers(self) -> list[str]:
        """The machines of all controllers."""
        return [node.name for node in self.cluster.nodes.values()]

    def at(self, machine: BrokerMachine) -> Partition:
        """The partition, as a broker that runs has it."""
        found = machine.replica(self.key)
        assert found is not None
        return found

    def is_back(self, machine: BrokerMachine) -> bool:
        """Whether its process serves, and the controllers know."""
        return machine.broker is not None and not self.state.brokers[machine.broker_id].fenced

    def are_in_sync(self, *machines: BrokerMachine) -> bool:
        """Whether it is these, and nobody else."""
        return set(self.placed.in_sync) == {machine.broker_id for machine in machines}

    @property
    def refusals(self) -> list[int]:
        """The errors that appends were refused with so far."""
        return self._told.errors

    # --- what happens ---

    def append_again(self, machine: BrokerMachine, producer: ProducerStamp, times: int) -> None:
        """The same message of an idempotent producer, so many times."""
        server, partition = machine.server, self.at(machine)
        assert server is not None
        token, batch = self._told.next_batch()

        def act() -> None:
            server.begin()
            partition.append(memoryview(batch), self._told, token, producer=producer)
            server.finish()

        for _ in range(times):
            self.do(machine, act)
            self.go_on(10 * MS)

    def append(
        self, machine: BrokerMachine, count: int = 1, keys: Sequence[bytes] = (), first: int | None = None
    ) -> None:
        """So many batches at the broker that leads, each of one message, or of one for each key. The books
        hear of it when they are acknowledged; nothing waits for it. first: the number that a client wants."""
        server, partition = machine.server, self.at(machine)
        assert server is not None

        def act() -> None:
            server.begin()
            batches = [self._told.next_batch(keys) for _ in range(count)]
            for token, batch in batches:
                partition.append(memoryview(batch), self._told, token, first=first)
            server.finish()

        self.do(machine, act)

    def move(self, *machines: BrokerMachine) -> None:
        """Somebody wants these to hold the partition."""
        leader = self.cluster.leader()
        assert leader is not None
        assert leader.life is not None
        assert leader.proposals is not None
        topic_id, number = self.key
        placed = pb.Placed(
            topic_id=topic_id, partition=number, replicas=[machine.broker_id for machine in machines]
        )
        command = pb.Command(now_ms=self.world.now_ms(), reassign=pb.Reassign(partitions=[placed]))
        proposals = leader.proposals
        self.world.guarded(leader.life, lambda: proposals.propose(command, lambda outcome: None))

    def do(self, machine: BrokerMachine, call: Callable[[], None]) -> None:
        """What a process does now."""
        assert machine.life is not None
        self.world.guarded(machine.life, call)

    def stop(self, *machines: BrokerMachine) -> None:
        """In order, one after the other; returns when the last one has stopped."""

        def has_stopped(machine: BrokerMachine) -> bool:
            return machine.life is None

        for machine in machines:
            machine.stop()
            self.until(partial(has_stopped, machine), f"the stop of {machine.name}")

    def part(self, machine: BrokerMachine, *others: str, one_way: bool = False) -> None:
        """From now on nothing gets from it to the others; nor, unless `one_way`, back."""
        self.network.cut([machine.name], list(others), one_way=one_way)

    def rejoin(self, machine: BrokerMachine, *others: str) -> None:
        """They reach each other again: what waited on their streams goes on."""
        for other in others:
            self.network.cuts -= {(machine.name, other), (other, machine.name)}
        for stream in list(self.network.streams.values()):
            stream.go_on()

    def hold(self, machine: BrokerMachine, other: BrokerMachine) -> Callable[[], None]:
        """What it sends on the connections to the other that it has made so far waits, until the answer is
        called; later connections are as ever."""
        ends = machine.name, other.name
        held = [
            each for each in self.network.streams.values() if (each.near.machine, each.far.machine) == ends
        ]
        for stream in held:
            stream.far.waiting = [*(stream.far.waiting or ()), b""]

        def let_go() -> None:
            for stream in held:
                stream.go_on()

        return let_go

    def break_streams(self, machine: BrokerMachine, *others: str) -> None:
        """Those between them, with what is on them."""
        for stream in list(self.network.streams.values()):
            ends = {stream.near.machine, stream.far.machine}
            if machine.name in ends and ends & set(others):
                stream.reset()

    @property
    def target(self) -> Target:
        """The partition, for clients."""
        return Target("told", self.wanted.topic_id, 0)

    def reader(
        self, machine: BrokerMachine, most_bytes: int = MOST_BYTES, kind: type[Consumer] = Consumer
    ) -> Consumer:
        """One who reads there, from the first message on, always so many bytes at once."""
        made = kind(self.world, self.books, self.target, 5 * MS, "reader")
        made.sizes_bytes = (most_bytes,)
        self.send_in(made, machine)
        return made

    def send_in(self, client: Client, machine: BrokerMachine) -> None:
        """It begins there."""
        client.open_line(self.network, self.addresses, self.brokers).turn_to(machine.broker_id)
        client.act()

    def when_proposed(
        self, leader: BrokerMachine, member: BrokerMachine, happens: Callable[[], None]
    ) -> None:
        """Once, just before the leader proposes an in-sync set that names this member."""

        self._awaited = leader, member.broker_id, happens

    def _proposed(self, machine: BrokerMachine, change: pb.ChangeInSync) -> None:
        if self._awaited is None:
            return
        leader, member, happens = self._awaited
        named = {one.broker_id for wanted in change.sets for one in wanted.in_sync}
        if machine is leader and member in named:
            self._awaited = None
            happens()

    def on_in_sync(self, look: Callable[[tuple[int, ...]], None]) -> None:
        """Told, beside the books, of every in-sync set that comes into the log."""
        books = self.cluster.metadata_books
        before = books.on_in_sync

        def both(state: ClusterState, key: Key, members: tuple[int, ...]) -> None:
            before(state, key, members)
            look(members)

        books.on_in_sync = both

    def rest(self) -> None:
        """All that was broken is mended: all replicas come to hold the same, and nothing acknowledged is
        lost."""
        self.network.heal()
        for machine in self.faults.machines:
            if machine.life is None:
                machine.start()
            elif machine.life.frozen:
                self.world.thaw(machine.life)
        for client in self._all_clients():
            client.active = isinstance(client, Consumer)
            if isinstance(client, Consumer):
                client.read_again()
        rests = self.world.run_until(self.world.now + RESTS_WITHIN_US, lambda: not self._complaint())
        must(rests, "the cluster did not come to rest: %s", self._complaint())
        self.books.check_acknowledged()
        self._check_replicas()


class Outcomes:
    """Who is told how appends ended: `tank_node.partition.waiters.Completion`."""

    def __init__(self, story: ToldStory) -> None:
        self._story = story
        self._values: list[tuple[Key, bytes]] = []
        self.errors: list[int] = []
        """Of the appends that were refused, in their order."""

    def next_batch(self, keys: Sequence[bytes] = ()) -> tuple[int, bytes]:
        """Messages like no other, and the token that they are completed by."""
        token = len(self._values)
        values = [b"told:%d.%d" % (token, at) for at in range(max(len(keys), 1))]
        self._values.append((self._story.key, values[0]))
        now_ms = self._story.world.now_ms()
        batch = bundle.encode(values, timestamps=now_ms, keys=list(keys) or None)
        return token, bytes(bundle.as_batch(batch))

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        """The books hear of it after the event, when they have looked at what it committed."""
        if refusal:
            self.errors.append(error_code(refusal))
        else:
            key, value = self._values[token]
            world, books = self._story.world, self._story.books
            world.after(0, None, partial(books.acknowledged, key, value, first))


@contextmanager
def telling(
    settings: Mapping[str, str],
    *,
    limits: Limits = LIMITS,
    forwarding: ForwardingPolicy = ForwardingPolicy.NEVER,
    clients: bool = False,
    replicas: int = 3,
    groups: GroupSettings = GROUPS,
) -> Iterator[ToldStory]:
    """A story from its beginning, with what the code logs in its trace."""
    story = ToldStory(settings, limits, forwarding, clients=clients, replicas=replicas, groups=groups)
    with listening(story.world):
        story.begin()
        yield story


def lose_power(broker: BrokerMachine) -> None:
    """All that was not synced is lost, to the last byte."""
    for path in broker.disk.paths():
        broker.disk.overwrite(path, bytes(broker.disk.file(path).durable))
    broker.end(True)
