"""The node's end of its stream: what it asks again, whom it follows, when it takes orders."""

import pytest

from tank_node.cluster.heartbeats import FIRST_TIMEOUT_MS, HEARTBEATS, SILENCES
from tank_node.cluster.link import (
    ChangeOutcome,
    CommitOutcome,
    InSyncChange,
    NewTopic,
    Placement,
    Position,
    ReplicaEnd,
    TopicOutcome,
)
from tank_node.cluster.pending import LEADERLESS_MS, PENDING_MS
from tank_node.cluster.registration import Registration
from tank_node.limits import DAMAGED_NAMED
from tank_node.volume import Room
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY, OWN
from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.stream_node import Node, topic


@pytest.fixture
def node() -> Node:
    return Node()


def test_it_says_who_it_is_and_what_its_disk_lacks(node: Node) -> None:
    register = node.connect().sent[0].register
    assert (register.cluster_id, register.view_index) == ("c", 0)
    broker = register.broker
    assert (broker.broker_id, broker.incarnation, broker.tail_sure) == (1, b"i" * 16, True)
    assert [(d.topic_id, d.partition) for d in broker.damaged] == [(5, 0)]
    assert (broker.endpoints[0].host, broker.endpoints[0].port) == ("here", 11011)
    assert broker.replicates
    assert (broker.min_level, broker.max_level) == (OWN.lowest, OWN.highest)


def test_it_has_no_epoch_before_its_view_has_reached_the_registration(node: Node) -> None:
    node.connect()
    node.hear(registered=pb.Registered(broker_epoch=7, index=7, peer_key=b"k" * 16))
    node.view(pb.Delta(index=6))
    assert (node.stream.broker_epoch, node.registered) == (0, [])
    node.view(pb.Delta(index=7))
    assert (node.stream.broker_epoch, node.registered) == (7, [7])
    assert node.stream.peer_key == b"k" * 16
    node.stream.closed(node.line, "gone")
    node.register()
    assert node.registered == [7], "the same process has the same epoch on every stream"


def test_parts_of_a_lost_stream_are_not_mixed_with_those_of_the_next(node: Node) -> None:
    node.register()
    node.view(pb.Delta(index=9, topics=[topic(9, "half")]), more=True)
    node.stream.closed(node.line, "gone")
    node.connect()
    node.view(pb.Delta(index=10, topics=[topic(10, "t")]))
    assert [t.name for t in node.stream.view.topics()] == ["t"]


def test_what_was_not_answered_is_asked_again_in_its_order(node: Node) -> None:
    outcomes: list[TopicOutcome] = []
    node.stream.requests.create_topic(NewTopic("before", 1), outcomes.append)
    first = node.register()
    for name in ("a", "b"):
        node.stream.requests.create_topic(NewTopic(name, 1), outcomes.append)
    asked = [m.proposal for m in first.all("proposal")]
    assert [p.command.create_topic.name for p in asked] == ["before", "a", "b"]
    node.hear(outcome=pb.ProposalOutcome(request_id=asked[1].request_id, topic_id=9))
    node.stream.closed(first, "gone")
    second = node.connect()
    assert len(second.sent) == 1, "nothing before it is taken"
    node.hear(registered=pb.Registered(broker_epoch=7, index=7))
    assert [m.proposal for m in second.all("proposal")] == [asked[0], asked[2]]
    assert [outcome.topic_id for outcome in outcomes] == [9]
    node.hear(outcome=pb.ProposalOutcome(request_id=asked[1].request_id, topic_id=9))
    assert len(outcomes) == 1, "an outcome that comes twice is told once"


def test_a_proposal_says_what_the_broker_had_heard_of_when_it_was_asked(node: Node) -> None:
    line = node.register()
    node.view(pb.Delta(index=8, topics=[topic(8, "t")]))
    for number in range(3):
        node.stream.requests.commit_positions("g", [Position("t", 0, number)], lambda outcome: None)
        if number == 0:
            request_id = line.sent[-1].proposal.request_id
            node.hear(outcome=pb.ProposalOutcome(request_id=request_id, results=[0], index=12))
        else:
            node.view(pb.Delta(index=10 + number))
    node.hear(outcome=pb.ProposalOutcome(request_id=999, index=9))
    node.view(pb.Delta(index=20))
    node.stream.requests.commit_positions("g", [Position("t", 0, 9)], lambda outcome: None)
    assert [m.proposal.seen_index for m in line.all("proposal")] == [8, 12, 12, 20]


