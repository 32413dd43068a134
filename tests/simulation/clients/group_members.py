"""Simulated members of consumer groups, of Kafka's classic protocol and of many ages.

A member looks for its coordinator, joins, shares out the partitions where it leads, and goes on from what
its group has committed. Its positions rise with each commit; it reads no messages, which other consumers do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import (
    Coordinator,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from tank_protos.wire.message import Message
from tests.simulation.books.group_books import GroupBook
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.clients import group_questions as questions
from tests.simulation.clients.clients import Client, Target
from tests.simulation.clients.group_assignors import (
    COOPERATIVE,
    assignment,
    owned_in,
    places_in,
    shared,
    subscription,
)
from tests.simulation.clients.group_questions import Traits
from tests.simulation.clients.kafka_clients import KafkaClient
from tests.simulation.clients.kafka_lines import NOWHERE, HostPort, body_of
from tests.simulation.world.world import MS, SECOND, World, must

APPEND_US = 5 * SECOND
"""`Limits.group_append_ms`: so long a generation may take to be stored."""
LONGEST_INITIAL_US = 3 * SECOND
SLACK_US = SECOND
RECOVERS_US = 30 * SECOND
"""After the last fault: a join that is sent later is held to its time."""
_SEVERAL_FOUND_SINCE = 4
_GONE_SINCE = 9
_OFTEN_COMMITS, _OFTEN_FETCHES = 0.5, 0.1

_AWAY = frozenset({KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR})
_OUT = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION})
_GONE = KafkaError.GROUP_ID_NOT_FOUND
"""The answer to a newer commit where the group is not there: its records went with a lossy election, or its
last member was out for long. To its member this says what UNKNOWN_MEMBER_ID says."""
_ERRORS = (
    _AWAY
    | _OUT
    | {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Step(Enum):
    """What a member's request under way asks for."""

    FIND = 0
    JOIN = 1
    SYNC = 2
    HEARTBEAT = 3
    COMMIT = 4
    FETCH = 5
    LEAVE = 6


@dataclass(slots=True)
class Membership:
    """What a member knows of its place in the group."""

    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    given: dict[str, bytes] = field(default_factory=dict)
    """What all members are to read, where this one leads."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """What it reads, and how far; -1: it has not asked how far the group has read."""
    wants_join: bool = True
    owes_sync: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether it reads, as far as it knows."""
        return self.generation >= 0 and not self.wants_join and not self.owes_sync


