"""Told stories of consumer groups whose coordinator shares the partitions out (KIP-848), where one mistake
would give a partition to two members, or lose one. A coordinates the group, B next, C last."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.simulation.clients.group_members import Step
from tests.simulation.clients.group_questions import Traits
from tests.simulation.clients.sharing_members import SharingMember
from tests.simulation.ingredients import Wanted
from tests.simulation.told.groups import GROUP, PAUSE_US, REBALANCE_MS, SYNCED, Scene, names_of
from tests.simulation.told.told import telling
from tests.simulation.world.brokers import GROUPS
from tests.simulation.world.world import MS, SECOND, must

SESSION_MS, HEARTBEAT_MS = 2000, 50
TOPIC = "shared"
PLACES = ((TOPIC, 0), (TOPIC, 1))


class SharedScene(Scene):
    """A group that reads two partitions."""

    def share(self) -> None:
        """The topic that it reads."""
        self._shared = self.story.add(Wanted(TOPIC, len(PLACES), 3, dict(SYNCED)))

    def sharer(self, does: Step = Step.HEARTBEAT, *, instance_id: str | None = None) -> SharingMember:
        """Another process of the group."""
        story = self.story
        traits = Traits(GROUP, PLACES, instance_id=instance_id, rebalance_ms=REBALANCE_MS)
        made = SharingMember(story.world, story.books, self.target, PAUSE_US, traits, self.book, self._names)
        self.send_in(made, does)
        return made

    def _names(self) -> dict[int, str]:
        return {self._shared.topic_id: TOPIC}

    def until_shared(self, *members: SharingMember) -> None:
        """They are the members of one epoch, and each partition has one reader."""

        def are_shared() -> bool:
            epochs = {member.place.generation for member in members}
            read = sorted(place for member in members for place in member.place.positions)
            return len(epochs) == 1 and read == list(PLACES) and all(member.is_member for member in members)

        self.story.until(are_shared, "the partitions' being shared out", 30 * SECOND)


@contextmanager
def _telling() -> Iterator[SharedScene]:
    groups = replace(GROUPS, consumer_session_ms=SESSION_MS, consumer_heartbeat_ms=HEARTBEAT_MS)
    with telling(SYNCED, groups=groups) as story:
        scene = SharedScene(story)
        scene.share()
        yield scene


def a_coordinator_dies_and_what_it_shared_out_stays() -> None:
    """Two members read a partition each. B goes on with what A has told them, and a third member begins the
    next epoch."""
    with _telling() as scene:
        a, b, _ = scene.cast
        first, second = scene.sharer(), scene.sharer()
        scene.until_shared(first, second)
        scene.story.go_on(SECOND)
        epoch, read = first.place.generation, dict(first.place.positions)
        a.end(False)
        scene.until_coordinated_by(b)
        scene.until_served(Step.HEARTBEAT, 4)
        must(first.place.generation == epoch, "the move of the coordinator has begun another epoch")
        must(first.place.positions == read, "the move of the coordinator has moved partitions")
        third = scene.sharer()
        scene.until_shared(first, second, third)
        must(third.place.generation > epoch, "the third member is in epoch %s", third.place.generation)
        scene.rest(first, second, third)


def a_member_keeps_what_another_one_is_to_have() -> None:
    """The first member reads both partitions, and takes its time to give one up. The second one waits."""
    with _telling() as scene:
        first = scene.sharer()
        scene.until_shared(first)
        first.keeps = True
        second = scene.sharer()
        scene.story.until(lambda: second.place.generation > 0, "the second member's joining")
        scene.story.go_on(SECOND)
        must(not second.place.positions, "the second member reads what the first one has not given up")
        first.keeps = False
        scene.until_shared(first, second)
        must(len(second.place.positions) == 1, "the second member reads %s", tuple(second.place.positions))
        scene.rest(first, second)


def a_member_never_gives_up_what_another_one_is_to_have() -> None:
    """It has the time of a rebalance for that; then it is out, and must come in anew."""
    with _telling() as scene:
        first = scene.sharer()
        scene.until_shared(first)
        first.keeps = True
        second = scene.sharer()
        scene.story.until(lambda: bool(second.place.positions), "the first member's being out", 10 * SECOND)
        first.keeps = False
        scene.until_shared(first, second)
        scene.rest(first, second)


def partitions_are_promised_by_a_coordinator_that_stores_nothing() -> None:
    """A has a member, and can't store that it is one: it isn't told. B has never heard of it."""
    with _telling() as scene:
        a, *others = scene.cast
        scene.story.part(a, *names_of(others), one_way=True)
        first = scene.sharer()
        scene.until_unstored(a)
        scene.story.go_on(200 * MS)
        must(not first.place.positions, "partitions were promised that are not stored")
        first.active = False
        a.end(False)
        scene.until_coordinated_by(others[0])
        second = scene.sharer()
        scene.until_shared(second)
        first.active = True
        scene.until_shared(first, second)
        scene.rest(first, second)


def a_member_commits_in_an_epoch_that_is_over() -> None:
    """Its commit was late, and the member is an epoch on."""
    with _telling() as scene:
        first = scene.sharer()
        scene.until_shared(first)
        second = scene.sharer()
        scene.until_shared(first, second)
        first.generation_said, first.does = -1, Step.COMMIT
        scene.story.until(lambda: scene.refused("stale_member_epoch") > 0, "a refusal")
        must(not scene.served(Step.COMMIT), "it was taken")
        first.generation_said = 0
        first.does = second.does = Step.COMMIT
        scene.until_served(Step.COMMIT, 3)
        scene.rest(first, second)


def members_that_live_keep_what_they_have() -> None:
    """They send heartbeats, and nothing else."""
    with _telling() as scene:
        member = scene.sharer()
        scene.until_shared(member)
        scene.story.go_on(4 * SESSION_MS * MS)
        must(member.place.generation == 1, "a member that lives was out")
        scene.rest(member)


def a_member_dies_and_the_other_reads_on() -> None:
    """What it had is free when its session is over."""
    with _telling() as scene:
        first, second = scene.sharer(), scene.sharer()
        scene.until_shared(first, second)
        second.line.hang_up()
        second.active = False
        scene.until_shared(first)
        scene.rest(first)


def a_static_member_starts_again_while_it_lives() -> None:
    """Its second process waits until the first one has left, and has then what that one had. For the other
    member nothing moves."""
    with _telling() as scene:
        old, other = scene.sharer(instance_id="rack-1"), scene.sharer()
        scene.until_shared(old, other)
        epoch, read = other.place.generation, set(old.place.positions)
        new = scene.sharer(instance_id="rack-1")
        scene.story.until(lambda: scene.refused("unreleased_instance_id") > 0, "a refusal")
        must(not new.place.positions, "two processes are the same static member")
        old.leaves = old.stays_out = True
        scene.until_shared(new, other)
        must(set(new.place.positions) == read, "the new process reads something else")
        must(other.place.generation == epoch, "the other member has noticed")
        scene.rest(new, other)


STORIES: tuple[Callable[[], None], ...] = (
    a_coordinator_dies_and_what_it_shared_out_stays,
    a_member_keeps_what_another_one_is_to_have,
    a_member_never_gives_up_what_another_one_is_to_have,
    partitions_are_promised_by_a_coordinator_that_stores_nothing,
    a_member_commits_in_an_epoch_that_is_over,
    members_that_live_keep_what_they_have,
    a_member_dies_and_the_other_reads_on,
    a_static_member_starts_again_while_it_lives,
)
