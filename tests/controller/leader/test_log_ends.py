"""Where do the logs end? Before a lossy election all are asked, and those that could lead are waited for."""

import pytest

from tank_controller import limits
from tank_controller.leader.log_ends import Ask
from tank_controller.state.outcome import Outcome, Rejected
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import STEP_MS, Governed


def impaired(cluster: Cluster, *, third: bool = False) -> int:
    """A topic of 1, 2 and 3: 2 and 3 could lead, but are impaired; 1 is behind, and lives if `third`."""
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    cluster.up(3, new_disk=True)
    if third:
        cluster.unfence(1)
    return t


def end(topic_id: int, epoch: int, number: int) -> pb.LogEnd:
    return pb.LogEnd(topic_id=topic_id, epoch_at_end=epoch, end=number)


def test_the_controller_asks_everybody_where_the_logs_end_and_elects_the_greatest() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    asks = governed.step().asks
    assert asks == [Ask(each, cluster.epoch(each), each, ((t, 0),)) for each in (1, 2, 3)]
    governed.tell(2, [end(t, 1, 10)])
    governed.tell(3, [end(t, 1, 20)])
    governed.step()
    assert cluster.partition(t).leader == 0, "1 may yet answer"
    governed.tell(1, [end(t, 2, 5)])
    governed.step()
    assert cluster.partition(t).leader == 1
    assert cluster.partition(t).lossy_elections == 1


def test_of_equal_ends_one_that_is_damaged_comes_last() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    holes = pb.LogEnd(topic_id=t, epoch_at_end=1, end=10, damaged=True)
    governed.tell(2, [holes])
    governed.tell(3, [end(t, 1, 10)])
    governed.step()
    assert cluster.partition(t).leader == 3


