"""The machine of a group of the consumer protocol among clients, a log, topics and coordinators that fail,
and what must hold whatever they do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tank_node.coordinators.classic.subscription import read_assignment
from tank_node.coordinators.consumer.consumer_group import ConsumerGroup
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_actions import Answer, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.records.consumer_records import ConsumerImage, ConsumerRecord
from tank_node.coordinators.records.group_records import read
from tests.support.groups.consumer_scene import subscription
from tests.support.groups.known_topics import KnownTopics

SESSION_MS = 45_000
CLASSIC_SESSION_MS = 10_000
REBALANCE_MS = 30_000
TOPICS: tuple[tuple[str, ...], ...] = (("orders",), ("orders", "bills"), ("bills",), ("later",))
_REJOIN = (GroupError.FENCED_MEMBER_EPOCH, GroupError.UNKNOWN_MEMBER, GroupError.ILLEGAL_GENERATION)

Part = tuple[str, int]


@dataclass(eq=False)
class Process:
    """A client, as it knows itself. What it reads of deleted topics it reads no more."""

    number: int
    instance_id: str | None = None
    is_classic: bool = False
    member_id: str = ""
    epoch: int = 0
    topics: tuple[str, ...] = TOPICS[0]
    said_topics: tuple[str, ...] = ()
    """Those that its last request said."""
    reads: set[Part] = field(default_factory=set)
    """What it reads: it may commit it in its epoch."""
    is_to_read: set[Part] = field(default_factory=set)
    says_all: bool = True
    wants_to_join: bool = True
    owes_sync: bool = False
    requests: int = 0
    """Of its requests the last one's answer counts: it has closed the connection of the others."""

    def lose(self) -> None:
        """It reads nothing more, and joins anew."""
        self.reads, self.is_to_read = set(), set()
        self.epoch, self.says_all, self.wants_to_join, self.owes_sync = 0, True, True, False


@dataclass(eq=False)
class Waiting:
    """A request that has no answer."""

    process: Process
    number: int