def test_what_is_asked_while_a_line_is_given_up_waits_for_the_next_one(node: Node) -> None:
    first = node.register()
    ended = first.end

    def end() -> None:
        node.stream.requests.create_topic(NewTopic("late", 1), lambda outcome: None)
        ended()

    first.end = end  # type: ignore[method-assign]
    node.stream.restart()
    assert not first.all("proposal")
    second = node.register(epoch=8, index=8)
    assert [m.proposal.command.create_topic.name for m in second.all("proposal")] == ["late"]


def test_committed_positions_are_not_repeated_on_another_stream(node: Node) -> None:
    outcomes: list[CommitOutcome] = []

    def commit(number: int) -> None:
        node.stream.requests.commit_positions("g", [Position("t", 0, number)], outcomes.append)

    commit(1)
    assert [o.error for o in outcomes] == [ErrorCode.TIMED_OUT], (
        "without a line nobody knows when it would come"
    )
    first = node.register()
    node.view(pb.Delta(index=8, topics=[topic(8, "t")]))
    commit(10)
    node.stream.requests.create_topic(NewTopic("u", 1), lambda outcome: None)
    assert len(first.all("proposal")) == 2
    node.stream.closed(first, "gone")
    assert [o.error for o in outcomes] == [ErrorCode.TIMED_OUT] * 2, (
        "its client may commit more by another broker"
    )
    second = node.connect()
    node.hear(registered=pb.Registered(broker_epoch=7, index=7))
    assert [m.proposal.command.WhichOneof("command") for m in second.all("proposal")] == ["create_topic"]
    commit(20)
    node.hear(outcome=pb.ProposalOutcome(request_id=second.sent[-1].proposal.request_id, results=[0]))
    assert outcomes[2].results == [ErrorCode.NONE]
    commit(30)
    node.stream.restart()
    assert outcomes[3].error is ErrorCode.TIMED_OUT, "a stream that the broker itself ends is no other"


def test_an_error_that_only_a_newer_controller_knows_is_a_refusal(node: Node) -> None:
    outcomes: list[TopicOutcome] = []
    changes: list[ChangeOutcome] = []
    line = node.register()
    node.stream.requests.create_topic(NewTopic("t", 1), outcomes.append)
    node.stream.requests.report_failed([(5, 2)], changes.append)
    created, reported = [m.proposal.request_id for m in line.all("proposal")]
    node.hear(outcome=pb.ProposalOutcome(request_id=created, error=250, message="of tomorrow"))
    node.hear(outcome=pb.ProposalOutcome(request_id=reported, results=[0, 250]))
    assert [(o.error, o.message) for o in outcomes] == [(ErrorCode.INVALID_REQUEST, "of tomorrow")]
    assert changes[0].results == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_brokers_that_went_are_told_like_those_that_came(node: Node) -> None:
    node.register()
    node.view(pb.Delta(index=8, brokers=[pb.Broker(broker_id=2, epoch=8)]))
    told: list[list[int]] = []
    node.stream.on_brokers(lambda: told.append(sorted(node.stream.view.brokers)))
    node.view(pb.Delta(index=9, removed_brokers=[2]))
    assert told == [[1]]


def test_an_answer_in_parts_is_told_once_and_whole(node: Node) -> None:
    found: list[list[str]] = []
    line = node.register()
    node.stream.requests.list_groups(lambda outcome: found.append(outcome.groups))
    number = line.all("query")[0].query.request_id
    node.hear(answer=pb.QueryAnswer(request_id=number, groups=["b"], more=True))
    node.stream.closed(line, "gone")
    node.register()
    node.hear(answer=pb.QueryAnswer(request_id=number, groups=["b"], more=True))
    node.hear(answer=pb.QueryAnswer(request_id=number, groups=["a"]))
    assert found == [["a", "b"]]


