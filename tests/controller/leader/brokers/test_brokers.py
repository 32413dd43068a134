"""The controller's end of brokers' streams: who is taken, what is told, who is fenced. By messages alone."""

from pathlib import Path

import pytest

from tank_controller.commands.outcome import Rejected
from tank_controller.leader.brokers import deltas
from tank_controller.leader.brokers.liveness import Loss
from tank_controller.leader.leadership import STALLED_MS
from tank_controller.limits import SESSION_TIMEOUT_MS
from tank_controller.raft.messages import NodeId
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import create
from tests.controller.office import TICK_MS, Broker, Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office


def test_a_broker_is_told_its_epoch_and_the_whole_state_and_then_every_delta(office: Office) -> None:
    first = office.broker(1)
    (registered,) = first.line.all("registered")
    assert registered.registered.broker_epoch == office.state.brokers[1].epoch
    assert registered.registered.peer_key == b"k" * 16
    assert registered.registered.cluster_id == "cluster"
    assert first.line.sent[1].view.whole
    first.propose(create("t", 3))
    assert first.outcome().topic_id
    kinds = [m.WhichOneof("message") for m in first.line.sent]
    assert kinds.index("outcome") > max(i for i, m in enumerate(first.line.sent) if m.view.delta.topics)


def test_a_broker_that_comes_back_gets_what_it_lacks_and_the_far_behind_everything(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "HISTORY_DELTAS", 3)
    first = office.broker(1)
    seen = first.line.index
    first.propose(create("t"))
    first.outcome()
    again = office.stream(1, view_index=seen)
    office.until(lambda: again.line.all("registered"))
    assert not any(m.view.whole for m in again.line.all("view"))
    assert all(m.view.delta.index > seen for m in again.line.all("view")), "nothing that it has"
    assert [t.name for m in again.line.all("view") for t in m.view.delta.topics] == ["t"]
    for number in range(4):
        again.propose(create(f"u{number}"), number)
        again.outcome(number)
    late = office.stream(1, view_index=seen)
    office.until(lambda: late.line.all("view"))
    assert late.line.all("view")[0].view.whole


