"""Several controllers in one thread: real driver and core, disks and a network that do what they are told.

After every event the invariants of Raft are checked, against books that the world keeps of all that was
ever written, elected, voted, committed, answered: so a violation is seen at the event that made it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tank_controller.raft.birth import Founding
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import (
    Append,
    Configuration,
    HardState,
    LogEntry,
    NodeId,
    RaftMessage,
    Snapshot,
    VoteAnswer,
)
from tank_controller.raft.quorum import majority
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.replay import StorageFullError

CLUSTER = "c"


class ViolationError(AssertionError):
    """An invariant doesn't hold."""


def must(holds: bool, what: str) -> None:
    """ViolationError unless it holds."""
    if not holds:
        raise ViolationError(what)


@dataclass(slots=True)
class MemoryStorage:
    """What one disk holds for sure."""

    hard: HardState = field(default_factory=HardState)
    snapshot: Snapshot | None = None
    base: tuple[int, int, Configuration] = (0, 0, Configuration())
    entries: list[LogEntry] = field(default_factory=list)
    snapshot_due: bool = False
    full: bool = False

    def persist(self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[LogEntry]) -> None:
        """As the real one, in one step."""
        if self.full:
            raise StorageFullError("the disk is full; make room")
        if hard is not None:
            self.hard = hard
        if snapshot is not None:
            self.snapshot = snapshot
            self.base = snapshot.meta.index, snapshot.meta.term, snapshot.meta.configuration
            self.entries = []
        if entries:
            kept = entries[0].index - self.base[0] - 1
            assert 0 <= kept <= len(self.entries), "a gap on the disk"
            self.entries = [*self.entries[:kept], *entries]

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps the entries behind it alone, which is the least that may be kept."""
        meta = snapshot.meta
        self.snapshot_due = False
        self.snapshot = snapshot
        self.entries = [entry for entry in self.entries if entry.index > meta.index]
        self.base = meta.index, meta.term, meta.configuration

    def close(self, commit: int = 0) -> None:
        """As the real one: the commit is written even on a full disk, where space was reserved."""
        last = self.entries[-1].index if self.entries else self.base[0]
        must(commit <= last, f"commit {commit} is written, and the disk ends at {last}")
        self.hard = HardState(self.hard.term, self.hard.vote, max(commit, self.hard.commit))

    def has(self, index: int, term: int) -> bool:
        """Whether this entry is here, be it in the snapshot."""
        if index <= self.base[0]:
            return True
        at = index - self.base[0] - 1
        return at < len(self.entries) and self.entries[at].term == term


class ManualDisk:
    """Work waits until `step`; a crash forgets what waits."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
        self.held = False

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """Puts it to the rest."""
        self.waiting.append((work, then))

    def step(self) -> bool:
        """Does the first one; whether there was one."""
        if not self.waiting:
            return False
        work, then = self.waiting.pop(0)
        full: Exception | None = None
        try:
            work()
        except StorageFullError as error:
            full = error
        then(full)
        return True

    def close(self) -> None:
        """Nothing to do."""


class Machine:
    """Remembers all commands, in order; a command's result is how many there are with it."""

    def __init__(self, world: "World", node: "Node") -> None:
        self.commands: list[bytes] = []
        self._world = world
        self._node = node

    def apply(self, index: int, data: bytes) -> int:
        """One command."""
        self.commands.append(data)
        return len(self.commands)

    def snapshot(self) -> Iterator[bytes]:
        """All of them, a few at a time."""
        now = b"\n".join(self.commands)
        return iter([now[at : at + 10] for at in range(0, len(now), 10)])

    def restore(self, data: bytes) -> None:
        """Begins with these."""
        self.commands = data.split(b"\n") if data else []


@dataclass(slots=True)
class Node:
    """An ordinal's process, when it runs, and its disk."""

    own: NodeId
    storage: MemoryStorage
    disk: ManualDisk
    driver: RaftDriver[int] | None = None
    machine: Machine | None = None
    commit: int = 0
    checked_term: int = 0

    @property
    def raft(self) -> Raft:
        """The core of a running one."""
        assert self.driver is not None, f"{self.own.ordinal} doesn't run"
        return self.driver.raft


@dataclass(slots=True)
class _Link:
    """The way out of one process."""

    world: "World"

    def send(self, messages: Sequence[RaftMessage]) -> None:
        for message in messages:
            self.world.on_send(message)


