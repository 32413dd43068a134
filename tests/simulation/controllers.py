"""A controller in the simulated world: the real core, driver, storage and state machine on a simulated disk.

Birth, and how an emptied disk comes back, are here as a process does them: questions to all the others,
a founding document that is kept before it is handed on, and a leader that adds who asks for it.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tank_controller import raft_wire
from tank_controller.metadata import Metadata
from tank_controller.outcome import Outcome
from tank_controller.raft.birth import (
    Answer,
    AskToBeAdded,
    Birth,
    BirthRefusedError,
    Found,
    Founding,
    Question,
    member_answer,
)
from tank_controller.raft.core import Raft
from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft.membership import Change, ChangeKind
from tank_controller.raft.messages import Configuration, Entry, HardState, Message, NodeId, Snapshot
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import Role
from tank_controller.raft_driver import RaftDriver
from tank_controller.raft_replay import RaftStorageError, StorageDamagedError
from tank_controller.raft_storage import RaftStorage
from tests.simulation.disks import SimulatedDisk, SimulatedFiles, SimulatedThread
from tests.simulation.metadata_books import MetadataBooks
from tests.simulation.network import Network
from tests.simulation.raft_books import RaftBooks
from tests.simulation.world import MS, Life, Violation, World, must

FOLDER = Path("/metadata")
TICK_US = 50 * MS
SEGMENT_BYTES = 3000
SNAPSHOT_AFTER_BYTES = 6000


def small_settings(world: World) -> Settings:
    """So small that every bound is met."""
    return Settings(
        max_append_bytes=world.random.choice((100, 300, 2000)),
        chunk_bytes=700,
        in_flight_appends=world.random.choice((1, 4)),
        in_flight_bytes=4000,
        uncommitted_bytes=40_000,
        trailing_entries=5,
    )


@dataclass(slots=True, frozen=True)
class Join:
    """An empty controller with a disk of its own asks to be added."""

    node: NodeId


Told = Question | Answer | Founding | Join
"""What controllers say to each other outside of Raft."""


class BookedStorage(RaftStorage):
    """The real one; the books hear what it promised to keep."""

    books: RaftBooks

    def persist(self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[Entry]) -> None:
        """As the real one."""
        super().persist(hard, snapshot, entries)
        self.books.persisted(NodeId(self.ordinal, self.disk), hard, snapshot, entries)

    ordinal: int


class BookedMetadata(Metadata):
    """The replicated state machine; the books hear of every entry that it takes."""

    def __init__(self, name: str, books: MetadataBooks) -> None:
        super().__init__()
        self._name = name
        self._books = books

    def apply(self, index: int, data: bytes) -> Outcome:
        """As the real one."""
        outcome = super().apply(index, data)
        self._books.applied(self._name, self.state, index, data, outcome)
        return outcome

    def snapshot(self) -> bytes:
        """As the real one."""
        data = super().snapshot()
        self._books.snapshot_made(self._name, self.state.index, data)
        return data

    def restore(self, data: bytes) -> None:
        """As the real one."""
        super().restore(data)
        self._books.snapshot_made(self._name, self.state.index, self.state.snapshot())


class Cluster:
    """All controllers of a story, and what they share."""

    def __init__(self, world: World, network: Network, count: int) -> None:
        self.world = world
        self.network = network
        self.settings = small_settings(world)
        self.raft_books = RaftBooks(world)
        self.metadata_books = MetadataBooks(world)
        self.founded: set[str] = set()
        """Ids of clusters that anybody belonged to: there must never be a second one."""
        self.nodes = {ordinal: Controller(self, ordinal) for ordinal in range(1, count + 1)}

    def running(self) -> list["Controller"]:
        """Those whose process lives."""
        return [node for node in self.nodes.values() if node.life is not None]

    def leader(self) -> "Controller | None":
        """The leader of the highest term that runs."""
        leaders = [n for n in self.running() if n.driver is not None and n.raft.role is Role.LEADER]
        return max(leaders, key=lambda node: node.raft.term, default=None)

    def may_be_emptied(self, node: "Controller") -> bool:
        """Only while all disks are those that the configuration names, and hold all that is committed."""
        leader = self.leader()
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
            voter in books.disks and books.disks[voter].has(index, books.committed[index].term)
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
        self.life: Life | None = None
        self.own = NodeId(ordinal, b"")
        self.driver: RaftDriver[Outcome] | None = None
        self.machine: BookedMetadata | None = None
        self.seen_commit = 0
        self.seen_term = 0
        self.services: list[Callable[[], None]] = []
        """Called at each tick of the running process."""
        self._storage: BookedStorage | None = None
        self._birth: Birth | None = None
        self._founding: Founding | None = None
        self._wants: dict[int, NodeId] = {}
        """Who asked this leader to be added."""

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
        self.world.guarded(life, self._open)

    def end(self, power: bool) -> None:
        """The process is gone; with its machine's power, what was not synced, too."""
        if self.life is not None:
            self.life.alive = False
        self.life = self.driver = self.machine = None
        self._storage = self._birth = None
        self._wants = {}
        self.world.say(self.name, "loses power" if power else "is gone")
        if power or self.disk.broken:
            self.disk.lose_power(self.world.random)
        else:
            self.disk.kill_process()
        self.disk.broken = False
        self.disk.failing_syncs = 0

    def empty(self) -> None:
        """An empty disk in the place of its own."""
        if self.life is not None:
            self.end(True)
        self.disk = SimulatedDisk()

    def _open(self) -> None:
        storage = BookedStorage(
            FOLDER,
            SimulatedFiles(self.disk),
            self.world.random_bytes,
            SEGMENT_BYTES,
            SNAPSHOT_AFTER_BYTES,
        )
        storage.books = self.cluster.raft_books
        storage.ordinal = self.ordinal
        self._storage = storage
        try:
            stored = storage.open()
        except StorageDamagedError as error:
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
        must(len(self.cluster.founded) == 1, "clusters were founded twice")
        raft = Raft(
            self.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries,
            self.world.random.randrange, self.cluster.settings, stored.base,
        )  # fmt: skip
        self.machine = BookedMetadata(self.name, self.cluster.metadata_books)
        thread = SimulatedThread(self.world, self.life, 4 * MS)
        self.driver = RaftDriver(raft, storage, self, self.machine, thread, self._fatal)
        self.cluster.raft_books.began(self)
        self.world.every(TICK_US, self.life, self._tick)
        self.driver.start()

    def _fatal(self, error: Exception) -> None:
        self.world.say(self.name, "must end: %s", error)
        assert self.life is not None
        self.world.after(1, self.life, lambda: self.end(False))

    def _tick(self) -> None:
        assert self.driver is not None
        self.driver.tick()
        if self.driver.failed is not None:
            return
        if self._is_missing(self.own):
            self._tell_all(Join(self.own))
        if self.raft.role is Role.LEADER:
            if self._is_missing(self.own):
                self._wants[self.ordinal] = self.own
            self._add_one()
        for service in self.services:
            service()

    def _check(self) -> None:
        if self.driver is not None and self.driver.failed is None:
            self.cluster.raft_books.check(self)

    # --- messages ---

    def send(self, messages: Sequence[Message]) -> None:
        """`tank_controller.raft_driver.Transport`: by the bytes that really go."""
        for message in messages:
            self.cluster.raft_books.sent(message)
            target = self.cluster.nodes.get(message.target.ordinal)
            if target is not None:
                self._post(target, raft_wire.encode(message).SerializeToString())

    def _post(self, target: "Controller", data: bytes) -> None:
        def arrive() -> None:
            if target.life is not None:
                target.world.after(0, target.life, lambda: target.take(data))

        self.cluster.network.post(self.name, target.name, arrive)

    def take(self, data: bytes) -> None:
        """Raft's message arrives."""
        if self.driver is not None:
            self.driver.receive(raft_wire.decode(data))

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
            case Question():
                self._on_question(ordinal, told)
            case Answer() if self._birth is not None:
                self._take_birth(self._birth.take(told))
            case Founding() if self._birth is not None:
                with contextlib.suppress(BirthRefusedError):
                    self._join(self._birth.accept(told))
            case Join() if self.driver is not None and self.raft.role is Role.LEADER:
                if self._is_missing(told.node):
                    self._wants[told.node.ordinal] = told.node
            case _:
                pass

    # --- birth, and coming back with an emptied disk ---

    def _new_cluster_id(self) -> str:
        return self.world.random_bytes(4).hex()

    def _ask(self) -> None:
        if self._birth is not None:
            self._tell_all(self._birth.ask())

    def _on_question(self, ordinal: int, question: Question) -> None:
        if self._birth is not None:
            self._tell(ordinal, self._birth.answer(question))
        elif self.driver is not None:
            founding = self._document()
            if founding is not None and question.asker in founding.configuration.voters:
                self._tell(ordinal, founding)
            else:
                self._tell(ordinal, member_answer(self.own, self.raft.cluster_id, question))

    def _document(self) -> Founding | None:
        """The founding document, as long as the log has it."""
        log = self.raft.log
        if log.base_index > 0 or not log.entries:
            return None
        return Founding(self.raft.cluster_id, Configuration.decode(log.entries[0].data))

    def _take_birth(self, step: Found | AskToBeAdded | None) -> None:
        if isinstance(step, Found):
            self.world.say(self.name, "founds cluster %s", step.founding.cluster_id)
            self._join(step.founding)
        elif isinstance(step, AskToBeAdded):
            self._begin(step.cluster_id, HardState(), [])

    def _join(self, founding: Founding) -> None:
        self._begin(founding.cluster_id, founding.hard_state, [founding.entry])

    def _begin(self, cluster_id: str, hard: HardState, entries: list[Entry]) -> None:
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
        self.world.guarded(self.life, self._open)

    def _is_missing(self, node: NodeId) -> bool:
        """Whether it doesn't vote yet, or the disk that its ordinal had before still counts."""
        configuration = self.raft.configuration
        same = [member for member in configuration.members if member.ordinal == node.ordinal]
        return node not in configuration.voters or same != [node]

    def _add_one(self) -> None:
        """The leader's next step to bring in one that asked."""
        configuration = self.raft.configuration
        for ordinal, node in sorted(self._wants.items()):
            old = [m for m in configuration.members if m.ordinal == ordinal and m != node]
            if node in configuration.voters and not old:
                del self._wants[ordinal]
                return
            if node in configuration.voters:
                change = Change(ChangeKind.REMOVE, old[0])
            elif node in configuration.learners:
                change = Change(ChangeKind.PROMOTE, node)
            else:
                change = Change(ChangeKind.ADD_LEARNER, node)
            assert self.driver is not None
            with contextlib.suppress(ProposalRefusedError):
                self.driver.change(change, lambda outcome: None)
            return