def test_a_new_stream_ends_the_old_one_and_what_is_unread_in_it(office: Office) -> None:
    old = office.broker(1)
    new = office.stream(1)
    assert old.line.ended
    old.propose(create("late"))
    office.until(lambda: new.line.all("registered"))
    new.propose(create("t"))
    new.outcome()
    assert office.state.topic("late") is None
    office.brokers.closed(old.stream)
    office.pass_ms(SESSION_TIMEOUT_MS // 2)
    new.beat()
    assert not office.state.brokers[1].fenced, "the old stream's end is nobody's end"


def refused(broker: Broker) -> str:
    """Why it is not taken, for now."""
    (said,) = broker.line.sent
    assert said.refused.passing
    return said.refused.message


def test_a_second_process_of_a_broker_is_refused_while_the_first_lives(office: Office) -> None:
    first = office.broker(1)
    for _ in range(3 * SESSION_TIMEOUT_MS // 1000):
        second = office.stream(1, incarnation=b"j" * 16)
        assert "another process is broker 1 at h:1, and lives: stop one of the two" in refused(second)
        office.brokers.closed(second.stream)
        office.pass_ms(1000)
        first.beat()
    assert not first.line.ended
    assert not office.state.brokers[1].fenced
    assert office.stream(1).stream.open, "the first one itself may come again"


def test_the_next_process_of_a_broker_that_was_killed_is_taken_at_once(office: Office) -> None:
    first = office.broker(1)
    office.brokers.closed(first.stream)
    began = office.clock.monotonic_ms()
    second = office.stream(1, incarnation=b"j" * 16)
    office.until(lambda: second.line.all("registered"))
    assert office.clock.monotonic_ms() - began <= TICK_MS


def test_one_of_a_broker_that_is_cut_off_is_taken_when_that_one_has_been_silent_for_the_session(
    office: Office,
) -> None:
    office.broker(1)
    began = office.clock.monotonic_ms()
    taken: list[Broker] = []

    def is_taken() -> bool:
        taken.append(office.stream(1, incarnation=b"j" * 16))
        return taken[-1].stream.open

    office.until(is_taken)
    assert SESSION_TIMEOUT_MS - 1000 <= office.clock.monotonic_ms() - began <= SESSION_TIMEOUT_MS + 1000


def test_a_broker_is_fenced_until_it_has_seen_its_registration(office: Office) -> None:
    broker = office.stream(1)
    office.until(lambda: broker.line.all("registered"))
    broker.say(pb.BrokerUp(heartbeat=pb.BrokerHeartbeat(seen_index=0)))
    office.pass_ms(1000)
    assert office.state.brokers[1].fenced
    broker.beat()
    office.until(lambda: not office.state.brokers[1].fenced)


def test_a_broken_stream_is_fenced_soon_and_a_silent_one_after_its_timeout(office: Office) -> None:
    first, second = office.broker(1), office.broker(2)
    office.brokers.closed(first.stream)
    began = office.clock.monotonic_ms()
    office.until(lambda: office.state.brokers[1].fenced)
    assert office.clock.monotonic_ms() - began < 1000
    assert not office.state.brokers[2].fenced
    office.until(lambda: office.state.brokers[2].fenced)
    assert office.clock.monotonic_ms() - began >= SESSION_TIMEOUT_MS - 1000
    assert office.brokers.leadership.fences == {Loss.STREAM_BROKE: 1, Loss.SILENT: 1}
    second.beat()
    office.until(lambda: not office.state.brokers[2].fenced)


def test_a_controller_that_was_held_up_judges_nobody_by_that_time(office: Office) -> None:
    office.broker(1)
    office.clock.pass_ms(max(STALLED_MS, SESSION_TIMEOUT_MS) * 2)
    office.pass_ms(1000)
    assert not office.state.brokers[1].fenced
    office.until(lambda: office.state.brokers[1].fenced)


def test_who_does_not_lead_names_who_does_and_ends_all_streams(office: Office) -> None:
    broker = office.broker(1)
    office.driven.driver.raft.become_follower(1 << 20, NodeId(2, b"another"))
    office.brokers.tick()
    assert broker.line.sent[-1].not_leader.leader == "leader:1"
    assert broker.line.ended
    other = office.stream(2)
    assert [m.WhichOneof("message") for m in other.line.sent] == ["not_leader"]
    assert not office.brokers.leads


def test_another_clusters_broker_and_a_senseless_registration_are_refused(office: Office) -> None:
    stranger = office.stream(1, cluster_id="elsewhere")
    assert "belongs to cluster elsewhere" in stranger.line.sent[0].refused.message
    assert stranger.line.ended
    nobody = office.stream(1, incarnation=b"short")
    office.until(lambda: nobody.line.ended)
    assert "incarnation" in nobody.line.sent[0].refused.message
    assert office.brokers.streams == {}


def test_nothing_counts_before_the_registration_and_no_command_that_is_the_controllers_own(
    office: Office,
) -> None:
    broker = Broker(office, 1)
    broker.propose(create("t"))
    broker.beat()
    assert broker.line.sent == []
    broker = office.broker(1)
    broker.propose(pb.Command(fence_broker=pb.FenceBroker(broker_id=1)))
    assert broker.outcome().error == ErrorCode.INVALID_REQUEST
    broker.propose(pb.Command(), 2)
    assert broker.outcome(2).error == ErrorCode.INVALID_REQUEST


def test_validation_changes_nothing_and_too_much_is_refused(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = office.broker(1)
    proposal = pb.BrokerProposal(request_id=7, command=create("t"), validate_only=True)
    broker.say(pb.BrokerUp(proposal=proposal))
    assert (broker.outcome(7).error, office.state.topic("t")) == (0, None)
    monkeypatch.setattr("tank_controller.leader.brokers.requests.MAX_WAITING_PROPOSALS", 1)
    broker.propose(create("a"), 8)
    broker.propose(create("b"), 9)
    broker.say(pb.BrokerUp(query=pb.BrokerQuery(request_id=10, groups=pb.GroupsQuery())))
    assert broker.outcome(9).error == ErrorCode.OVERLOADED
    assert broker.line.all("answer")[0].answer.error == ErrorCode.OVERLOADED
    assert broker.outcome(8).error == 0


def test_a_question_is_answered_by_what_is_committed(office: Office) -> None:
    broker = office.broker(1)
    broker.propose(create("t"))
    topic_id = broker.outcome().topic_id
    position = pb.Position(topic_id=topic_id, sequence_number=9)
    broker.propose(pb.Command(commit_positions=pb.CommitPositions(group="g", positions=[position])), 2)
    broker.outcome(2)
    broker.say(pb.BrokerUp(query=pb.BrokerQuery(request_id=3, positions=pb.PositionsQuery(group="g"))))
    office.until(lambda: broker.line.all("answer"))
    answer = broker.line.all("answer")[0].answer
    assert (answer.request_id, answer.positions[0].sequence_number) == (3, 9)


def test_who_asks_how_far_a_view_is_has_it_with_the_answer_whatever_was_committed(office: Office) -> None:
    broker = office.broker(1)
    broker.propose(create("t"))
    position = pb.Position(topic_id=broker.outcome().topic_id, sequence_number=9)
    broker.propose(pb.Command(commit_positions=pb.CommitPositions(group="g", positions=[position])), 2)
    broker.outcome(2)
    assert broker.line.index < office.state.index, "that tells brokers nothing"
    broker.say(pb.BrokerUp(query=pb.BrokerQuery(request_id=3, view=pb.ViewQuery())))
    office.until(lambda: broker.line.all("answer"))
    assert broker.line.index == broker.line.all("answer")[0].answer.index == office.state.index


def test_a_broker_that_shuts_down_may_stop_when_others_lead(office: Office) -> None:
    first, second = office.broker(1), office.broker(2)
    first.propose(create("t", 4, 2))
    first.outcome()
    stop = pb.SetBroker(broker_id=1, epoch=office.state.brokers[1].epoch, shutting_down=True)
    first.propose(pb.Command(set_broker=stop), 2)
    office.until(lambda: first.line.all("may_stop"))
    topic = office.state.topic("t")
    assert topic is not None
    assert {partition.leader for partition in topic.partitions} == {2}
    assert not second.line.all("may_stop")


def test_a_broker_may_move_replicas_and_leaders_for_administrators(office: Office) -> None:
    first, second = office.broker(1), office.broker(2)
    first.propose(create("t", 1, 1))
    topic_id = first.outcome().topic_id
    (partition,) = office.state.topics[topic_id].partitions
    (here,) = partition.replicas
    to = pb.Placed(topic_id=topic_id, replicas=[3 - here])
    first.propose(pb.Command(reassign=pb.Reassign(partitions=[to])), 2)
    assert first.outcome(2).results == [ErrorCode.NONE]
    assert list(partition.adding) == [3 - here]
    ref = pb.PartitionRef(topic_id=topic_id)
    second.propose(pb.Command(cancel_reassign=pb.CancelReassign(partitions=[ref])), 3)
    assert second.outcome(3).results == [ErrorCode.NONE]
    assert (list(partition.replicas), list(partition.adding)) == ([here], [])
    second.propose(pb.Command(elect_leader=pb.ElectLeader(partitions=[ref])), 4)
    assert second.outcome(4).results == [ErrorCode.NONE]


def test_an_unclean_election_that_a_broker_asks_for_goes_by_the_ends_of_logs(office: Office) -> None:
    broker = office.broker(1)
    refs = [pb.PartitionRef(topic_id=5, partition=number) for number in (0, 1)]
    several = pb.ElectLeader(kind=pb.ElectLeader.UNCLEAN, partitions=refs)
    broker.propose(pb.Command(elect_leader=several), 1)
    outcome = broker.outcome(1)
    assert outcome.error == ErrorCode.INVALID_REQUEST
    assert "one by one" in outcome.message


def test_before_a_lossy_election_brokers_are_asked_and_answers_carry_the_questions_number(
    office: Office,
) -> None:
    broker = office.broker(1)
    broker.propose(create("t"))
    topic_id = broker.outcome().topic_id
    failed = pb.PartitionRef(topic_id=topic_id)
    epoch = office.state.brokers[1].epoch
    broker.propose(
        pb.Command(report_failed=pb.ReportFailed(broker_id=1, broker_epoch=epoch, partitions=[failed])), 2
    )
    broker.outcome(2)
    office.until(lambda: broker.line.all("ask_ends"))
    asked = broker.line.all("ask_ends")[0].ask_ends
    assert [(ref.topic_id, ref.partition) for ref in asked.partitions] == [(topic_id, 0)]
    end = pb.LogEnd(topic_id=topic_id, epoch_at_end=1, end=10)
    broker.beat()
    broker.say(pb.BrokerUp(log_ends=pb.LogEnds(ends=[end], question=asked.question + 1)))
    office.pass_ms(1000)
    assert office.state.topics[topic_id].partitions[0].leader == 0
    broker.say(pb.BrokerUp(log_ends=pb.LogEnds(ends=[end], question=asked.question)))
    office.until(lambda: office.state.topics[topic_id].partitions[0].leader == 1)


def test_a_broker_whose_stream_broke_while_it_shut_down_is_told_on_the_next(office: Office) -> None:
    first = office.broker(1)
    stop = pb.SetBroker(broker_id=1, epoch=office.state.brokers[1].epoch, shutting_down=True)
    first.propose(pb.Command(set_broker=stop))
    office.until(lambda: first.line.all("may_stop"))
    again = office.stream(1, view_index=first.line.index)
    office.until(lambda: again.line.all("registered"))
    again.propose(pb.Command(set_broker=stop))
    again.outcome()
    assert not again.line.all("may_stop"), "nothing has changed: there is no delta to say it behind"
    again.beat()
    again.beat()
    assert len(again.line.all("may_stop")) == 1


def test_a_heartbeat_is_answered_so_that_a_broker_knows_a_leader_that_lives(office: Office) -> None:
    broker = office.broker(1)
    before = len(broker.line.sent)
    broker.beat()
    assert broker.line.sent[before].view.delta.index == office.state.index


def test_a_registration_that_fails_for_now_is_tried_again_and_not_refused_for_good(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tank_controller.limits.MAX_WAITING_PROPOSALS", 0)
    broker = office.stream(1)
    assert [(m.refused.error, m.refused.passing) for m in broker.line.sent] == [(ErrorCode.OVERLOADED, True)]
    assert broker.line.ended


def test_a_broker_at_an_address_that_another_has_comes_back_when_that_one_is_fenced(office: Office) -> None:
    before = office.broker(1)
    endpoints = [pb.Endpoint(name="tank", host="h", port=1)]
    register = pb.RegisterBroker(
        broker_id=2,
        incarnation=b"j" * 16,
        disk_uuid=b"e" * 16,
        endpoints=endpoints,
        replicates=True,
        min_level=OWN.lowest,
        max_level=OWN.highest,
    )

    def come() -> Broker:
        broker = Broker(office, 2)
        broker.say(pb.BrokerUp(register=pb.BrokerRegister(broker=register)))
        office.until(lambda: broker.line.sent)
        return broker

    (refused,) = come().line.sent
    assert refused.refused.passing
    assert "wait until it is fenced" in refused.refused.message
    office.brokers.closed(before.stream)
    office.until(lambda: office.state.brokers[1].fenced)
    assert come().line.all("registered")


def test_a_question_that_is_too_much_ends_nothing_but_itself(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = office.broker(1)
    problem = Rejected(ErrorCode.OVERLOADED, "too many ask")
    monkeypatch.setattr(office.proposals, "read", lambda done: done(problem))
    broker.say(pb.BrokerUp(query=pb.BrokerQuery(request_id=3, groups=pb.GroupsQuery())))
    (answer,) = broker.line.all("answer")
    assert (answer.answer.request_id, answer.answer.error) == (3, ErrorCode.OVERLOADED)
    assert not broker.line.ended


def test_a_state_that_was_restored_ends_all_streams(office: Office) -> None:
    broker = office.broker(1)
    office.driven.machine.restore(office.state.snapshot())
    assert broker.line.sent[-1].WhichOneof("message") == "not_leader"
    assert broker.line.ended
    assert office.brokers.streams == {}
