"""Told stories of consumer groups, where one mistake would mislead a member or lose a commit. A coordinates
the group, B next, C last."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tank_controller.state.model import PartitionState
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.group_ages import NEWEST_MEMBER
from tests.simulation.books.group_books import GroupBook
from tests.simulation.clients.clients import Target
from tests.simulation.clients.group_members import GroupMember, Step
from tests.simulation.clients.group_questions import Traits
from tests.simulation.told.told import LIMITS, ToldStory, telling
from tests.simulation.world.brokers import GROUPS, BrokerMachine
from tests.simulation.world.world import MS, SECOND, must

SYNCED = {"flush": "disk"}
GROUP = "billing"
PLACE = ("told", 0)
PAUSE_US = 10 * MS
SESSION_MS, REBALANCE_MS = 2000, 3000
RETENTION_MS = 1000
LOADED_COMMITS = 100
"""A coordinator that loads one batch in each tick needs some seconds for so many."""


class Scene:
    """The group of a story, and its coordinators."""

    def __init__(self, story: ToldStory) -> None:
        self.story = story
        self._topic_id = story.create_groups().topic_id
        self.target = Target(GROUPS_TOPIC, self._topic_id, 0)

    @property
    def book(self) -> GroupBook:
        """What is known of the group."""
        return self.story.group_books.of(self.target.key, GROUP)

    @property
    def placed(self) -> PartitionState:
        """The partition of the group."""
        return self.story.state.topics[self._topic_id].partitions[0]

    @property
    def cast(self) -> tuple[BrokerMachine, ...]:
        """Who coordinates, and the others in the order in which they would."""
        placed = self.placed
        others = [each for each in placed.replicas if each != placed.leader]
        return tuple(self.story.brokers[broker_id] for broker_id in (placed.leader, *others))

    def at(self, machine: BrokerMachine) -> Partition:
        """The partition of the group, as a broker that runs has it."""
        found = machine.replica(self.target.key)
        assert found is not None
        return found

    def member(
        self, does: Step = Step.HEARTBEAT, *, instance_id: str | None = None, holds_sync: bool = False
    ) -> GroupMember:
        """Another process of the group."""
        story = self.story
        traits = Traits(
            GROUP,
            (PLACE,),
            NEWEST_MEMBER,
            instance_id=instance_id,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        made = GroupMember(story.world, story.books, self.target, PAUSE_US, traits, self.book)
        made.holds_sync = holds_sync
        self.send_in(made, does)
        return made

    def send_in(self, member: GroupMember, does: Step) -> None:
        """A member begins its life."""
        member.does, member.peace_since = does, 0
        self.story.send_in(member, self.cast[0])

    def until_settled(self, *members: GroupMember) -> None:
        """They are the members of one generation, and one of them reads the partition."""

        def are_settled() -> bool:
            numbers = {member.place.generation for member in members}
            readers = [member for member in members if PLACE in member.place.positions]
            return len(numbers) == len(readers) == 1 and all(member.is_member for member in members)

        self.story.until(are_settled, "the members' being in one generation", 30 * SECOND)

    def until_coordinated_by(self, machine: BrokerMachine) -> None:
        """Another broker leads the group's partition, and knows it."""
        story = self.story
        story.until(lambda: self.placed.leader == machine.broker_id, "another coordinator", 30 * SECOND)
        story.until(lambda: self.at(machine).leader_epoch == self.placed.leader_epoch, "its taking office")

    def served(self, step: Step) -> int:
        """How often members were served."""
        return self.story.world.counts[f"members served: {step.name.lower()}"]

    def refused(self, name: str) -> int:
        """How often members were refused with this error."""
        return self.story.world.counts[f"members refused: {name}"]

    def until_served(self, step: Step, times: int = 1) -> None:
        """So many times more."""
        before = self.served(step)
        self.story.until(
            lambda: self.served(step) >= before + times, f"{times} answers to {step.name}", 20 * SECOND
        )

    def until_unstored(self, machine: BrokerMachine) -> None:
        """The coordinator has appended a change that it can't commit."""
        replica = self.at(machine)
        self.story.until(lambda: replica.log.written > replica.high_water_mark, "an appended change")

    def rest(self, *members: GroupMember) -> None:
        """They change nothing any more, and all replicas are the same."""
        for member in members:
            member.does = Step.HEARTBEAT
        self.story.go_on(SECOND)
        for member in members:
            member.active = False
        self.story.rest()


