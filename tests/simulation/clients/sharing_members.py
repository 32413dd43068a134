"""Simulated members of groups whose coordinator shares the partitions out (KIP-848): it assigns, and a member
gives up what another one is to have before that one gets it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.topics import Place
from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tank_protos.generated.kafka.consumer_group_heartbeat_request import TopicPartitions
from tank_protos.generated.kafka.consumer_group_heartbeat_response import Assignment
from tests.simulation.books.group_ages import NEWEST_MEMBER
from tests.simulation.books.group_books import GroupBook
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.clients.clients import Target
from tests.simulation.clients.group_members import GroupMember, Step
from tests.simulation.clients.group_questions import Traits
from tests.simulation.clients.kafka_lines import body_of
from tests.simulation.world.world import World

_VERSION = 1
_NUMBER_AT = 8
"""Where the number of a topic stands in its id."""
_JOINS, _LEAVES, _LEAVES_FOR_A_WHILE = 0, -1, -2
_OUT = frozenset({KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID})

TopicNames = Callable[[], Mapping[int, str]]
"""The names of topics by their numbers in the cluster, as far as they were created."""


class SharingMember(GroupMember):
    """One of them. Its generation is its member epoch."""

    errors = GroupMember.errors | {
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNRELEASED_INSTANCE_ID,
    }

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        traits: Traits,
        book: GroupBook,
        names: TopicNames,
    ) -> None:
        super().__init__(world, books, target, pause_us, replace(traits, age=NEWEST_MEMBER), book)
        self._names = names
        self._ids: dict[str, bytes] = {}
        """The ids of topics, as the coordinator has told them, by name."""
        self._says_all = True
        """Its next heartbeat says everything, as stock clients do when an answer was lost: the coordinator
        names an assignment once, and then only to those that say everything."""
        self.keeps = False
        """It does not give up what it is asked to."""

    def _forget(self) -> None:
        self.book.sharing.read_by.pop(self.place.member_id, None)
        super()._forget()

    # --- questions ---

    def _ask_to_join(self, number: int) -> None:
        place = self.place
        if not place.member_id:
            place.member_id = self.book.new_name("id")
        self._read({})
        self._heartbeat(Step.JOIN, number, _JOINS)

    def _ask_to_live(self, number: int) -> None:
        self._heartbeat(Step.HEARTBEAT, number, self.place.generation)

    def _ask_to_leave(self, number: int) -> None:
        self.leaves = False
        self.book.left(self.place.member_id)
        self._heartbeat(Step.LEAVE, number, _LEAVES_FOR_A_WHILE if self.traits.instance_id else _LEAVES)

    def _heartbeat(self, step: Step, number: int, epoch: int) -> None:
        traits = self.traits
        request = ConsumerGroupHeartbeatRequest(
            traits.group_id,
            self.place.member_id,
            epoch,
            traits.instance_id,
            rebalance_timeout_ms=traits.rebalance_ms,
        )
        request.topic_partitions = self._owned()
        if epoch == _JOINS or self._says_all:
            request.subscribed_topic_names = sorted({topic for topic, _ in traits.places})
        self._send(step, number, request, _VERSION)

    def _owned(self) -> list[TopicPartitions]:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(self.place.positions):
            numbers.setdefault(topic, []).append(number)
        return [TopicPartitions(self._ids[topic], found) for topic, found in numbers.items()]

    # --- answers ---

    def _take_generation(self, payload: memoryview, epoch: int) -> None:
        self._take_heartbeat(payload, epoch)

    def _take_leave(self, payload: memoryview, epoch: int) -> None:
        code = self._answer(payload).error_code
        if code:
            self._refused(code)
        else:
            self._left()

    def _unanswered(self) -> None:
        super()._unanswered()
        self._says_all = True

    def _take_heartbeat(self, payload: memoryview, epoch: int) -> None:
        place = self.place
        self._says_all = True
        answer = self._answer(payload)
        if answer.error_code:
            self._refused(answer.error_code)
            return
        given = None
        if answer.assignment is not None:
            given = self._places_in(answer.assignment)
            if given is None:
                return  # as if the answer were lost: the topic is so new that its creator has not heard of it
        self.book.shared(self._before, epoch, place.member_id, answer.member_epoch, given)
        self._served()
        self._says_all = False
        place.generation, place.wants_join = answer.member_epoch, False
        if given is not None:
            self._take_partitions(given)

    def _places_in(self, assignment: Assignment) -> dict[Place, TopicPartition] | None:
        """What it is to have, by the coordinator's names; None: there is a topic that it doesn't know."""
        names = self._names()
        found: dict[Place, TopicPartition] = {}
        for each in assignment.topic_partitions:
            name = names.get(int.from_bytes(each.topic_id[_NUMBER_AT:], "big"))
            if name is None:
                return None
            found |= {(bytes(each.topic_id), number): (name, number) for number in each.partitions}
        return found

    def _take_partitions(self, given: Mapping[Place, TopicPartition]) -> None:
        place = self.place
        self._ids |= {topic: topic_id for (topic_id, _), (topic, _) in given.items()}
        wanted = set(given.values()) | (place.positions.keys() if self.keeps else set())
        self._read({each: place.positions.get(each, -1) for each in sorted(wanted)})
        self.world.say(self.name, "reads %s in epoch %s", tuple(place.positions), place.generation)

    def _read(self, positions: dict[TopicPartition, int]) -> None:
        self.place.positions = positions
        self.book.sharing.read_by[self.place.member_id] = frozenset(positions)

    @staticmethod
    def _answer(payload: memoryview) -> ConsumerGroupHeartbeatResponse:
        body = body_of(ConsumerGroupHeartbeatResponse.ID, payload, _VERSION)
        return ConsumerGroupHeartbeatResponse.decode(body, _VERSION)

    def _refused(self, code: int) -> None:
        super()._refused(code)
        error = KafkaError(code)
        if error in _OUT:
            self._forget()
        elif error is KafkaError.UNRELEASED_INSTANCE_ID and self.twin is not None and self.twin.active:
            self._forget()
            self.active = False  # its other process lives
