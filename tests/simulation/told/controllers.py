"""Told stories of the controllers' guarantees to their clients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import RaftMessage, VoteAnswer, VoteRequest
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node import wire
from tank_controller.raft_node.driver import RaftDriver
from tank_protos.generated import control_pb2 as pb
from tests.simulation.story import listening
from tests.simulation.world.controllers import SNAPSHOT_AFTER_BYTES, Cluster, Controller
from tests.simulation.world.network import Network, Weather
from tests.simulation.world.operators import Operator, Watcher, any_command
from tests.simulation.world.world import MS, SECOND, World, must

SMALL_APPENDS = Settings(max_append_bytes=10)
"""One entry at a time."""


class ToldControllers:
    """Three controllers to which nothing happens but what is told, and one who asks them."""

    def __init__(self) -> None:
        self.world = World(0)
        self.network = Network(self.world, Weather())
        self.cluster = Cluster(self.world, self.network, 3)
        self.operator = Operator(self.cluster, "o", lambda world, operator: pb.Command(), SECOND)
        self._topics = 0

    def begin(self) -> None:
        """All run, and one leads."""
        for node in self.cluster.nodes.values():
            node.start()
        self.until(lambda: self.cluster.leader() is not None, "a leader")

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Violation when it doesn't come within ten seconds."""
        deadline = self.world.now + 10 * SECOND
        while not done():
            must(self.world.now < deadline, "%s: it never came", what)
            self.go_on(MS)

    @property
    def leader(self) -> Controller:
        """Who leads, in the highest term."""
        leader = self.cluster.leader()
        must(leader is not None, "no controller leads")
        assert leader is not None
        return leader

    @property
    def others(self) -> tuple[Controller, Controller]:
        """Who don't."""
        one, other = (node for node in self.cluster.nodes.values() if node is not self.leader)
        return one, other

    def go_on(self, time_us: int) -> None:
        """For so long."""
        self.world.run_until(self.world.now + time_us)

    def ask(self) -> None:
        """For something that changes the metadata."""
        self._topics += 1
        create = pb.CreateTopic(name=f"t{self._topics}", partitions=1)
        command = pb.Command(create_topic=create, now_ms=self.world.now_ms())
        self.operator.ask(command.SerializeToString())

    def write(self) -> None:
        """It is asked for, and answered."""
        self.ask()
        self.until(lambda: not self.operator.is_waiting, "the answer to a command")

    def do(self, node: Controller, work: Callable[[RaftDriver[CommandOutcome]], None]) -> None:
        """In this controller's process, with its driver."""
        life, driver = node.life, node.driver
        assert life is not None
        assert driver is not None
        self.world.guarded(life, lambda: work(driver))

    def try_to_remove(self, leader: Controller, *nodes: Controller) -> None:
        """The leader is asked to, one after the other, and may refuse."""

        def ask(driver: RaftDriver[CommandOutcome]) -> None:
            for node in nodes:
                driver.change(Change(MembershipChangeKind.REMOVE, node.own), lambda result: None)

        self.do(leader, ask)

    def propose_in_vain(self, leader: Controller, total_bytes: int) -> None:
        """Commands of so many bytes, to a leader that can commit none of them."""
        create = pb.CreateTopic(name="in-vain" + "-" * 100, partitions=1)
        command = pb.Command(create_topic=create, now_ms=self.world.now_ms()).SerializeToString()
        for _ in range(total_bytes // len(command) + 1):
            self.do(leader, lambda driver: driver.propose(command, lambda result: None))


@contextmanager
def telling_controllers(
    settings: Settings | None = None, *, begins: bool = True, recollects: bool = True
) -> Iterator[ToldControllers]:
    story = ToldControllers()
    story.cluster.recollects = recollects
    story.cluster.settings = settings or story.cluster.settings
    with listening(story.world):
        if begins:
            story.begin()
        yield story


def a_leader_is_read_that_leads_no_more() -> None:
    """It stood still, and hears nobody, while another was elected and has changed things: it can't know."""
    with telling_controllers() as story:
        story.write()
        before = story.leader
        story.network.cut([before.name], [node.name for node in story.others], one_way=False)
        assert before.life is not None
        before.life.frozen = True
        story.until(lambda: story.leader is not before, "another leader")
        story.write()
        Watcher(story.cluster, SECOND).act()
        story.go_on(100 * MS)
        story.world.thaw(before.life)
        story.go_on(5 * SECOND)
        story.network.heal()
        story.write()
        must(story.world.counts["metadata reads"] > 2, "nobody could read")


def a_new_leader_is_read_at_once() -> None:
    """A command is answered, and its leader dies before it has told anybody that it is committed. The next
    leader has it, but knows so only when an entry of its own term is committed."""
    with telling_controllers(recollects=False) as story:
        story.write()
        story.go_on(SECOND)
        before = story.leader
        others = story.others
        last = before.raft.log.last_index
        story.ask()
        story.until(lambda: all(node.raft.log.last_index > last for node in others), "the command")
        story.network.cut([before.name], [node.name for node in others], one_way=True)
        story.until(lambda: not story.operator.is_waiting, "its answer")
        before.end(False)
        story.until(lambda: story.cluster.leader() is not None, "another leader")
        Watcher(story.cluster, SECOND).act()
        story.go_on(5 * SECOND)
        story.network.heal()
        story.write()
        must(story.world.counts["metadata reads"] > 2, "nobody could read")


def a_voter_starts_again() -> None:
    """It has voted, and its process ends. Another candidate asks the next one, in the same term."""
    with telling_controllers(recollects=False) as story:
        story.write()
        before = story.leader
        candidate, voter = story.others
        term = before.raft.term
        before.end(False)
        story.until(lambda: candidate.raft.vote == voter.own or voter.raft.vote == candidate.own, "a vote")
        if candidate.raft.vote == voter.own:
            candidate, voter = voter, candidate
        must(voter.raft.term > term, "the vote is of an old term")
        story.network.cut([candidate.name], [voter.name], one_way=True)
        story.go_on(50 * MS)
        log = voter.raft.log
        request = VoteRequest(log.last_index, log.last_term)
        asked = RaftMessage(voter.raft.cluster_id, before.own, voter.own, voter.raft.term, request)
        voter.end(False)
        voter.start()
        assert voter.life is not None
        story.world.guarded(voter.life, lambda: voter.take(wire.encode(asked).SerializeToString()))
        story.go_on(SECOND)
        story.network.heal()
        before.start()
        story.write()


def answers_come_twice() -> None:
    """Those to candidates, too: who was asked whether it would vote has not voted yet."""
    with telling_controllers() as story:
        story.write()
        story.network.weather = Weather(doubled=1.0)
        for _ in range(5):
            before = story.leader
            before.end(False)
            story.until(lambda: story.cluster.leader() is not None, "another leader")
            before.start()
            story.write()


def a_vote_comes_a_term_late() -> None:
    """It elected a leader once, and comes again when that one is a candidate anew: it was given for then."""
    with telling_controllers() as story:
        story.write()
        before = story.leader
        before.end(False)
        story.until(lambda: story.cluster.leader() is not None, "another leader")
        elected = story.leader
        [voter] = (node for node in story.others if node is not before)
        vote = RaftMessage(
            elected.raft.cluster_id, voter.own, elected.own, elected.raft.term, VoteAnswer(granted=True)
        )
        must(voter.raft.vote == elected.own, "nobody has voted for the leader")
        voter.end(False)
        story.until(lambda: elected.raft.role is not RaftRole.LEADER, "its stepping down")
        voter.start()
        story.until(lambda: elected.raft.role is RaftRole.CANDIDATE, "its asking for votes")
        must(elected.raft.term > vote.term, "it asks in the term of its last election")
        story.network.cut([elected.name], [voter.name], one_way=False)
        assert elected.life is not None
        story.world.guarded(elected.life, lambda: elected.take(wire.encode(vote).SerializeToString()))
        story.go_on(SECOND)
        story.network.heal()
        before.start()
        story.write()


def messages_come_twice_and_late() -> None:
    """While many ask for something: a late message takes nothing away that came after it."""
    with telling_controllers() as story:
        story.network.weather = Weather(doubled=1.0, slow=0.3, slow_us=200 * MS, usual_us=20 * MS)
        operators = [Operator(story.cluster, f"o{n}", any_command, 20 * MS) for n in range(4)]
        for operator in operators:
            operator.act()
        story.go_on(2 * SECOND)
        for operator in operators:
            operator.active = False
        story.network.weather = Weather()
        story.write()


def many_ask_at_once() -> None:
    """Nothing is answered before a majority of disks has it, however the disks' times fall."""
    with telling_controllers() as story:
        operators = [Operator(story.cluster, f"o{n}", any_command, 20 * MS) for n in range(4)]
        for operator in operators:
            operator.act()
        story.go_on(2 * SECOND)
        for operator in operators:
            operator.active = False
        story.write()


def the_power_goes() -> None:
    """Of all, again and again: what was answered is there."""
    with telling_controllers() as story:
        for _ in range(4):
            story.write()
            for node in story.cluster.nodes.values():
                node.end(True)
            for node in story.cluster.nodes.values():
                node.start()
            story.until(lambda: story.cluster.leader() is not None, "a leader")
        story.write()


def new_controllers_do_not_hear_each_other() -> None:
    """None of them founds a cluster alone."""
    with telling_controllers(begins=False) as story:
        names = [node.name for node in story.cluster.nodes.values()]
        story.network.cut(names, names, one_way=False)
        for node in story.cluster.nodes.values():
            node.start()
        story.go_on(5 * SECOND)
        must(not story.cluster.founded, "a cluster was founded by one alone")
        story.network.heal()
        story.until(lambda: story.cluster.leader() is not None, "a leader")
        story.write()


def a_disk_is_emptied() -> None:
    """Of one of the two that have the last command, and the other is down. Who has nothing elects nobody:
    all that the third one lacks would be lost."""
    with telling_controllers() as story:
        story.write()
        leader = story.leader
        emptied, other = story.others
        story.network.cut([other.name], [leader.name, emptied.name], one_way=False)
        story.write()
        leader.end(False)
        story.network.heal()
        emptied.empty()
        emptied.start()
        story.go_on(5 * SECOND)
        must(story.cluster.leader() is None, "one leads without the last command")
        leader.start()
        story.write()


def the_shorter_log_asks_first() -> None:
    """One has heard nothing for long, and asks for votes as soon as the leader is gone."""
    with telling_controllers(recollects=False) as story:
        for _ in range(5):
            story.until(lambda: story.cluster.leader() is not None, "a leader")
            story.write()
            leader = story.leader
            other, behind = story.others
            story.network.cut([behind.name], [leader.name, other.name], one_way=False)
            story.write()
            story.go_on(SECOND)
            leader.end(False)
            story.network.heal()
            story.until(lambda: story.cluster.leader() is not None, "another leader")
            leader.start()
            story.write()


def two_are_removed_at_once() -> None:
    """By a leader that nobody hears: it may not come to decide alone."""
    with telling_controllers() as story:
        story.write()
        leader = story.leader
        others = story.others
        story.try_to_remove(leader, *others)
        story.go_on(300 * MS)  # each other has answered since: they stay
        story.network.cut([leader.name], [node.name for node in others], one_way=False)
        story.try_to_remove(leader, *others)
        story.until(lambda: story.cluster.leader() not in (None, leader), "another leader")
        story.write()
        story.network.heal()
        story.go_on(5 * SECOND)
        story.write()


def one_is_removed_while_the_disk_of_another_is_gone() -> None:
    """The leader has heard it a moment ago, and is asked to take the third away, again and again: two would
    be left, and one of them exists no more."""
    with telling_controllers() as story:
        story.write()
        story.go_on(SECOND)
        leader = story.leader
        gone, third = story.others
        gone.empty()
        for _ in range(3):
            story.try_to_remove(leader, third)
            story.go_on(200 * MS)
        gone.start()
        story.write()
        story.until(lambda: gone.own in story.leader.raft.configuration.voters, "a voter with an empty disk")


def a_snapshot_is_of_a_moment_before_a_removal_that_comes_to_nothing() -> None:
    """The leader has begun to remove the third, which is down, and is cut off: nothing comes of it. Its
    snapshot goes to the third later, which is a voter as before: without its vote none would be elected."""
    with telling_controllers(Settings(trailing_entries=0)) as story:
        story.write()
        leader = story.leader
        other, third = story.others
        third.end(False)
        story.write()
        story.go_on(SECOND)
        story.try_to_remove(leader, third)  # the other one has to have answered since
        story.go_on(200 * MS)
        story.network.cut([leader.name], [other.name, third.name], one_way=False)
        story.try_to_remove(leader, third)
        must(third.own not in leader.raft.configuration.voters, "its removal is not under way")
        applied = leader.raft.log.applied
        story.propose_in_vain(leader, SNAPSHOT_AFTER_BYTES)
        story.until(lambda: leader.raft.log.base_index == applied, "a snapshot")
        third.start()
        story.until(lambda: story.cluster.leader() is other, "another leader")
        must(third.raft.log.last_index < applied, "the third has what the snapshot is for")
        third.end(False)
        story.network.heal()
        story.until(lambda: leader.raft.leader == other.own, "a follower")
        story.until(lambda: leader.raft.log.commit == other.raft.log.commit, "all that is committed")
        story.do(other, lambda driver: driver.transfer_leadership(leader.own))
        story.until(lambda: story.cluster.leader() is leader, "its leading again")
        third.start()
        story.until(lambda: third.driver is not None and third.raft.log.commit >= applied, "the snapshot")
        other.end(False)
        story.write()
        story.go_on(SECOND)
        leader.end(False)
        other.start()
        story.until(
            lambda: story.cluster.leader() is third, "the third's leading: the other one lacks a command"
        )
        story.write()


def the_disk_of_the_leader_is_full() -> None:
    """And stays so: another one leads, and things can be changed."""
    with telling_controllers() as story:
        story.write()
        disk = story.leader.disk
        disk.capacity_bytes = disk.used_bytes
        for _ in range(3):
            story.write()
        disk.capacity_bytes = None
        story.write()


def an_old_term_left_entries() -> None:
    """A leader's last commands have come to one other, and nobody has answered for them. The next leader
    brings them to the third one by one: they are committed with its own."""
    with telling_controllers(SMALL_APPENDS) as story:
        story.write()
        leader = story.leader
        has, lacks = story.others
        story.network.cut([leader.name], [lacks.name], one_way=False)
        story.network.cut([has.name], [leader.name], one_way=True)
        operators = [Operator(story.cluster, f"o{n}", _create, SECOND) for n in range(4)]
        last = has.raft.log.last_index
        for operator in operators:
            operator.target = leader.ordinal
            operator.ask(_create(story.world, operator).SerializeToString())
        story.until(lambda: has.raft.log.last_index >= last + 4, "the commands")
        leader.end(False)
        story.until(lambda: story.cluster.leader() is not None, "another leader")
        must(story.leader is has, "the one that lacks them leads")
        story.go_on(SECOND)
        story.network.heal()
        leader.start()
        story.write()


def _create(world: World, operator: Operator) -> pb.Command:
    """A topic that is called by the one who asks for it."""
    return pb.Command(create_topic=pb.CreateTopic(name=operator.name, partitions=1), now_ms=world.now_ms())


STORIES: tuple[Callable[[], None], ...] = (
    a_leader_is_read_that_leads_no_more,
    a_new_leader_is_read_at_once,
    a_voter_starts_again,
    answers_come_twice,
    a_vote_comes_a_term_late,
    messages_come_twice_and_late,
    many_ask_at_once,
    the_power_goes,
    new_controllers_do_not_hear_each_other,
    a_disk_is_emptied,
    the_shorter_log_asks_first,
    two_are_removed_at_once,
    one_is_removed_while_the_disk_of_another_is_gone,
    a_snapshot_is_of_a_moment_before_a_removal_that_comes_to_nothing,
    the_disk_of_the_leader_is_full,
    an_old_term_left_entries,
)
