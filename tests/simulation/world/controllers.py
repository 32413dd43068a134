"""A controller in the simulated world: the real core, driver, storage and state machine on a simulated disk.

Put together as a controller's process does it: birth by questions to all the others, Raft once there is a
cluster to belong to, and its brokers' streams.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.brokers import BrokerStreams
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.leadership import ControllerLeadership, LeaderParts
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.raft.birth import (
    AskToBeAdded,
    Birth,
    BirthRefusedError,
    Founding,
    IdentityAnswer,
    IdentityQuestion,
    StoreFounding,
)
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import Configuration, HardState, LogEntry, NodeId, RaftMessage
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node import wire
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.member import RaftMember
from tank_controller.raft_node.replay import RaftStorageError, StorageDamagedError
from tank_protos import feature_levels
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tests.simulation.books.booked import BookedMetadata, BookedStorage
from tests.simulation.books.metadata_books import MetadataBooks
from tests.simulation.books.raft_books import RaftBooks
from tests.simulation.world.clocks import ClockError, SimulatedClock
from tests.simulation.world.controller_lines import ControllerLine
from tests.simulation.world.disks import SimulatedDisk, SimulatedFiles, SimulatedThread
from tests.simulation.world.network import End, Network, Stream
from tests.simulation.world.world import MS, Life, Violation, World, must

FOLDER = Path("/metadata")
TICK_US = 50 * MS
SESSION_TIMEOUT_MS = 3000
SEGMENT_BYTES = 3000
SNAPSHOT_AFTER_BYTES = 6000


def small_settings(world: World) -> Settings:
    """So small that every bound is met."""
    return Settings(
        max_append_bytes=world.random.choice((100, 300, 2000)),
        chunk_bytes=700,
        in_flight_appends=world.random.choice((1, 4)),
        in_flight_bytes=4000,
        promote_within_entries=4,
        uncommitted_bytes=40_000,
        trailing_entries=5,
    )


@dataclass(slots=True, frozen=True)
class Join:
    """An empty controller with a disk of its own asks to be added."""

    node: NodeId
    levels: Levels


Told = IdentityQuestion | IdentityAnswer | Founding | Join
"""What controllers say to each other outside of Raft."""


class Cluster:
    """All controllers of a story, and what they share."""

    def __init__(self, world: World, network: Network, count: int) -> None:
        self.world = world
        self.network = network
        self.settings = small_settings(world)
        self.raft_books = RaftBooks(world)
        self.metadata_books = MetadataBooks(world)
        self.recollects = True  # else controllers trust their disks
        self.founded: set[str] = set()
        """Ids of clusters that anybody belonged to: there must never be a second one."""
        self.removes_until = -1  # so long a removal may be under way: a lost disk is a second loss then
        self.nodes = {ordinal: Controller(self, ordinal) for ordinal in range(1, count + 1)}

    def running(self) -> list["Controller"]:
        """Those whose process lives."""
        return [node for node in self.nodes.values() if node.life is not None]

    def leader(self) -> "Controller | None":
        """The leader of the highest term that runs."""
        leaders = [n for n in self.running() if n.driver is not None and n.raft.role is RaftRole.LEADER]
        return max(leaders, key=lambda node: node.raft.term, default=None)

    def may_be_spared(self, leader: "Controller") -> bool:
        """Whether all the others vote, as they are now: then they decide without this one."""
        log, own = leader.raft.log, sorted(node.own for node in self.nodes.values())
        settled = log.configuration_index <= log.commit
        return len(own) > 1 and settled and sorted(leader.raft.configuration.voters) == own

    def may_be_emptied(self, node: "Controller") -> bool:
        """Only while all disks are those that the configuration names, and hold all that is committed."""
        leader = self.leader() if self.world.now > self.removes_until else None
        if leader is None or node.driver is None or len(self.nodes) < 3:
            return False
        voters = leader.raft.configuration.voters
        log, books = leader.raft.log, self.raft_books
        if log.configuration_index > log.commit or sorted(voters) != sorted(
            n.own for n in self.nodes.values()
        ):
            return False
        recent = range(max(1, books.last_committed - 30), books.last_committed + 1)
        return all(
            books.holds(voter, index, books.committed[index].term)
            for voter in voters
            for index in recent
            if index in books.committed
        )


class Controller:
    """One ordinal: its machine with the disk, and its process when it runs."""

    def __init__(self, cluster: Cluster, ordinal: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.ordinal = ordinal
        self.name = f"c{ordinal}"
        self.disk = SimulatedDisk()
        self.levels = feature_levels.OWN
        """The feature levels that the version which its next process runs knows."""
        self.life: Life | None = None
        self.clock_error = ClockError()
        self.is_spoiled = False
        """Whether bytes of its disk were changed, which its next start looks at."""
        self._boot = 0
        """Starts of the machine."""
        self.own = NodeId(ordinal, b"")
        self.driver: RaftDriver[CommandOutcome] | None = None
        self.machine: BookedMetadata | None = None
        self.member: RaftMember | None = None
        self.brokers: BrokerStreams | None = None
        self.proposals: Proposals | None = None
        self.seen_commit = 0
        self.seen_term = 0
        self._storage: BookedStorage | None = None
        self._birth: Birth | None = None

    @property
    def raft(self) -> Raft:
        """The core of a member."""
        assert self.driver is not None
        return self.driver.raft

    # --- the process ---

    def start(self) -> None:
        """A new process on the disk that is there."""
        assert self.life is None
        self.world.say(self.name, "starts")
        life = Life(self.name, self._check, self.end)
        self.life = life
        self._use_disk(life)
        self.world.guarded(life, self._open)

    def _use_disk(self, life: Life) -> None:
        self.disk.is_used = lambda: self.world.acting is life

    def end(self, power: bool) -> None:
        """The process is gone; with its machine's power, what was not synced, too."""
        if self.life is not None:
            self.life.alive = False
            self.cluster.network.process_ended(self.life, power=power)
            if not power:
                self.break_streams()
        self.life = self.driver = self.machine = self.member = self.brokers = self.proposals = None
        self._storage = self._birth = None
        self.world.say(self.name, "loses power" if power else "is gone")
        if power:
            self.disk.lose_power(self.world.random)
            self._boot += 1
        else:
            self.disk.kill_process()
        self.disk.recover()

    def break_streams(self, share: float = 1.0, late_us: int = 0) -> None:
        """The others hear that its streams of messages have ended, though it may live; perhaps late."""
        network = self.cluster.network
        for other in self.cluster.nodes.values():
            reached = other.life is not None and network.reaches(self.name, other.name)
            if other is not self and reached and self.world.chance(share):
                delay = network.weather.delay(self.world) + self.world.between(0, late_us)
                self.world.after(delay, other.life, partial(other.broken, self.own))

    def broken(self, sender: NodeId) -> None:
        """The stream of messages from that node has ended."""
        if self.driver is not None:
            self.raft.broken(sender)

    def empty(self) -> None:
        """An empty disk in the place of its own."""
        if self.life is not None:
            self.end(True)
        self.disk = SimulatedDisk()
        self.own = NodeId(self.ordinal, b"")  # until a process has made its new identity

    def put_back(self, earlier: SimulatedDisk) -> None:
        """An earlier state of its disk in its place."""
        self.disk = earlier
        self.cluster.raft_books.put_back(self.own)

    def _storage_of_disk(self) -> BookedStorage:
        storage = BookedStorage(
            FOLDER,
            SimulatedFiles(self.disk),
            self.world.random_bytes,
            SEGMENT_BYTES,
            SNAPSHOT_AFTER_BYTES,
            boot_id=lambda: f"boot {self._boot}",
        )
        storage.books = self.cluster.raft_books
        storage.ordinal = self.ordinal
        return storage

    def _open(self) -> None:
        storage = self._storage_of_disk()
        self._storage = storage
        try:
            stored = storage.open()
        except StorageDamagedError as error:
            if self.is_spoiled:
                self.world.say(self.name, "is damaged: %s", error)
                self.end(False)
                return
            raise Violation(f"{self.name} can't read what a crash left: {error}") from error
        except RaftStorageError as error:
            self.world.say(self.name, "can't start: %s", error)
            self.end(False)
            return
        self.own = NodeId(self.ordinal, storage.disk)
        assert self.life is not None
        if stored is None:
            ordinals = frozenset(self.cluster.nodes)
            self._birth = Birth(self.own, ordinals, self.world.random.randrange, self._new_cluster_id)
            self.world.every(4 * TICK_US, self.life, self._ask)
            self._take_birth(self._birth.alone())
            return
        self.cluster.raft_books.opened(self.own, stored)
        self.cluster.founded.add(stored.cluster_id)
        asks = self.cluster.recollects
        must(len(self.cluster.founded) == 1, "clusters were founded twice")
        raft = Raft(
            self.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries,
            self.world.random.randrange,
            replace(self.cluster.settings, max_level=self.levels.highest), stored.base, recollects=asks,
        )  # fmt: skip
        self.machine = BookedMetadata(self.name, self.cluster.metadata_books, self.levels.highest)
        thread = SimulatedThread(self.world, self.life, 4 * MS)
        self.driver = RaftDriver(raft, storage, self, self.machine, thread, self._fatal)
        self.cluster.raft_books.began(self)
        addresses = {node.ordinal: f"{node.name}:1" for node in self.cluster.nodes.values()}
        self.member = RaftMember(self.driver, addresses)
        self.proposals = Proposals(self.driver, self.machine)
        self.driver.start()
        leadership = ControllerLeadership(
            self.proposals,
            SimulatedClock(self.world, self.clock_error),
            self.world.random_bytes,
            SESSION_TIMEOUT_MS,
            LeaderParts(
                Raising(self.member.behind, self.levels.highest),
                BrokerClocks(session_timeout_ms=SESSION_TIMEOUT_MS),
            ),
        )
        self.brokers = BrokerStreams(stored.cluster_id, leadership, self.member.leader_address)
        self.world.every(TICK_US, self.life, self._tick)
        self.world.every(4 * TICK_US, self.life, self._stay_in)

    def _fatal(self, error: Exception) -> None:
        self.world.say(self.name, "must end: %s", error)
        assert self.life is not None
        self.world.after(1, self.life, lambda: self.end(False))

    def _tick(self) -> None:
        assert self.driver is not None
        assert self.member is not None
        assert self.brokers is not None
        self.driver.tick()
        if self.driver.failed is None:
            self.brokers.tick()

    def _stay_in(self) -> None:
        """Asks to be added while it is no voter."""
        assert self.member is not None
        if self.member.is_missing(self.own):
            self.member.join(self.own)
            self._tell_all(Join(self.own, self.levels))

    def _check(self) -> None:
        if self.driver is not None and self.driver.failed is None:
            self.cluster.raft_books.check(self)

    # --- brokers ---

    def accept(self, stream: Stream, end: End) -> None:
        """A broker has connected."""
        assert self.brokers is not None
        brokers = self.brokers
        line = ControllerLine(stream, end)
        opened = brokers.opened(line)

        def received(data: object) -> None:
            assert isinstance(data, bytes)
            brokers.received(opened, pb.BrokerUp.FromString(data))

        end.received = received
        end.broken = lambda: brokers.closed(opened)

    # --- messages ---

    def send(self, messages: Sequence[RaftMessage]) -> None:
        """`tank_controller.raft_node.driver.RaftTransport`: by the bytes that really go."""
        for message in messages:
            self.cluster.raft_books.sent(message)
            target = self.cluster.nodes.get(message.target.ordinal)
            if target is not None:
                self._post(target, wire.encode(message).SerializeToString())

    def _post(self, target: "Controller", data: bytes) -> None:
        def arrive() -> None:
            if target.life is not None:
                target.world.after(0, target.life, lambda: target.take(data))

        self.cluster.network.post(self.name, target.name, arrive)

    def take(self, data: bytes) -> None:
        """Raft's message arrives."""
        if self.driver is not None:
            self.driver.receive(wire.decode(data))

    def _tell(self, ordinal: int, told: Told) -> None:
        target = self.cluster.nodes[ordinal]

        def arrive() -> None:
            if target.life is not None:
                target.world.after(0, target.life, lambda: target.hear(self.ordinal, told))

        self.cluster.network.post(self.name, target.name, arrive)

    def _tell_all(self, told: Told) -> None:
        for ordinal in self.cluster.nodes:
            if ordinal != self.ordinal:
                self._tell(ordinal, told)

    def hear(self, ordinal: int, told: Told) -> None:
        """Something outside of Raft arrives."""
        match told:
            case IdentityQuestion():
                self._on_question(ordinal, told)
            case IdentityAnswer() if self._birth is not None:
                self._take_birth(self._birth.take(told))
            case Founding() if self._birth is not None:
                with contextlib.suppress(BirthRefusedError):
                    self._join(self._birth.accept(told))
            case Join() if self.member is not None and self.machine is not None:
                if not told.levels.refusal(self.machine.state.feature_level):
                    self.member.join(told.node)
            case _:
                pass

    # --- birth, and coming back with an emptied disk ---

    def _new_cluster_id(self) -> str:
        return self.world.random_bytes(4).hex()

    def _ask(self) -> None:
        if self._birth is not None:
            self._tell_all(self._birth.ask())

    def _on_question(self, ordinal: int, question: IdentityQuestion) -> None:
        if self._birth is not None:
            self._tell(ordinal, self._birth.answer(question))
        elif self.member is not None:
            asker = pb.RaftNode(ordinal=question.asker.ordinal, disk=question.asker.disk)
            answer = self.member.identify(pb.IdentifyRequest(asker=asker, nonce=question.nonce))
            if answer.founding:
                self._tell(ordinal, Founding(answer.cluster_id, Configuration.decode(answer.founding)))
            else:
                self._tell(ordinal, IdentityAnswer(self.own, answer.nonce, answer.cluster_id))

    def _take_birth(self, step: StoreFounding | AskToBeAdded | None) -> None:
        if isinstance(step, StoreFounding):
            self.world.say(self.name, "founds cluster %s", step.founding.cluster_id)
            self._join(step.founding)
        elif isinstance(step, AskToBeAdded):
            self._begin(step.cluster_id, HardState(), [])

    def _join(self, founding: Founding) -> None:
        self._begin(founding.cluster_id, founding.hard_state, [founding.entry])

    def _begin(self, cluster_id: str, hard: HardState, entries: list[LogEntry]) -> None:
        """Keeps what it begins with, then goes on as a start would."""
        assert self._storage is not None
        assert self.life is not None
        self._birth = None
        try:
            self._storage.begin(cluster_id, hard, entries)
        except RaftStorageError as error:
            self._fatal(error)
            return
        self.life.alive = False
        self.life = Life(self.name, self._check, self.end)
        self._use_disk(self.life)
        self.world.guarded(self.life, self._open)
