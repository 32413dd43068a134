"""Where do the logs end? Before a lossy election all are asked, and those that could lead are waited for."""

import pytest

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.log_ends import LogEndQuery
from tank_controller.state.model import PartitionState
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import STEP_MS, Governed


class Leaderless(Governed):
    """A topic of 1, 2 and 3 that waits for a lossy election, and a controller that has not asked yet.

    2 and 3 could lead, but are impaired; 1 is behind, and lives if `third`.
    """

    def __init__(self, *, third: bool) -> None:
        cluster = Cluster(1, 2, 3)
        self.topic_id = cluster.topic()
        cluster.fence(1, 2, 3)
        cluster.up(2, new_disk=True)
        cluster.up(3, new_disk=True)
        if third:
            cluster.unfence(1)
        super().__init__(cluster, replicate=False)

    @property
    def partition(self) -> PartitionState:
        """The topic's only one."""
        return self.cluster.partition(self.topic_id)

    def answer(self, broker_id: int, epoch: int, number: int) -> None:
        """A broker says where its log of the topic ends: at this number, of this epoch."""
        self.tell(broker_id, [end(self.topic_id, epoch, number)])

    def answer_nothing(self, *broker_ids: int) -> None:
        """Brokers say that they have nothing to lead with, or can't read it."""
        for broker_id in broker_ids:
            self.tell(broker_id, [])

    def elect_uncleanly(self) -> CommandOutcome:
        """An operator elects."""
        command = self.cluster.elect(self.topic_id, unclean=True)
        return self.cluster.do(self.tasks.by_ends(self.cluster.state, command))


@pytest.fixture
def pair() -> Leaderless:
    """Broker 1 is away."""
    return Leaderless(third=False)


@pytest.fixture
def trio() -> Leaderless:
    """Broker 1 lives."""
    return Leaderless(third=True)


@pytest.fixture
def asked_pair(pair: Leaderless) -> Leaderless:
    """Broker 1 is away, and the others were asked where their logs end."""
    pair.step()
    return pair


@pytest.fixture
def asked_trio(trio: Leaderless) -> Leaderless:
    """All three live, and were asked where their logs end."""
    trio.step()
    return trio


def end(topic_id: int, epoch: int, number: int) -> pb.LogEnd:
    return pb.LogEnd(topic_id=topic_id, epoch_at_end=epoch, end=number)


def test_the_controller_asks_everybody_where_the_logs_end_and_elects_the_greatest(trio: Leaderless) -> None:
    asks = trio.step().asks
    assert asks == [
        LogEndQuery(each, trio.cluster.epoch(each), each, ((trio.topic_id, 0),)) for each in (1, 2, 3)
    ]
    trio.answer(2, 1, 10)
    trio.answer(3, 1, 20)
    trio.step()
    assert trio.partition.leader == 0, "1 may yet answer"
    trio.answer(1, 2, 5)
    trio.step()
    assert trio.partition.leader == 1
    assert trio.partition.lossy_elections == 1


def test_of_equal_ends_one_that_is_damaged_comes_last(asked_pair: Leaderless) -> None:
    holes = pb.LogEnd(topic_id=asked_pair.topic_id, epoch_at_end=1, end=10, damaged=True)
    asked_pair.tell(2, [holes])
    asked_pair.answer(3, 1, 10)
    asked_pair.step()
    assert asked_pair.partition.leader == 3