class World:
    """Nodes, messages on their way, and the books."""

    def __init__(
        self,
        ordinals: Iterable[int],
        random: Callable[[int], int],
        settings: Settings,
        learners: Iterable[int] = (),
    ) -> None:
        self.random = random
        self.settings = settings
        self.nodes: dict[int, Node] = {}
        self.network: list[RaftMessage] = []
        self.cuts: set[tuple[int, int]] = set()
        """(from, to) that nothing gets through."""
        self.disks: dict[NodeId, MemoryStorage] = {}
        """All that ever were, emptied ones too."""
        self.leaders: dict[int, NodeId] = {}
        """By term."""
        self.votes: dict[tuple[int, NodeId], NodeId] = {}
        """(term, voter): whom it voted for."""
        self.written: dict[tuple[int, int], tuple[bytes, int]] = {}
        """(index, term) of every entry that was ever on a disk or sent: its data, and the term before it."""
        self.committed: dict[int, tuple[int, bytes]] = {}
        """(term, data) by index."""
        self.acknowledged = 0
        """Commands that somebody was told of: each later read has to see them."""
        self.outcomes: list[str] = []
        self.violations: list[str] = []
        """Seen while a driver called back: it guards itself against what its callers raise."""
        self.on_fatal: Callable[[Exception], None] = _never
        """Gets what must end a process."""
        voters = tuple(self.new_id(ordinal) for ordinal in ordinals)
        taught = tuple(self.new_id(ordinal) for ordinal in learners)
        configuration = Configuration(voters, taught)
        for own in voters:
            founding = Founding(CLUSTER, configuration)
            self.disks[own].persist(founding.hard_state, None, [founding.entry])
        for own in voters + taught:
            self.nodes[own.ordinal] = Node(own, self.disks[own], ManualDisk())
        for ordinal in self.nodes:
            self.start(ordinal)

    # --- What happens to nodes ---

    def new_id(self, ordinal: int) -> NodeId:
        """An ordinal with a disk that never was before."""
        own = NodeId(ordinal, (len(self.disks) + 1).to_bytes(2, "big"))
        self.disks[own] = MemoryStorage()
        return own

    def add(self, own: NodeId) -> None:
        """A new controller, empty."""
        self.nodes[own.ordinal] = Node(own, self.disks[own], ManualDisk())
        self.start(own.ordinal)

    def start(self, ordinal: int) -> None:
        """A process on the disk that the ordinal has."""
        node = self.nodes[ordinal]
        stored = node.storage
        raft = Raft(
            node.own, CLUSTER, stored.hard, stored.snapshot, list(stored.entries), self.random, self.settings,
            stored.base,
        )  # fmt: skip
        node.machine = Machine(self, node)
        node.disk = ManualDisk()
        node.commit = node.checked_term = 0
        node.driver = RaftDriver(raft, stored, _Link(self), node.machine, node.disk, self._ended)
        node.driver.start()
        self.check(node)

    def _ended(self, error: Exception) -> None:
        self.on_fatal(error)

    def crash(self, ordinal: int) -> None:
        """Ends the process; what its disk hadn't done is lost."""
        node = self.nodes[ordinal]
        node.driver = node.machine = None
        node.disk = ManualDisk()

    def stop(self, ordinal: int, *, full: bool = False) -> None:
        """Ends the process in order; `full`: while its disk has no room for what comes from now on."""
        node = self.nodes[ordinal]
        stopped: list[bool] = []
        node.storage.full = full
        self.driver(ordinal).stop(lambda: stopped.append(True))
        while self.disk_step(ordinal):
            pass
        must(bool(stopped), f"{node.own} doesn't stop")
        node.storage.full = False
        self.crash(ordinal)

    def wipe(self, ordinal: int) -> None:
        """A crash, and an empty disk in the place of its own; it knows the cluster, and is not in it."""
        self.crash(ordinal)
        own = self.new_id(ordinal)
        self.nodes[ordinal] = Node(own, self.disks[own], ManualDisk())

    def running(self) -> list[Node]:
        """Those that do."""
        return [node for node in self.nodes.values() if node.driver is not None]

    def tick(self, ordinal: int) -> None:
        """Time passes at one node."""
        self.driver(ordinal).tick()
        self.check(self.nodes[ordinal])

    def driver(self, ordinal: int) -> RaftDriver[int]:
        """Of a running one."""
        driver = self.nodes[ordinal].driver
        assert driver is not None, f"{ordinal} doesn't run"
        return driver

    def disk_step(self, ordinal: int) -> bool:
        """One write reaches the disk."""
        node = self.nodes[ordinal]
        stepped = node.disk.step()
        if stepped:
            self.check(node)
        return stepped

    def flush_disks(self) -> None:
        """All writes reach the disks, but those that are held."""
        while any(not node.disk.held and self.disk_step(node.own.ordinal) for node in self.running()):
            pass

    # --- Messages ---

    def on_send(self, message: RaftMessage) -> None:
        """A message leaves."""
        body = message.body
        if isinstance(body, VoteAnswer) and body.granted and not body.pre:
            voted = self.votes.setdefault((message.term, message.sender), message.target)
            must(voted == message.target, f"{message.sender} votes twice in term {message.term}")
        if isinstance(body, Append):
            self._check_matching(body.prev_term, body.entries)
        self.network.append(message)

    def deliver(self, message: RaftMessage) -> None:
        """It arrives, if anybody is there."""
        ends = message.sender.ordinal, message.target.ordinal
        node = self.nodes.get(message.target.ordinal)
        if node is None or node.driver is None or ends in self.cuts:
            return
        node.driver.receive(message)
        self.check(node)

    # --- Clients ---

    def propose(self, ordinal: int, data: bytes) -> None:
        """A command; its outcome goes into the books."""

        def done(result: int | Exception) -> None:
            if isinstance(result, int):
                self.acknowledged = max(self.acknowledged, result)
                self.outcomes.append(f"{data.decode()} is number {result}")
            else:
                self.outcomes.append(f"{data.decode()}: {type(result).__name__}: {result}")

        self.driver(ordinal).propose(data, done)
        self.check(self.nodes[ordinal])

    def read(self, ordinal: int) -> None:
        """A linearizable read: it sees whatever anybody was told of before it began."""
        told = self.acknowledged
        machine = self.nodes[ordinal].machine
        assert machine is not None

        def done(error: Exception | None) -> None:
            if error is not None:
                self.outcomes.append(f"read at {ordinal}: {type(error).__name__}: {error}")
                return
            seen = len(machine.commands)
            if seen < told:
                self.violations.append(f"a read at {ordinal} sees {seen} commands of {told} acknowledged")
            self.acknowledged = max(self.acknowledged, seen)
            self.outcomes.append(f"read at {ordinal} sees {seen}")

        self.driver(ordinal).read(done)
        self.check(self.nodes[ordinal])

    # --- Invariants ---

    def check(self, node: Node) -> None:
        """What has to hold at a node that something just happened to."""
        must(not self.violations, "; ".join(self.violations))
        if node.driver is None:
            return
        raft, log = node.raft, node.raft.log
        must(log.commit >= node.commit, f"the commit of {node.own} goes back")
        self._check_matching(node.storage.base[1], node.storage.entries)
        if raft.role is RaftRole.LEADER and raft.term > node.checked_term:
            self._check_leader(node)
        if log.commit > node.commit:
            self._check_commit(node)

    def _check_matching(self, previous: int, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            known = self.written.setdefault((entry.index, entry.term), (entry.data, previous))
            must(known == (entry.data, previous), f"two different logs up to {entry.index}@{entry.term}")
            previous = entry.term

    def _check_leader(self, node: Node) -> None:
        raft = node.raft
        node.checked_term = raft.term
        first = self.leaders.setdefault(raft.term, node.own)
        must(first == node.own, f"term {raft.term} has two leaders, {first} and {node.own}")
        for index, (term, _) in self.committed.items():
            there = index <= raft.log.base_index or raft.log.term(index) == term
            must(there, f"leader {node.own} of term {raft.term} lacks {index}@{term}, which is committed")

    def _check_commit(self, node: Node) -> None:
        log = node.raft.log
        for index in range(max(node.commit, log.base_index) + 1, log.commit + 1):
            entry = log.entries[index - log.base_index - 1]
            if index not in self.committed:
                self._check_durable(node, entry)
            known = self.committed.setdefault(index, (entry.term, entry.data))
            must(known == (entry.term, entry.data), f"{node.own} commits another entry {index}")
        node.commit = log.commit

    def _check_durable(self, node: Node, entry: LogEntry) -> None:
        voters = node.raft.configuration.voters
        holding = sum(self.disks[voter].has(entry.index, entry.term) for voter in voters)
        must(
            holding >= majority(len(voters)),
            f"{entry.index}@{entry.term} is committed, and on {holding} of {len(voters)} disks",
        )


def _never(error: Exception) -> None:
    raise AssertionError(f"the disk never fails here: {error}")
