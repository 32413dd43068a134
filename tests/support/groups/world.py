"""A group's machine among clients, a log and coordinators that fail, and what must hold whatever they do."""

from dataclasses import dataclass, field

from tank_node.coordinators.classic.classic_group import ClassicGroup
from tank_node.coordinators.machine.group_actions import Answer, Store
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue

INITIAL_MS = 3_000
SESSION_MS = 10_000
REBALANCES_MS = (15_000, 40_000)
PROTOCOLS = (
    (("range", b"a"),),
    (("range", b"b"),),
    (("sticky", b"a"), ("range", b"a")),
    (("range", b"a"), ("sticky", b"a")),
)


@dataclass(eq=False)
class Process:
    """A client, as it knows itself. Two of the same instance are an old process and a new one."""

    number: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    leader_id: str = ""
    members: tuple[str, ...] = ()
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS[0]
    wants_to_join: bool = True
    owes_sync: bool = False
    requests: int = 0
    """Of its requests the last one's answer counts: it has closed the connection of the others."""

    def name(self) -> MemberName:
        return MemberName("g", self.member_id, self.instance_id)

    def forget(self) -> None:
        """It starts again."""
        self.member_id, self.generation, self.wants_to_join, self.owes_sync = "", -1, True, False
        self.requests += 1


@dataclass(eq=False)
class Waiting:
    """A join or a sync that has no answer."""

    process: Process
    request: JoinRequest | SyncRequest
    number: int
    patience_ms: int
    """How much longer it may wait, but for the time in which something is being stored."""


@dataclass
class Books:
    """What was told to members, by generation."""

    greatest: int = 0
    leaders: dict[int, str] = field(default_factory=dict)
    protocols: dict[int, str | None] = field(default_factory=dict)
    assignments: dict[int, dict[str, bytes]] = field(default_factory=dict)
    """What was stored first, by generation and person."""
    persons: dict[str, str] = field(default_factory=dict)
    """Member ids, and who has them: an instance, or the member itself."""
    replaced: set[str] = field(default_factory=set)
    """The ids of static members whose successors were told that they are members."""
    current: dict[str, str] = field(default_factory=dict)
    """The ids that instances were told last."""

    def person(self, member_id: str) -> str:
        return self.persons.get(member_id, member_id)

    def joined(self, waiting: Waiting, answer: JoinAnswer) -> None:
        request = waiting.request
        assert isinstance(request, JoinRequest)
        instance_id = request.member.instance_id
        if instance_id is not None:
            self.persons[answer.member_id] = instance_id
            before = self.current.get(instance_id)
            if before is not None and before != answer.member_id:
                self.replaced.add(before)
            self.current[instance_id] = answer.member_id
        number = answer.generation
        assert number >= self.greatest, "a generation goes back"
        self.greatest = number
        leader = self.leaders.setdefault(number, self.person(answer.leader_id))
        assert leader == self.person(answer.leader_id), "two leaders in one generation"
        assert self.protocols.setdefault(number, answer.protocol) == answer.protocol
        assert answer.protocol in dict(request.protocols)
        assert not answer.members or answer.member_id == answer.leader_id

    def stored(self, image: GroupMetadataValue) -> None:
        for member in image.members:
            if member.group_instance_id is not None:
                self.persons[member.member_id] = member.group_instance_id
        if image.members and image.current_state_timestamp >= 0:
            assigned = {self.person(m.member_id): bytes(m.assignment) for m in image.members}
            self.assignments.setdefault(image.generation, assigned)

    def synced(self, waiting: Waiting, answer: SyncAnswer) -> None:
        request = waiting.request
        assert isinstance(request, SyncRequest)
        assert request.member.member_id not in self.replaced, "a fenced member goes on"
        assigned = self.assignments.get(request.generation)
        assert assigned is not None, "an assignment is told before it is stored"
        assert answer.assignment == assigned[self.person(request.member.member_id)]