def test_who_was_behind_is_waited_for_a_short_while_only() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(2, [end(t, 1, 10)])
    governed.tell(3, [end(t, 1, 20)])
    governed.run(limits.WAIT_FOR_ENDS_MS // 1000)
    assert cluster.partition(t).leader == 3


def test_who_could_lead_is_waited_for_and_asked_again() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(2, [end(t, 1, 10)])
    asked = [ask for _ in range(12) for ask in governed.step().asks]
    assert {ask.broker_id for ask in asked} == {3}
    assert len(asked) == 12 * STEP_MS // limits.ASK_ENDS_AGAIN_MS
    assert cluster.partition(t).leader == 0


def test_a_replica_that_could_lead_and_cannot_be_read_now_is_waited_for() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(1, [end(t, 1, 5)])
    governed.tell(2, [end(t, 0, 0)])
    governed.tell(3, [])
    governed.run(limits.WAIT_FOR_ENDS_MS // 1000 + 1)
    assert cluster.partition(t).leader == 0, "3 may have everything, on a disk that failed a later fsync"
    cluster.up(3)
    governed.step()
    governed.tell(3, [end(t, 1, 10)])
    governed.step()
    assert cluster.partition(t).leader == 3


def unclean(governed: Governed, topic_id: int) -> Outcome:
    """An operator elects."""
    cluster = governed.cluster
    command = cluster.elect(topic_id, unclean=True)
    return cluster.do(governed.duties.by_ends(cluster.state, command))


def test_an_operator_who_waits_no_more_gets_the_greatest_end_and_not_who_is_whole_but_behind() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(1, [end(t, 1, 10)])
    governed.tell(2, [end(t, 1, 95)])
    governed.tell(3, [])
    governed.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    assert governed.duties.unreadable(t, 0) == [3], "also while it is asked again"
    unclean(governed, t)
    assert (cluster.partition(t).leader, cluster.partition(t).lossy_elections) == (2, 1)
    governed.step()
    assert governed.duties.unreadable(t, 0) == [], "it is led"


def test_an_operator_gives_up_who_could_lead_and_says_nothing() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(2, [end(t, 1, 95)])
    unclean(governed, t)
    assert cluster.partition(t).leader == 2


def test_nobody_is_elected_of_whom_none_can_be_read_whatever_an_operator_says() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    command = cluster.elect(t, unclean=True)
    for broker_id, why in ((2, "ask broker 3, too"), (3, "no replica has anything")):
        governed.tell(broker_id, [])
        outcome = cluster.apply(governed.duties.by_ends(cluster.state, command))
        assert outcome.rejection is not None
        assert why in str(outcome.rejection)
    assert cluster.partition(t).eligible == (2, 3), "they are asked again"


def test_where_nothing_is_known_an_operators_command_is_left_as_it_is() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    command = cluster.elect(t, unclean=True)
    assert governed.duties.by_ends(cluster.state, command) is command, "nobody was asked"
    governed.step()
    assert governed.duties.by_ends(cluster.state, command) is command, "nobody answered"
    governed.tell(2, [])
    governed.tell(3, [])
    assert governed.duties.by_ends(cluster.state, command) is command, "1 lives, and has not said"
    governed.tell(1, [end(t, 1, 10)])
    for other in (cluster.elect(t), cluster.elect(99, unclean=True)):
        assert governed.duties.by_ends(cluster.state, other) is other
    cluster.fence(3)
    assert governed.duties.by_ends(cluster.state, command) is command, "3 may come back with more"


def test_an_unclean_election_is_of_one_partition() -> None:
    """Of several it would prefer who is whole, however far behind, where the logs' ends are known."""
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    command = cluster.elect(t, unclean=True)
    command.elect_leader.partitions.add(topic_id=t, partition=1)
    with pytest.raises(Rejected, match="one by one"):
        governed.duties.by_ends(cluster.state, command)
    command.elect_leader.kind = pb.ElectLeader.PREFERRED
    assert governed.duties.by_ends(cluster.state, command) is command


def test_a_replica_that_was_behind_and_cannot_be_read_is_passed_over() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster, third=True)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(1, [])
    governed.tell(2, [end(t, 0, 0)])
    governed.tell(3, [end(t, 1, 10)])
    governed.step()
    assert cluster.partition(t).leader == 3


def test_a_second_answer_to_an_earlier_question_is_none_to_the_next_one() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(2, [end(t, 1, 10)])
    governed.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    twice = governed.asked[3]
    governed.tell(3, [end(t, 1, 5)], twice)
    governed.step()
    assert cluster.partition(t).leader == 2
    u = cluster.topic("u")
    cluster.failed(2, (u, 0))
    cluster.failed(3, (u, 0))
    governed.step()
    governed.tell(3, [end(t, 1, 5)], twice)
    governed.tell(2, [end(u, 1, 8)])
    governed.step()
    assert cluster.partition(u).leader == 0, "3 has not said yet where this one ends"
    governed.tell(3, [end(u, 1, 9)])
    governed.step()
    assert cluster.partition(u).leader == 3


def test_one_that_had_nothing_to_lead_with_is_asked_again_while_the_partition_waits() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    governed.tell(2, [])
    governed.tell(3, [])
    governed.run(limits.ASK_ENDS_AGAIN_MS // 1000 + 1)
    governed.tell(2, [end(t, 1, 10)])
    governed.tell(3, [end(t, 1, 30)])
    governed.step()
    assert cluster.partition(t).leader == 3


def test_when_nobody_has_anything_to_lead_with_nothing_is_proposed() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.step()
    for broker_id in (2, 3):
        governed.tell(broker_id, [])
    governed.run(5)
    assert not governed.kinds["elect_lossy"]
    assert cluster.partition(t).leader == 0


def test_what_another_process_said_and_what_nobody_asked_is_passed_over() -> None:
    cluster = Cluster(1, 2, 3)
    t = impaired(cluster)
    governed = Governed(cluster, replicate=False)
    governed.duties.ends(2, cluster.epoch(2), pb.LogEnds(ends=[end(t, 9, 9)]), 0)
    governed.step()
    old = governed.asked[3]
    governed.tell(2, [end(t, 1, 10), end(99, 9, 9)])
    governed.tell(3, [end(t, 1, 30)])
    cluster.up(3)
    asks = governed.step().asks
    assert [(ask.broker_id, ask.broker_epoch) for ask in asks] == [(3, cluster.epoch(3))]
    governed.tell(3, [end(t, 1, 30)], old)
    assert governed.step().asks == [], "the question is still open"
    assert cluster.partition(t).leader == 0
    governed.tell(3, [end(t, 1, 5)])
    governed.step()
    assert cluster.partition(t).leader == 2


def test_a_partition_that_waits_in_vain_does_not_keep_others_from_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_PARTITIONS_PER_COMMAND", 1)
    cluster = Cluster(1, 2, 3)
    first = impaired(cluster)
    others = [cluster.topic(f"other{n}") for n in range(2)]
    for topic_id in others:
        cluster.failed(2, (topic_id, 0))
        cluster.failed(3, (topic_id, 0))
    governed = Governed(cluster, replicate=False)
    for _ in range(4 * limits.CASE_IN_VAIN_MS // STEP_MS):
        for ask in governed.step().asks:
            ((topic_id, _),) = ask.partitions
            if topic_id != first:
                governed.tell(ask.broker_id, [end(topic_id, 1, ask.broker_id)], ask)
    assert [cluster.partition(topic_id).leader for topic_id in (first, *others)] == [0, 3, 3]


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