@contextmanager
def _telling(limits: Limits = LIMITS, groups: GroupSettings = GROUPS) -> Iterator[Scene]:
    with telling(SYNCED, limits=limits, groups=groups) as story:
        yield Scene(story)


def names_of(machines: Sequence[BrokerMachine]) -> list[str]:
    """The names by which stories cut them off."""
    return [machine.name for machine in machines]


def a_groups_coordinator_dies_and_its_members_join_again() -> None:
    """A has told of two generations. B goes on with them, and the next one is the third."""
    with _telling() as scene:
        a, b, _ = scene.cast
        first = scene.member()
        scene.until_settled(first)
        second = scene.member()
        scene.until_settled(first, second)
        must(first.place.generation == 2, "two members are in generation %s", first.place.generation)
        scene.story.go_on(SECOND)
        a.end(False)
        scene.until_coordinated_by(b)
        scene.until_served(Step.HEARTBEAT, 4)
        must(first.place.generation == 2, "the move of the coordinator has begun a rebalance")
        third = scene.member()
        scene.until_settled(first, second, third)
        must(third.place.generation == 3, "three members are in generation %s", third.place.generation)
        scene.rest(first, second, third)


def a_coordinator_dies_before_a_generation_is_stored() -> None:
    """A has a member, and can't store its generation: it isn't told. B has never heard of it, and another
    member is there first."""
    with _telling() as scene:
        a, *others = scene.cast
        scene.story.part(a, *names_of(others), one_way=True)
        first = scene.member()
        scene.until_unstored(a)
        scene.story.go_on(200 * MS)
        must(first.place.generation < 0, "a generation was told that is not stored")
        first.active = False
        a.end(False)
        scene.until_coordinated_by(others[0])
        second = scene.member()
        scene.until_settled(second)
        must(second.place.generation == 1, "the first generation is %s", second.place.generation)
        first.active = True
        scene.until_settled(first, second)
        scene.rest(first, second)


def assignments_are_lost_with_their_coordinator() -> None:
    """A has told of a generation, and can't store what its leader assigns: it isn't told. The leader brings
    it again to B, for the same generation."""
    with _telling() as scene:
        a, *others = scene.cast
        member = scene.member(holds_sync=True)
        scene.story.until(lambda: member.place.owes_sync, "a generation")
        scene.story.go_on(500 * MS)
        scene.story.part(a, *names_of(others), one_way=True)
        member.holds_sync = False
        scene.until_unstored(a)
        scene.story.go_on(200 * MS)
        must(not member.is_member, "an assignment was told that is not stored")
        a.end(False)
        scene.until_coordinated_by(others[0])
        scene.until_settled(member)
        must(member.place.generation == 1, "the assignment is of generation %s", member.place.generation)
        scene.rest(member)


def a_member_commits_what_it_read_in_an_older_generation() -> None:
    """Its commit was late, and the group is a generation on."""
    with _telling() as scene:
        first = scene.member()
        scene.until_settled(first)
        second = scene.member()
        scene.until_settled(first, second)
        reader = first if first.place.positions else second
        reader.generation_said, reader.does = -1, Step.COMMIT
        scene.story.until(lambda: scene.refused("illegal_generation") > 0, "a refusal")
        must(not scene.served(Step.COMMIT), "it was taken")
        reader.generation_said = 0
        first.does = second.does = Step.COMMIT
        scene.until_served(Step.COMMIT, 3)
        scene.rest(first, second)


