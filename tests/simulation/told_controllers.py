"""Told: what the controllers promise to those who ask them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_controller import raft_wire
from tank_controller.raft.messages import Message, VoteRequest
from tank_protos.generated import control_pb2 as pb
from tests.simulation.controllers import Cluster, Controller
from tests.simulation.network import Network, Weather
from tests.simulation.operators import Operator, Watcher, any_command
from tests.simulation.story import listening
from tests.simulation.world import MS, SECOND, World, must


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


@contextmanager
def _telling() -> Iterator[ToldControllers]:
    story = ToldControllers()
    with listening(story.world):
        story.begin()
        yield story


def a_leader_is_read_that_leads_no_more() -> None:
    """It stood still, and hears nobody, while another was elected and has changed things: it can't know."""
    with _telling() as story:
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
    with _telling() as story:
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
    with _telling() as story:
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
        asked = Message(voter.raft.cluster_id, before.own, voter.own, voter.raft.term, request)
        voter.end(False)
        voter.start()
        assert voter.life is not None
        story.world.guarded(voter.life, lambda: voter.take(raft_wire.encode(asked).SerializeToString()))
        story.go_on(SECOND)
        story.network.heal()
        before.start()
        story.write()


def answers_come_twice() -> None:
    """Those to candidates, too: who was asked whether it would vote has not voted yet."""
    with _telling() as story:
        story.write()
        story.network.weather = Weather(doubled=1.0)
        for _ in range(5):
            before = story.leader
            before.end(False)
            story.until(lambda: story.cluster.leader() is not None, "another leader")
            before.start()
            story.write()


def messages_come_twice_and_late() -> None:
    """While many ask for something: a late message takes nothing away that came after it."""
    with _telling() as story:
        story.network.weather = Weather(doubled=1.0, slow=0.3, slow_us=200 * MS, usual_us=20 * MS)
        operators = [Operator(story.cluster, f"o{n}", any_command, 20 * MS) for n in range(4)]
        for operator in operators:
            operator.act()
        story.go_on(2 * SECOND)
        for operator in operators:
            operator.active = False
        story.network.weather = Weather()
        story.write()


STORIES: tuple[Callable[[], None], ...] = (
    a_leader_is_read_that_leads_no_more,
    a_new_leader_is_read_at_once,
    a_voter_starts_again,
    answers_come_twice,
    messages_come_twice_and_late,
)