class World:
    """A group, its log, its clients; and its coordinators, one after the other."""

    def __init__(self, delay_ms: int) -> None:
        self.settings = GroupSettings(initial_delay_ms=delay_ms)
        self.now_ms = 0
        self.books = Books()
        self.log: list[GroupMetadataValue] = []
        self.unstored: list[Store] = []
        self.waiting: set[Waiting] = set()
        instances = (None, None, None, "rack-1", "rack-1", "rack-2")
        self.processes = [Process(number, instance) for number, instance in enumerate(instances)]
        self._ids = 0
        self.group = ClassicGroup("g", self.settings, self._new_id)

    def _new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}-{self._ids}"

    @property
    def size(self) -> int:
        return len(self.group.described().members)

    # Clients

    def go_on(self, process: Process, choice: int) -> None:
        """A client does what it has to do next."""
        if any(w.process is process and w.number == process.requests for w in self.waiting):
            return
        if process.wants_to_join:
            self.join(process, process.protocols)
        elif process.owes_sync:
            self.sync(process, choice)
        else:
            self.heartbeat(process)

    def join(self, process: Process, protocols: tuple[tuple[str, bytes], ...]) -> None:
        process.requests += 1
        process.protocols = protocols
        request = JoinRequest(
            process.name(),
            f"c{process.number}",
            "/10.0.0.7",
            SESSION_MS,
            REBALANCES_MS[process.number % 2],
            "consumer",
            protocols,
            process.number == 1,
            process.number % 2 == 0,
        )
        waiting = Waiting(process, request, process.requests, max(REBALANCES_MS) + INITIAL_MS)
        self.waiting.add(waiting)
        self.group.join(self.now_ms, request, waiting)
        self.act()

    def sync(self, process: Process, choice: int) -> None:
        process.requests += 1
        is_leader = process.leader_id == process.member_id
        assigned = {
            m: f"{m} by {process.member_id}, {choice}".encode() for m in process.members[choice % 2 :]
        }
        request = SyncRequest(process.name(), process.generation, assigned if is_leader else {})
        waiting = Waiting(process, request, process.requests, 2 * max(REBALANCES_MS))
        self.waiting.add(waiting)
        self.group.sync(self.now_ms, request, waiting)
        self.act()

    def heartbeat(self, process: Process) -> None:
        error = self.group.heartbeat(self.now_ms, process.name(), process.generation)
        if not error:
            assert process.member_id not in self.books.replaced, "a fenced member goes on"
        self._heard(process, error)
        self.act()

    def commit(self, process: Process, age: int) -> None:
        generation = process.generation - age
        error = self.group.check_commit(self.now_ms, CommitRequest(process.name(), generation, {}))
        if not error and generation >= 0:
            assert generation >= self.books.greatest, "a commit of an old generation is taken"
            assert process.member_id not in self.books.replaced, "a fenced member goes on"
        self.act()

    def leave(self, process: Process) -> None:
        self.group.leave(self.now_ms, [(process.member_id, process.instance_id)])
        process.forget()
        self.act()

    def _heard(self, process: Process, error: GroupError) -> None:
        if error is GroupError.REBALANCING:
            process.wants_to_join = True
        elif error in (GroupError.UNKNOWN_MEMBER, GroupError.ILLEGAL_GENERATION, GroupError.FENCED_INSTANCE):
            process.forget()

    # The world

    def act(self) -> None:
        for action in self.group.take_actions(1_000_000 + self.now_ms):
            if isinstance(action, Store):
                self.unstored.append(action)
            else:
                assert isinstance(action, Answer)
                self._deliver(action)
        instances = [m.instance_id for m in self.group.described().members if m.instance_id is not None]
        assert len(instances) == len(set(instances)), "an instance has two members"

    def _deliver(self, action: Answer) -> None:
        waiting = action.token
        assert isinstance(waiting, Waiting)
        self.waiting.remove(waiting)  # KeyError: it was answered twice
        answer, process = action.answer, waiting.process
        if not answer.error and isinstance(answer, JoinAnswer):
            self.books.joined(waiting, answer)
        elif not answer.error and isinstance(answer, SyncAnswer):
            self.books.synced(waiting, answer)
        if waiting.number != process.requests:
            return  # its client has gone
        if isinstance(answer, JoinAnswer):
            if answer.error is GroupError.MEMBER_ID_REQUIRED:
                process.member_id = answer.member_id
            elif not answer.error:
                process.member_id, process.generation = answer.member_id, answer.generation
                process.leader_id = answer.leader_id
                process.members = tuple(member.member_id for member in answer.members)
                process.wants_to_join, process.owes_sync = False, True
        elif not answer.error:
            process.owes_sync = False
        self._heard(process, answer.error)

    def store(self) -> None:
        if self.unstored:
            change = self.unstored.pop(0)
            self._keep(change)
            self.group.stored(self.now_ms, change.change, GroupError.NONE)
            self.act()

    def fail(self, *, is_kept: bool) -> None:
        """The coordinator hears that a change failed; it may be in the log nevertheless."""
        if self.unstored:
            change = self.unstored.pop(0)
            if is_kept:
                self._keep(change)
            self.group.stored(self.now_ms, change.change, GroupError.NOT_AVAILABLE)
            self.act()

    def _keep(self, change: Store) -> None:
        self.log.append(change.image)
        self.books.stored(change.image)

    def move(self, kept: int) -> None:
        """The coordinator dies. Another one has as many of the changes under way as were replicated."""
        for change in self.unstored[:kept]:
            self._keep(change)
        self.unstored.clear()
        self.waiting.clear()
        for process in self.processes:
            process.requests += 1  # its connection is closed
        if self.log:
            self.group = ClassicGroup.from_image("g", self.settings, self._new_id, self.log[-1], self.now_ms)
        else:
            self.group = ClassicGroup("g", self.settings, self._new_id)

    def wait(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while True:
            due_ms = self.group.next_deadline_ms()
            next_ms = until_ms if due_ms is None else max(self.now_ms, min(due_ms, until_ms))
            if not self.unstored:
                for waiting in self.waiting:
                    waiting.patience_ms -= next_ms - self.now_ms
            self.now_ms = next_ms
            if due_ms is None or due_ms > until_ms:
                break
            self.group.expire(self.now_ms)
            self.act()
            after_ms = self.group.next_deadline_ms()
            assert after_ms is None or after_ms > self.now_ms, "what is due stays due"
        for waiting in self.waiting:
            if isinstance(waiting.request, JoinRequest):
                assert waiting.patience_ms >= 0, "a join waits too long"