def a_commit_is_lost_with_its_coordinator() -> None:
    """A takes a commit that no other broker has: it isn't acknowledged. The member goes on from what B
    has."""
    with _telling() as scene:
        a, *others = scene.cast
        member = scene.member(Step.COMMIT)
        scene.until_settled(member)
        scene.until_served(Step.COMMIT, 3)
        scene.story.part(a, *names_of(others), one_way=True)
        scene.until_unstored(a)
        scene.story.go_on(200 * MS)
        before = scene.served(Step.COMMIT)
        scene.story.go_on(200 * MS)
        must(scene.served(Step.COMMIT) == before, "a commit was acknowledged that A alone has")
        member.does = Step.FETCH
        a.end(False)
        scene.until_coordinated_by(others[0])
        scene.until_served(Step.FETCH, 3)
        member.does = Step.COMMIT
        scene.until_served(Step.COMMIT, 3)
        scene.rest(member)


def an_old_process_of_a_static_member_goes_on() -> None:
    """Another process has taken its place. It hears so, by its heartbeat or by its commit."""
    for does in (Step.HEARTBEAT, Step.COMMIT):
        _replace(does)


def _replace(does: Step) -> None:
    with _telling() as scene:
        old = scene.member(does, instance_id="rack-1")
        scene.until_settled(old)
        new = scene.member(instance_id="rack-1")
        old.twin = new
        scene.until_settled(new)
        must(new.place.generation == 1, "the new process has begun a rebalance")
        scene.story.until(lambda: not old.active, "the old process's end")
        scene.until_served(Step.HEARTBEAT, 3)
        must(new.is_member, "the new process is out")
        scene.rest(new)


def members_that_live_are_kept() -> None:
    """They send heartbeats, and nothing else."""
    with _telling() as scene:
        member = scene.member()
        scene.until_settled(member)
        scene.story.go_on(4 * SESSION_MS * MS)
        must(member.is_member, "a member that lives is out")
        must(member.place.generation == 1, "a member that lives was out")
        scene.rest(member)


def a_group_reads_slowly_what_it_has_committed_long_ago() -> None:
    """What its group reads stays committed, however old it is. When the group has gone, it expires."""
    limits = replace(LIMITS, group_sweep_ms=500)
    with _telling(limits, replace(GROUPS, offsets_retention_ms=RETENTION_MS)) as scene:
        member = scene.member(Step.COMMIT)
        scene.until_settled(member)
        scene.until_served(Step.COMMIT, 3)
        member.does = Step.HEARTBEAT
        scene.story.go_on(5 * RETENTION_MS * MS)
        member.does = Step.FETCH
        scene.until_served(Step.FETCH)
        member.leaves = member.stays_out = True
        scene.until_served(Step.LEAVE)
        scene.story.until(lambda: scene.book.stored.image is None, "the group's end")
        scene.rest(member)


def a_new_coordinator_is_asked_while_it_reads_its_groups() -> None:
    """B reads a batch in each tick. Before it is through it says that it isn't, and nothing of offsets."""
    with _telling(replace(LIMITS, group_slice_ms=0)) as scene:
        a, b, _ = scene.cast
        member = scene.member(Step.COMMIT)
        scene.until_settled(member)
        scene.until_served(Step.COMMIT, LOADED_COMMITS)
        member.does = Step.FETCH
        scene.story.go_on(SECOND)
        a.end(False)
        scene.until_coordinated_by(b)
        scene.story.until(lambda: scene.refused("coordinator_load_in_progress") > 3, "its reading")
        scene.until_served(Step.FETCH, 3)
        must(member.place.generation == 1, "the move of the coordinator has begun a rebalance")
        scene.rest(member)


STORIES: tuple[Callable[[], None], ...] = (
    a_groups_coordinator_dies_and_its_members_join_again,
    a_coordinator_dies_before_a_generation_is_stored,
    assignments_are_lost_with_their_coordinator,
    a_member_commits_what_it_read_in_an_older_generation,
    a_commit_is_lost_with_its_coordinator,
    an_old_process_of_a_static_member_goes_on,
    members_that_live_are_kept,
    a_group_reads_slowly_what_it_has_committed_long_ago,
    a_new_coordinator_is_asked_while_it_reads_its_groups,
)