class ConsumerWorld:
    """A group, its log, its clients, its topics; and its coordinators, one after the other."""

    def __init__(self, *, classic: int = 0) -> None:
        """classic: how many of the clients speak the classic protocol."""
        self.settings = GroupSettings()
        self.topics = KnownTopics({"orders": 4, "bills": 3})
        self.now_ms = 0
        self.log: list[StoredRecord] = []
        self.unstored: list[StoreRecords] = []
        self.waiting: set[Waiting] = set()
        self.told = 0
        """The greatest epoch that any member heard."""
        self._ids = 0
        self.processes = [
            Process(number, "one" if number == 4 else None, is_classic=number < classic)
            for number in range(5)
        ]
        self.group = ConsumerGroup("g", self.settings, self.topics, self.new_id)

    def new_id(self, prefix: str) -> str:
        """An id that no member has had."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    # Clients

    def go_on(self, process: Process) -> None:
        """A client does what it has to do next."""
        if any(w.process is process and w.number == process.requests for w in self.waiting):
            return
        if process.is_classic:
            self._go_on_classic(process)
        else:
            self.heartbeat(process)

    def give_up(self, process: Process) -> None:
        """A client gives up what it is no more to read, and takes up the rest."""
        process.reads &= process.is_to_read
        process.reads |= process.is_to_read

    def _begin(self, process: Process) -> Waiting:
        process.requests += 1
        waiting = Waiting(process, process.requests)
        self.waiting.add(waiting)
        return waiting

    def heartbeat(self, process: Process) -> None:
        """A member of the consumer protocol sends a heartbeat."""
        waiting = self._begin(process)
        joins = process.epoch == 0
        if joins:
            process.member_id = process.member_id or self.new_id("m")
        all_said = joins or process.says_all or process.topics != process.said_topics
        if all_said:
            process.said_topics = process.topics
        heartbeat = ConsumerHeartbeat(
            "g",
            process.member_id,
            process.instance_id if joins else None,
            process.epoch,
            None,
            REBALANCE_MS if all_said else -1,
            process.topics if all_said else None,
            None,
            None,
            # It has what it was assigned from the moment at which it heard of it, though it reads it later.
            {} if joins else by_name(process.reads | process.is_to_read),
            f"c{process.number}",
            "/10.0.0.7",
        )
        self.group.consumer_heartbeat(self.now_ms, heartbeat, waiting)
        self.act()

    def _go_on_classic(self, process: Process) -> None:
        name = MemberName("g", process.member_id)
        if process.wants_to_join:
            # What it has not taken up until now is not its: it says so, and waits for its next assignment.
            process.is_to_read &= process.reads
            process.said_topics = process.topics
            metadata = subscription(process.topics, by_name(process.reads))
            request = JoinRequest(
                name,
                f"c{process.number}",
                "/10.0.0.8",
                CLASSIC_SESSION_MS,
                REBALANCE_MS,
                "consumer",
                (("cooperative", metadata),),
                needs_member_id=True,
            )
            self.group.join(self.now_ms, request, self._begin(process))
        elif process.owes_sync:
            self.group.sync(self.now_ms, SyncRequest(name, process.epoch), self._begin(process))
        else:
            error = self.group.heartbeat(self.now_ms, name, process.epoch)
            if error is GroupError.REBALANCING:
                process.wants_to_join = True
            elif error in _REJOIN:
                process.lose()
                process.member_id = ""
        self.act()

    def leave(self, process: Process, *, for_a_while: bool = False) -> None:
        """A client leaves, and joins as another one later."""
        if process.is_classic:
            self.group.leave(self.now_ms, [(process.member_id, None)])
        elif process.epoch > 0:
            epoch = -2 if for_a_while and process.instance_id is not None else -1
            heartbeat = ConsumerHeartbeat("g", process.member_id, process.instance_id, epoch)
            self.group.consumer_heartbeat(self.now_ms, heartbeat, self._begin(process))
        self.restart(process)
        self.act()

    def restart(self, process: Process) -> None:
        """A client's process starts again, and knows nothing."""
        process.lose()
        process.member_id = ""
        process.requests += 1

    def drop_connection(self, process: Process) -> None:
        """The answer that a client waits for is lost."""
        process.requests += 1
        process.says_all = True

    # The world

    def act(self) -> None:
        """What the machine wants done is done, and what must hold is looked at."""
        for action in self.group.take_actions(1_000_000 + self.now_ms):
            if isinstance(action, Answer):
                self._deliver(action)
            else:
                assert isinstance(action, StoreRecords)
                self.unstored.append(action)
        self.check()

    def check(self) -> None:
        """No partition has two readers whose commits would be taken."""
        readers: dict[tuple[bytes, int], int] = {}
        instances = [m.said.instance_id for m in self.group.sharing.members if m.said.instance_id]
        assert len(instances) == len(set(instances)), "an instance has two members"
        for process in self.processes:
            member = self.group.sharing.members.get(process.member_id)
            if member is None or member.standing.epoch != process.epoch:
                continue
            for name, number in process.reads:
                shape = self.topics.named(name)
                if shape is not None:
                    place = (shape.topic_id, number)
                    other = readers.setdefault(place, process.number)
                    assert other == process.number, f"{name}/{number} has two owners"

    def _deliver(self, action: Answer) -> None:
        waiting = action.token
        assert isinstance(waiting, Waiting)
        self.waiting.remove(waiting)  # KeyError: it was answered twice
        process, answer = waiting.process, action.answer
        if waiting.number != process.requests:
            return
        if isinstance(answer, ConsumerHeartbeatAnswer):
            self._heard(process, answer)
        elif isinstance(answer, JoinAnswer):
            self._joined(process, answer)
        else:
            assert isinstance(answer, SyncAnswer)
            self._synced(process, answer)

    def _heard(self, process: Process, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.error:
            process.says_all = True
            if answer.error in _REJOIN:
                process.lose()
            return
        assert answer.member_epoch >= process.epoch, "a member's epoch goes back"
        process.epoch, process.says_all = answer.member_epoch, False
        self._note(process.epoch)
        if answer.assignment is not None:
            process.is_to_read = parts(answer.assignment)

    def _joined(self, process: Process, answer: JoinAnswer) -> None:
        if answer.error is GroupError.MEMBER_ID_REQUIRED:
            process.member_id = answer.member_id
        elif answer.error in _REJOIN:
            process.lose()
            process.member_id = ""
        elif not answer.error:
            assert answer.generation >= process.epoch, "a generation goes back"
            process.epoch = answer.generation
            process.wants_to_join = process.topics != process.said_topics
            process.owes_sync = True
            self._note(process.epoch)

    def _synced(self, process: Process, answer: SyncAnswer) -> None:
        if answer.error is GroupError.REBALANCING:
            process.wants_to_join = True
        elif answer.error in _REJOIN:
            process.lose()
            process.member_id = ""
        elif not answer.error:
            process.owes_sync = False
            assigned = read_assignment(answer.assignment)
            assert assigned is not None
            process.is_to_read = parts(assigned)
            has_to_join = process.reads - process.is_to_read or process.topics != process.said_topics
            process.wants_to_join = bool(has_to_join)

    def _note(self, epoch: int) -> None:
        assert epoch <= self._stored_epoch(), "an epoch is told before it is stored"
        self.told = max(self.told, epoch)

    def _stored_epoch(self) -> int:
        return self._image().epoch

    def store(self) -> None:
        """The oldest change is below the mark."""
        if self.unstored:
            change = self.unstored.pop(0)
            self.log.extend(change.records)
            self.group.stored(self.now_ms, change.change, GroupError.NONE)
            self.act()

    def fail(self, *, is_kept: bool) -> None:
        """The coordinator hears that a change failed; it may be in the log nevertheless. What comes behind
        one that is not in the log isn't there either."""
        failed = self.unstored[: 1 if is_kept else None]
        del self.unstored[: len(failed)]
        for change in failed:
            if is_kept:
                self.log.extend(change.records)
            self.group.stored(self.now_ms, change.change, GroupError.NOT_AVAILABLE)
        self.act()

    def move(self, kept: int) -> None:
        """The coordinator dies. Another one has as many of the changes under way as were replicated."""
        for change in self.unstored[:kept]:
            self.log.extend(change.records)
        self.unstored.clear()
        self.waiting.clear()
        for process in self.processes:
            self.drop_connection(process)
        image = self._image()
        assert image.epoch >= self.told, "the group's epoch goes back"
        if image.epoch:
            self.group = ConsumerGroup.from_image(
                "g", self.settings, self.topics, self.new_id, image, self.now_ms
            )
        else:
            self.group = ConsumerGroup("g", self.settings, self.topics, self.new_id)
        self.check()

    def _image(self) -> ConsumerImage:
        image = ConsumerImage()
        for key, value in self.log:
            record = read(key, value)
            if isinstance(record, ConsumerRecord):
                image.take(record.key, record.value)
        return image

    def change_topics(self, choice: int) -> None:
        """Topics come, go, and grow."""
        orders = self.topics.named("orders")
        if choice == 0 and orders is not None and orders.partitions < 8:
            self.topics.grow("orders", orders.partitions + 1)
        elif choice == 1:
            if self.topics.named("bills") is not None:
                self.topics.delete("bills")
                for process in self.processes:
                    process.reads = {part for part in process.reads if part[0] != "bills"}
                    process.is_to_read = {part for part in process.is_to_read if part[0] != "bills"}
            else:
                self.topics.make("bills", 2)
        elif choice == 2 and self.topics.named("later") is None:
            self.topics.make("later", 2)

    def wait(self, ms: int) -> None:
        """Time goes by; what has a deadline is done at it."""
        until_ms = self.now_ms + ms
        while (due_ms := self.group.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.group.expire(self.now_ms)
            self.act()
            after_ms = self.group.next_deadline_ms()
            assert after_ms is None or after_ms > self.now_ms, "what is due stays due"
        self.now_ms = until_ms

    @property
    def is_settled(self) -> bool:
        """Whether the group is stable, and its members read what they are to."""
        return self.group.state is GroupState.STABLE and all(
            not process.owes_sync and process.reads == process.is_to_read for process in self.processes
        )


def by_name(places: set[Part]) -> Mapping[str, tuple[int, ...]]:
    """Partitions by their topics' names."""
    found: dict[str, list[int]] = {}
    for name, number in sorted(places):
        found.setdefault(name, []).append(number)
    return {name: tuple(numbers) for name, numbers in found.items()}


def parts(partitions: Mapping[str, tuple[int, ...]]) -> set[Part]:
    """The other way."""
    return {(name, number) for name, numbers in partitions.items() for number in numbers}