class GroupMember(KafkaClient, Client):
    """One of them: a process, which may be one of two that are the same static member."""

    errors = _ERRORS
    """Those that it may be told."""

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        traits: Traits,
        book: GroupBook,
    ) -> None:
        """target: the partition of the internal topic that holds the group."""
        super().__init__(world, books, target, pause_us, book.new_name(traits.instance_id))
        self.traits = traits
        self.book = book
        book.longest_wait_ms = max(book.longest_wait_ms, traits.waits_ms)
        self.place = Membership()
        self.unrest = 0.0
        """How often it leaves, starts again, is silent or joins again, instead of what is due."""
        self.twin: GroupMember | None = None
        """Another process with its instance id."""
        self.commits: dict[TopicPartition, tuple[int, str]] = {}
        """Those of the request that was sent last: offsets and texts."""
        self.peace_since = -1
        """When the last fault was over; -1: there are faults."""
        self.leaves = False
        """It leaves next, and joins again, unless it stays out."""
        self.stays_out = False
        self.does: Step | None = None
        """What it asks whenever nothing else is due; None: by chance."""
        self.holds_sync = False
        """It does not ask for its assignment yet."""
        self.generation_said = 0
        """Added to the generation that its commits say: a client that is late."""
        self._step = Step.FIND
        self._before = book.before()
        self._silent_until = 0
        self._patient_until = 0

    @property
    def shows_health(self) -> int:  # type: ignore[override]
        """A process that another one has replaced is not served, and need not be."""
        return 3 if self.active else 0

    @property
    def is_member(self) -> bool:
        """Whether it reads, as far as it knows."""
        return self.place.is_settled

    # --- its life ---

    def act(self) -> None:
        if self.world.now < self._silent_until and not self.retired:
            self.world.at(self._silent_until, None, self.act)
        else:
            super().act()

    def start_again(self) -> None:
        """A new process, which knows nothing."""
        self.line.hang_up()
        self._forget()
        self.active = True

    def _forget(self) -> None:
        self.place, self.commits = Membership(), {}

    def _replaced(self) -> None:
        """Another process is in its place. It ends; where there is no other, it starts again."""
        self.world.counts["static members replaced"] += 1
        self._forget()
        self.active = self.twin is None or not self.twin.active

    def _unsettle(self) -> None:
        """Something that members do now and then."""
        happens: list[Callable[[], None]] = [self.start_again, self._be_silent, self._leave, self._join_again]
        if self.twin is not None and not self.twin.active:
            happens = [self.twin.start_again]
        self.world.random.choice(happens)()

    def _be_silent(self) -> None:
        self._silent_until = self.world.now + self.world.random.choice((500, 1500, 5000)) * MS

    def _leave(self) -> None:
        self.leaves = True

    def _join_again(self) -> None:
        self.place.wants_join = True

    # --- questions ---

    def _ask(self, number: int) -> None:
        self._before = self.book.before()
        if not self.line.knows_leader:
            self._send(Step.FIND, number, questions.find(self.traits), self.traits.age.find)
            return
        if self.world.chance(self.unrest):
            self._unsettle()
            if not self.line.is_open:
                return
        place = self.place
        if self.leaves and place.member_id:
            self._ask_to_leave(number)
        elif place.wants_join:
            self._ask_to_join(number)
        elif place.owes_sync and not self.holds_sync:
            self._ask_for_assignment(number)
        elif -1 in place.positions.values():
            self._ask_for_offsets(number)
        else:
            self._ask_anything(number)

    def _ask_anything(self, number: int) -> None:
        roll = self.world.random.random()
        step = Step.HEARTBEAT
        if roll < _OFTEN_COMMITS:
            step = Step.COMMIT
        elif roll > 1 - _OFTEN_FETCHES:
            step = Step.FETCH
        step = self.does or step
        if step is Step.COMMIT and self.place.positions:
            self._ask_to_commit(number)
        elif step is Step.FETCH:
            self._ask_for_offsets(number)
        else:
            self._ask_to_live(number)

    def _ask_to_live(self, number: int) -> None:
        request = questions.heartbeat(self.traits, self.place.member_id, self.place.generation)
        self._send(Step.HEARTBEAT, number, request, self.traits.age.heartbeat)

    def _send(self, step: Step, number: int, request: Message, version: int) -> None:
        self._step = step
        self.line.ask(request, version, number, self.target)

    def _ask_to_join(self, number: int) -> None:
        place, traits = self.place, self.traits
        place.owes_sync = False
        if traits.protocols != COOPERATIVE:
            place.positions = {}
            self.commits = {}
        said = subscription({topic for topic, _ in traits.places}, place.positions)
        request = questions.join(traits, place.member_id, [(name, said) for name in traits.protocols])
        longest_us = max(traits.waits_ms, self.book.longest_wait_ms) * MS + LONGEST_INITIAL_US + APPEND_US
        self._patient_until = self.world.now + longest_us + SLACK_US
        self._send(Step.JOIN, number, request, traits.age.join)

    def _ask_for_assignment(self, number: int) -> None:
        place = self.place
        request = questions.sync(self.traits, place.member_id, place.generation, place.protocol, place.given)
        self._send(Step.SYNC, number, request, self.traits.age.sync)

    def _ask_for_offsets(self, number: int) -> None:
        request = questions.fetch(self.traits, everything=self.world.chance(0.3))
        self._send(Step.FETCH, number, request, self.traits.age.fetch)

    def _ask_to_leave(self, number: int) -> None:
        self.leaves = False
        self.book.left(self.place.member_id)
        request = questions.leave(self.traits, self.place.member_id)
        self._send(Step.LEAVE, number, request, self.traits.age.leave)

    def _ask_to_commit(self, number: int) -> None:
        place = self.place
        again = {each: said for each, said in self.commits.items() if each in place.positions}
        if again and again.keys() == self.commits.keys() and self._says_again():
            self.world.counts["commits sent again"] += 1
        else:
            again = {}
            for each in place.positions:
                place.positions[each] += self.world.between(1, 3)
                again[each] = place.positions[each], f"{self.name} {number}"
        self.commits = again
        generation = place.generation + self.generation_said
        request = questions.commit(self.traits, place.member_id, generation, self.commits)
        self._send(Step.COMMIT, number, request, self.traits.age.commit)

    def _says_again(self) -> bool:
        """Whether it commits once more what it doesn't know to be committed."""
        unknown = any(text in self.book.given_up for _, text in self.commits.values())
        # After a rebalance it goes on where the coordinator says, and not where it was before.
        moved = any(offset != self.place.positions[each] for each, (offset, _) in self.commits.items())
        return unknown and not moved and self.world.chance(0.5)

    # --- no answers ---

    def _give_up(self, number: int) -> None:
        is_mine = self._waiting and self._request == number
        if is_mine and self._step is Step.JOIN:
            if self.world.now < self._patient_until:
                self.world.at(self._patient_until, None, lambda: self._give_up(number))
                return
            is_calm = 0 <= self.peace_since < self._before.at - RECOVERS_US
            must(not is_calm, "%s of group %s waits for its generation since %s",
                 self.name, self.traits.group_id, self._before.at)  # fmt: skip
        super()._give_up(number)

    def _unanswered(self) -> None:
        if self._step is Step.COMMIT:
            self._doubt_commits()

    def _doubt_commits(self) -> None:
        """They may be stored, now or later, or not."""
        self.book.given_up.update(text for _, text in self.commits.values())

    # --- answers ---

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        takes = {
            Step.FIND: self._take_coordinator,
            Step.JOIN: self._take_generation,
            Step.SYNC: self._take_assignment,
            Step.HEARTBEAT: self._take_heartbeat,
            Step.COMMIT: self._take_commits,
            Step.FETCH: self._take_offsets,
            Step.LEAVE: self._take_leave,
        }
        takes[self._step](payload, epoch)

    def _served(self) -> None:
        self.answered += 1
        self.world.counts[f"members served: {self._step.name.lower()}"] += 1

    def _refused(self, code: int) -> None:
        """What an error makes it do."""
        error = KafkaError(code)
        self.world.counts[f"members refused: {error.name.lower()}"] += 1
        is_gone = error is _GONE and self._step is Step.COMMIT and self.traits.age.commit >= _GONE_SINCE
        must(is_gone or error in self.errors, "%s of group %s is refused with %s at %s",
             self.name, self.traits.group_id, error.name, self._step.name)  # fmt: skip
        if error in _AWAY:
            self.line.turn_away()
        elif error is KafkaError.REBALANCE_IN_PROGRESS:
            self.place.wants_join = True
        elif is_gone or error in _OUT:
            self._forget()
        elif error is KafkaError.FENCED_INSTANCE_ID:
            self._replaced()

    def _take_coordinator(self, payload: memoryview, epoch: int) -> None:
        version = self.traits.age.find
        body = body_of(FindCoordinatorResponse.ID, payload, version)
        answer = FindCoordinatorResponse.decode(body, version)
        found: Coordinator | FindCoordinatorResponse = answer
        if version >= _SEVERAL_FOUND_SINCE:
            (found,) = answer.coordinators
        address: HostPort = found.host, found.port
        if found.error_code:
            must(address == ("", -1), "an answer without a coordinator names %s", address)
            self._refused(found.error_code)
        else:
            self.line.go_to(address, NOWHERE)

    def _take_generation(self, payload: memoryview, epoch: int) -> None:
        version, place = self.traits.age.join, self.place
        answer = JoinGroupResponse.decode(body_of(JoinGroupResponse.ID, payload, version), version)
        if answer.error_code == KafkaError.MEMBER_ID_REQUIRED:
            must(self.traits.age.is_given_id and not place.member_id, "%s is given an id", self.name)
            place.member_id = answer.member_id
            return
        if answer.error_code:
            self._refused(answer.error_code)
            return
        self.book.joined(self._before, epoch, place.member_id, answer)
        self._served()
        place.member_id, place.generation = answer.member_id, answer.generation_id
        place.protocol = answer.protocol_name or ""
        place.wants_join, place.owes_sync, place.given = False, True, {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            read = {each.member_id: owned_in(bytes(each.metadata)) for each in answer.members}
            given = shared(place.protocol, read, self.traits.places)
            place.given = {member_id: assignment(places) for member_id, places in given.items()}

    def _take_assignment(self, payload: memoryview, epoch: int) -> None:
        version, place = self.traits.age.sync, self.place
        answer = SyncGroupResponse.decode(body_of(SyncGroupResponse.ID, payload, version), version)
        if answer.error_code:
            place.owes_sync = answer.error_code != KafkaError.REBALANCE_IN_PROGRESS
            self._refused(answer.error_code)
            return
        given = bytes(answer.assignment)
        self.book.synced(self._before, epoch, place.member_id, place.generation, given)
        self._served()
        place.owes_sync = False
        assigned = places_in(given)
        gives_up = place.positions.keys() - assigned
        place.positions = {each: place.positions.get(each, -1) for each in sorted(assigned)}
        place.wants_join = bool(gives_up)  # others are to have it in the next generation
        self.world.say(self.name, "reads %s in generation %s", tuple(sorted(assigned)), place.generation)

    def _take_heartbeat(self, payload: memoryview, epoch: int) -> None:
        version, place = self.traits.age.heartbeat, self.place
        answer = HeartbeatResponse.decode(body_of(HeartbeatResponse.ID, payload, version), version)
        if answer.error_code:
            self._refused(answer.error_code)
            return
        self.book.heard(self._before, epoch, place.member_id, place.generation)
        self._served()

    def _take_commits(self, payload: memoryview, epoch: int) -> None:
        version, place = self.traits.age.commit, self.place
        answer = OffsetCommitResponse.decode(body_of(OffsetCommitResponse.ID, payload, version), version)
        errors = {
            (topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        must(errors.keys() == self.commits.keys(), "%s commits %s, and is told of %s",
             self.name, tuple(self.commits), tuple(errors))  # fmt: skip
        kept = {each: text for each, (_, text) in self.commits.items() if not errors[each]}
        generation = place.generation + self.generation_said
        self.book.kept(self._before, epoch, place.member_id, generation, kept)
        refused = sorted({error for error in errors.values() if error})
        if refused:
            self._doubt_commits()
            self._refused(refused[0])
        else:
            self._served()

    def _take_offsets(self, payload: memoryview, epoch: int) -> None:
        version, place = self.traits.age.fetch, self.place
        code, found = questions.fetched(body_of(OffsetFetchResponse.ID, payload, version), version)
        if code:
            self._refused(code)
            return
        self.book.fetched(self._before, epoch, self._texts(found))
        self._served()
        for each, position in place.positions.items():
            if position < 0:
                place.positions[each] = found[each][0] if each in found else 0

    def _texts(self, found: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, str | None]:
        return {each: found[each][1] if each in found else None for each in self.traits.places}

    def _take_leave(self, payload: memoryview, epoch: int) -> None:
        version = self.traits.age.leave
        answer = LeaveGroupResponse.decode(body_of(LeaveGroupResponse.ID, payload, version), version)
        code = answer.error_code or next((each.error_code for each in answer.members), 0)
        if code:
            self._refused(code)
        else:
            self._left()

    def _left(self) -> None:
        self._served()
        self._forget()
        self.active = self.active and not self.stays_out