def test_a_registration_names_so_many_damaged_replicas_as_fit_a_command() -> None:
    def registration(count: int) -> pb.RegisterBroker:
        damaged = [(1 << 40, number % 65_536) for number in range(count)]
        return Registration(b"i" * 16, b"d" * 16, True, "here", 1, damaged=lambda: damaged).message(1)

    most = registration(DAMAGED_NAMED)
    assert (len(most.damaged), most.all_damaged) == (DAMAGED_NAMED, False)
    assert most.ByteSize() < 1024 * 1024, "what a command may have"
    more = registration(DAMAGED_NAMED + 1)
    assert (len(more.damaged), more.all_damaged) == (0, True)


def test_heartbeats_say_what_was_seen_but_not_before_it_serves(node: Node) -> None:
    line = node.register()
    assert [m.heartbeat.seen_index for m in line.all("heartbeat")] == [0]
    node.stream.serve()
    assert line.all("heartbeat")[-1].heartbeat.seen_index == 7
    node.clock.pass_ms(FIRST_TIMEOUT_MS // HEARTBEATS)
    node.stream.tick()
    assert len(line.all("heartbeat")) == 3
    fenced = pb.Broker(broker_id=1, epoch=7, fenced_index=9)
    node.view(pb.Delta(index=9, brokers=[fenced]))
    assert line.all("heartbeat")[-1].heartbeat.seen_index == 9, "so that it is let in at once"


def test_a_broker_that_is_held_back_stays_fenced_until_that_ends(node: Node) -> None:
    line = node.register()
    node.stream.hold_back(on=True)
    node.stream.serve()
    assert {m.heartbeat.seen_index for m in line.all("heartbeat")} == {0}
    node.stream.hold_back(on=False)
    assert line.all("heartbeat")[-1].heartbeat.seen_index == 7, "said at once"


def pass_in_ticks(node: Node, ms: int) -> None:
    """The broker's clock goes on, and the session hears of it as often as it does in a process."""
    while ms > 0:
        node.clock.pass_ms(min(ms, 50))
        node.stream.tick()
        ms -= 50


def test_a_controller_that_does_not_take_this_broker_has_a_whole_timeout_for_it(node: Node) -> None:
    line = node.connect()
    pass_in_ticks(node, FIRST_TIMEOUT_MS)
    ended = [line.ended]
    pass_in_ticks(node, 1)
    assert [*ended, line.ended] == [False, True]


def test_a_controller_is_not_called_silent_for_a_time_in_which_this_process_stood_still(node: Node) -> None:
    line = node.register()
    pass_in_ticks(node, FIRST_TIMEOUT_MS // SILENCES - 50)
    node.clock.pass_ms(10 * FIRST_TIMEOUT_MS)
    node.stream.tick()
    assert not line.ended, "what it said meanwhile waits to be read"
    pass_in_ticks(node, 51)
    assert line.ended


def test_a_controller_that_was_silent_is_not_gone_to_while_others_name_it(node: Node) -> None:
    node.register()
    silent = node.reached
    pass_in_ticks(node, FIRST_TIMEOUT_MS // SILENCES + 1)
    tried = []
    for _ in range(3):
        pass_in_ticks(node, 300)
        line = node.connect()
        tried.append(node.reached)
        node.stream.received(line, pb.BrokerDown(not_leader=pb.NotLeader(leader=silent)))
    assert silent not in tried
    pass_in_ticks(node, FIRST_TIMEOUT_MS)
    line = node.connect()
    node.stream.received(line, pb.BrokerDown(not_leader=pb.NotLeader(leader=silent)))
    node.connect()
    assert node.reached == silent, "it may be back by now"


def test_a_controller_that_is_silent_is_given_up(node: Node) -> None:
    line = node.register()
    pass_in_ticks(node, FIRST_TIMEOUT_MS // SILENCES)
    ended = [line.ended]
    pass_in_ticks(node, 1)
    assert [*ended, line.ended] == [False, True]
    node.stream.received(line, pb.BrokerDown(view=pb.ViewUpdate(delta=pb.Delta(index=99))))
    assert node.stream.view.index == 7, "what comes by it later is not heard"
    assert node.connect().sent[0].WhichOneof("message") == "register"


def test_who_asks_without_any_controller_is_told_in_the_end(node: Node) -> None:
    outcomes: list[TopicOutcome] = []
    node.stream.requests.create_topic(NewTopic("t", 1), outcomes.append)
    node.clock.pass_ms(LEADERLESS_MS)
    node.stream.tick()
    assert outcomes == []
    node.clock.pass_ms(1)
    node.stream.tick()
    assert [outcome.error for outcome in outcomes] == [ErrorCode.TIMED_OUT]
    node.stream.requests.create_topic(NewTopic("t", 1), outcomes.append)
    assert [outcome.message[:38] for outcome in outcomes] == ["no controller leads, and this request "] * 2
    assert node.register().all("proposal") == []


def test_what_a_controller_may_have_read_waits_for_the_next_leader(node: Node) -> None:
    """A client that asked again would find its topic made, and not know by whom."""
    outcomes: list[TopicOutcome] = []
    line = node.register()
    node.stream.requests.create_topic(NewTopic("t", 1), outcomes.append)
    node.stream.closed(line, "gone")
    node.clock.pass_ms(PENDING_MS - 1)
    node.stream.tick()
    assert outcomes == []
    (again,) = node.register().all("proposal")
    node.hear(outcome=pb.ProposalOutcome(request_id=again.proposal.request_id, topic_id=5))
    assert [outcome.topic_id for outcome in outcomes] == [5]


def test_what_the_broker_itself_proposes_waits_longer(node: Node) -> None:
    outcomes: list[ChangeOutcome] = []
    node.stream.requests.report_failed([(5, 2)], outcomes.append)
    node.clock.pass_ms(PENDING_MS - 1)
    node.stream.tick()
    assert outcomes == []
    node.clock.pass_ms(1)
    node.stream.tick()
    assert [outcome.error for outcome in outcomes] == [ErrorCode.TIMED_OUT]


def test_too_much_is_refused(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tank_node.cluster.pending.MAX_PENDING", 1)
    outcomes: list[TopicOutcome] = []
    for name in ("a", "b"):
        node.stream.requests.create_topic(NewTopic(name, 1), outcomes.append)
    assert [outcome.error for outcome in outcomes] == [ErrorCode.OVERLOADED]


def test_in_sync_changes_carry_all_epochs_and_bring_results(node: Node) -> None:
    line = node.register()
    outcomes: list[ChangeOutcome] = []
    node.stream.requests.propose_in_sync([InSyncChange(5, 1, 3, 4, ((1, 7), (2, 8)))], outcomes.append)
    node.stream.requests.report_failed([(5, 2)], outcomes.append)
    change, failed = [m.proposal for m in line.all("proposal")]
    (wanted,) = change.command.change_in_sync.sets
    assert (wanted.topic_id, wanted.partition, wanted.leader_epoch, wanted.partition_epoch) == (5, 1, 3, 4)
    assert [(m.broker_id, m.broker_epoch) for m in wanted.in_sync] == [(1, 7), (2, 8)]
    assert change.command.change_in_sync.broker_epoch == failed.command.report_failed.broker_epoch == 7
    assert [(p.topic_id, p.partition) for p in failed.command.report_failed.partitions] == [(5, 2)]
    node.hear(outcome=pb.ProposalOutcome(request_id=change.request_id, results=[ErrorCode.INVALID_REQUEST]))
    assert outcomes[0].results == [ErrorCode.INVALID_REQUEST]


def test_changes_by_administrators_name_partitions_by_id_and_bring_results(node: Node) -> None:
    line = node.register()
    outcomes: list[ChangeOutcome] = []
    requests = node.stream.requests
    requests.elect_leaders([(5, 0), (5, 1)], outcomes.append, unclean=False)
    requests.elect_leaders([(5, 2)], outcomes.append, unclean=True)
    requests.reassign([Placement(5, 3, (2, 1))], outcomes.append)
    requests.cancel_reassign([(5, 4)], outcomes.append)
    preferred, unclean, moved, stopped = [message.proposal for message in line.all("proposal")]
    elect = preferred.command.elect_leader
    assert (elect.kind, [ref.partition for ref in elect.partitions]) == (pb.ElectLeader.PREFERRED, [0, 1])
    assert unclean.command.elect_leader.kind == pb.ElectLeader.UNCLEAN
    (placed,) = moved.command.reassign.partitions
    assert (placed.topic_id, placed.partition, list(placed.replicas)) == (5, 3, [2, 1])
    assert [ref.partition for ref in stopped.command.cancel_reassign.partitions] == [4]
    node.hear(outcome=pb.ProposalOutcome(request_id=moved.request_id, results=[ErrorCode.UNKNOWN_BROKER]))
    assert outcomes[0].results == [ErrorCode.UNKNOWN_BROKER]


def test_it_says_where_its_logs_end_in_one_answer(node: Node) -> None:
    line = node.register()
    node.stream.on_ends_asked(lambda asked: [ReplicaEnd(*asked[0], epoch_at_end=3, end=12)])
    asked = [pb.LogEnd(topic_id=5, partition=1), pb.LogEnd(topic_id=5, partition=2)]
    node.hear(ask_ends=pb.AskEnds(partitions=asked, question=4))
    (answer,) = line.all("log_ends")
    assert answer.log_ends.question == 4, "a late answer must not be taken for that to the next question"
    (end,) = answer.log_ends.ends
    assert (end.topic_id, end.partition, end.epoch_at_end, end.end) == (5, 1, 3, 12)


def test_heartbeats_name_groups_in_the_way_of_iggys_level_until_it_is_in_force(node: Node) -> None:
    line = node.register()
    assert not line.all("heartbeat")[-1].heartbeat.HasField("names_held"), "it knows of no groups yet"
    names: list[str] | None = ["iggy:g:1"]
    node.stream.on_names_asked(lambda: names)
    node.stream.serve()
    assert list(line.all("heartbeat")[-1].heartbeat.names_held.groups) == names
    names = []
    node.stream.say_room(Room.ENOUGH)
    assert line.all("heartbeat")[-1].heartbeat.HasField("names_held"), "none is an answer, too"
    names = None
    node.stream.say_room(Room.ENOUGH)
    assert not line.all("heartbeat")[-1].heartbeat.HasField("names_held")
    names = []
    node.view(pb.Delta(index=9, feature_level=IGGY))
    node.stream.say_room(Room.ENOUGH)
    assert not line.all("heartbeat")[-1].heartbeat.HasField("names_held")


def test_it_says_at_once_that_its_volume_has_no_room_and_with_every_heartbeat(node: Node) -> None:
    line = node.register()
    node.stream.say_room(Room.NONE)
    assert line.all("heartbeat")[-1].heartbeat.room == pb.ROOM_NONE
    node.stream.closed(line, "gone")
    node.stream.say_room(Room.AGAIN)
    line = node.register()
    node.stream.serve()
    assert line.all("heartbeat")[-1].heartbeat.room == pb.ROOM_AGAIN


def test_a_shutdown_asks_to_be_let_go(node: Node) -> None:
    line = node.register()
    node.stream.shut_down()
    stop = line.all("proposal")[0].proposal.command.set_broker
    assert (stop.broker_id, stop.epoch, stop.shutting_down) == (1, 7, True)
    told = [node.stream.may_stop]
    node.hear(may_stop=pb.MayStop())
    assert [*told, node.stream.may_stop] == [False, True]


def test_a_shutdown_that_was_not_taken_is_asked_for_again(node: Node) -> None:
    line = node.register()
    node.stream.shut_down()
    first = line.all("proposal")[0].proposal
    node.hear(
        outcome=pb.ProposalOutcome(request_id=first.request_id, error=ErrorCode.STORAGE, message="full")
    )
    node.stream.tick()
    again = line.all("proposal")[1].proposal
    assert again.command.set_broker == first.command.set_broker
    node.hear(outcome=pb.ProposalOutcome(request_id=again.request_id))
    node.stream.tick()
    assert len(line.all("proposal")) == 2, "it was taken"


def test_a_refused_broker_tries_no_more(node: Node) -> None:
    node.connect()
    node.hear(refused=pb.RegisterRefused(error=1, message="another cluster's"))
    assert node.stream.refused == "another cluster's"
    node.clock.pass_ms(60_000)
    assert node.stream.target() is None


def test_one_that_is_refused_for_now_tries_again(node: Node) -> None:
    node.connect()
    node.hear(refused=pb.RegisterRefused(error=ErrorCode.IN_USE, message="not yet", passing=True))
    assert node.stream.refused is None
    assert node.connect().sent[0].WhichOneof("message") == "register"