def test_who_was_behind_is_waited_for_a_short_while_only(asked_trio: Leaderless) -> None:
    asked_trio.answer(2, 1, 10)
    asked_trio.answer(3, 1, 20)
    asked_trio.run(limits.WAIT_FOR_ENDS_MS // 1000)
    assert asked_trio.partition.leader == 3


def test_who_could_lead_is_waited_for_and_asked_again(asked_pair: Leaderless) -> None:
    asked_pair.answer(2, 1, 10)
    asked = [ask for _ in range(12) for ask in asked_pair.step().asks]
    assert {ask.broker_id for ask in asked} == {3}
    assert len(asked) == 12 * STEP_MS // limits.ASK_ENDS_AGAIN_MS
    assert asked_pair.partition.leader == 0


def test_a_replica_that_could_lead_and_cannot_be_read_now_is_waited_for(asked_trio: Leaderless) -> None:
    asked_trio.answer(1, 1, 5)
    asked_trio.answer(2, 0, 0)
    asked_trio.answer_nothing(3)
    asked_trio.run(limits.WAIT_FOR_ENDS_MS // 1000 + 1)
    assert asked_trio.partition.leader == 0, "3 may have everything, on a disk that failed a later fsync"
    asked_trio.cluster.up(3)
    asked_trio.step()
    asked_trio.answer(3, 1, 10)
    asked_trio.step()
    assert asked_trio.partition.leader == 3


def test_an_operator_who_waits_no_more_gets_the_greatest_end_and_not_who_is_whole_but_behind(
    asked_trio: Leaderless,
) -> None:
    asked_trio.answer(1, 1, 10)
    asked_trio.answer(2, 1, 95)
    asked_trio.answer_nothing(3)
    asked_trio.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    assert asked_trio.tasks.unreadable(asked_trio.topic_id, 0) == [3], "also while it is asked again"
    asked_trio.elect_uncleanly()
    assert (asked_trio.partition.leader, asked_trio.partition.lossy_elections) == (2, 1)
    asked_trio.step()
    assert asked_trio.tasks.unreadable(asked_trio.topic_id, 0) == [], "it is led"


def test_an_operator_gives_up_who_could_lead_and_says_nothing(asked_trio: Leaderless) -> None:
    asked_trio.answer(2, 1, 95)
    asked_trio.elect_uncleanly()
    assert asked_trio.partition.leader == 2


def test_nobody_is_elected_of_whom_none_can_be_read_whatever_an_operator_says(asked_pair: Leaderless) -> None:
    command = asked_pair.cluster.elect(asked_pair.topic_id, unclean=True)
    for broker_id, why in ((2, "ask broker 3, too"), (3, "no replica has a log")):
        asked_pair.answer_nothing(broker_id)
        outcome = asked_pair.cluster.apply(asked_pair.tasks.by_ends(asked_pair.cluster.state, command))
        assert outcome.rejection is not None
        assert why in str(outcome.rejection)
    assert asked_pair.partition.eligible == (2, 3), "they are asked again"


def test_where_nothing_is_known_an_operators_command_is_left_as_it_is(trio: Leaderless) -> None:
    command = trio.cluster.elect(trio.topic_id, unclean=True)
    assert trio.tasks.by_ends(trio.cluster.state, command) is command, "nobody was asked"
    trio.step()
    assert trio.tasks.by_ends(trio.cluster.state, command) is command, "nobody answered"
    trio.answer_nothing(2, 3)
    assert trio.tasks.by_ends(trio.cluster.state, command) is command, "1 lives, and has not said"
    trio.answer(1, 1, 10)
    for other in (trio.cluster.elect(trio.topic_id), trio.cluster.elect(99, unclean=True)):
        assert trio.tasks.by_ends(trio.cluster.state, other) is other
    trio.cluster.fence(3)
    assert trio.tasks.by_ends(trio.cluster.state, command) is command, "3 may come back with more"


def test_an_unclean_election_is_of_one_partition(trio: Leaderless) -> None:
    """Of several it would prefer who is whole, however far behind, where the logs' ends are known."""
    command = trio.cluster.elect(trio.topic_id, unclean=True)
    command.elect_leader.partitions.add(topic_id=trio.topic_id, partition=1)
    with pytest.raises(Rejected, match="one by one"):
        trio.tasks.by_ends(trio.cluster.state, command)
    command.elect_leader.kind = pb.ElectLeader.PREFERRED
    assert trio.tasks.by_ends(trio.cluster.state, command) is command


def test_a_replica_that_was_behind_and_cannot_be_read_is_passed_over(asked_trio: Leaderless) -> None:
    asked_trio.answer_nothing(1)
    asked_trio.answer(2, 0, 0)
    asked_trio.answer(3, 1, 10)
    asked_trio.step()
    assert asked_trio.partition.leader == 3


def test_a_second_answer_to_an_earlier_question_is_none_to_the_next_one(asked_pair: Leaderless) -> None:
    asked_pair.answer(2, 1, 10)
    asked_pair.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    twice = asked_pair.asked[3]
    asked_pair.tell(3, [end(asked_pair.topic_id, 1, 5)], twice)
    asked_pair.step()
    assert asked_pair.partition.leader == 2
    u = asked_pair.cluster.topic("u")
    asked_pair.cluster.failed(2, (u, 0))
    asked_pair.cluster.failed(3, (u, 0))
    asked_pair.step()
    asked_pair.tell(3, [end(asked_pair.topic_id, 1, 5)], twice)
    asked_pair.tell(2, [end(u, 1, 8)])
    asked_pair.step()
    assert asked_pair.cluster.partition(u).leader == 0, "3 has not said yet where this one ends"
    asked_pair.tell(3, [end(u, 1, 9)])
    asked_pair.step()
    assert asked_pair.cluster.partition(u).leader == 3


def test_one_that_had_nothing_to_lead_with_is_asked_again_while_the_partition_waits(
    asked_pair: Leaderless,
) -> None:
    asked_pair.answer_nothing(2, 3)
    asked_pair.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    asked_pair.answer(2, 1, 10)
    asked_pair.answer(3, 1, 30)
    asked_pair.step()
    assert asked_pair.partition.leader == 3


def test_when_nobody_has_anything_to_lead_with_nothing_is_proposed(asked_pair: Leaderless) -> None:
    for broker_id in (2, 3):
        asked_pair.answer_nothing(broker_id)
    asked_pair.run(5)
    assert not asked_pair.kinds["elect_lossy"]
    assert asked_pair.partition.leader == 0


def test_what_another_process_said_and_what_nobody_asked_is_passed_over(pair: Leaderless) -> None:
    pair.tasks.ends(2, pair.cluster.epoch(2), pb.LogEnds(ends=[end(pair.topic_id, 9, 9)]), 0)
    pair.step()
    old = pair.asked[3]
    pair.tell(2, [end(pair.topic_id, 1, 10), end(99, 9, 9)])
    pair.answer(3, 1, 30)
    pair.cluster.up(3)
    asks = pair.step().asks
    assert [(ask.broker_id, ask.broker_epoch) for ask in asks] == [(3, pair.cluster.epoch(3))]
    pair.tell(3, [end(pair.topic_id, 1, 30)], old)
    assert pair.step().asks == [], "the question is still open"
    assert pair.partition.leader == 0
    pair.answer(3, 1, 5)
    pair.step()
    assert pair.partition.leader == 2


def test_a_partition_that_waits_in_vain_does_not_keep_others_from_their_turn(
    pair: Leaderless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_PARTITIONS_PER_COMMAND", 1)
    first = pair.topic_id
    others = [pair.cluster.topic(f"other{n}") for n in range(2)]
    for topic_id in others:
        pair.cluster.failed(2, (topic_id, 0))
        pair.cluster.failed(3, (topic_id, 0))
    for _ in range(4 * limits.CASE_IN_VAIN_MS // STEP_MS):
        for ask in pair.step().asks:
            ((topic_id, _),) = ask.partitions
            if topic_id != first:
                pair.tell(ask.broker_id, [end(topic_id, 1, ask.broker_id)], ask)
    assert [pair.cluster.partition(topic_id).leader for topic_id in (first, *others)] == [0, 3, 3]


def test_who_comes_back_whole_meanwhile_leads_and_the_answers_count_no_more() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    governed = Governed(cluster, replicate=False)
    assert governed.step().asks == [], "3 may be whole"
    cluster.up(3)
    governed.step()
    assert (cluster.partition(t).leader, cluster.partition(t).lossy_elections) == (3, 0)
