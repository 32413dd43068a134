"""What a broker asks of the controllers about the names of Iggy's clients, and what it hears."""

import pytest

from tank_node.cluster.iggy.link import IggyOutcome, IggyTopicChange, NewIggyTopic
from tank_node.cluster.iggy.parts import IggyGroupView, IggyOptionView, IggyTopicView, StreamView
from tank_node.cluster.pending import PENDING_MS, PendingRequests
from tank_node.cluster.requests import ControllerRequests
from tank_node.cluster.view import ClusterView, PartitionView, TopicView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import LogFormat, TopicSettings
from tests.support.controllers.shown_topics import show
from tests.support.manual_clock import ManualClock

STREAM = StreamView(2, "main", 0, 17)
EPOCH = 11
GROUP = IggyGroupView(3, "g", 7, 23)


def topic_of(topic_id: int, *, number: int = 0, exposed: bool = False) -> TopicView:
    partitions = [PartitionView(n, 1, 1, 1, (1,), (1,)) for n in range(4)]
    part = IggyTopicView(STREAM.number, number, f"t{number}", exposed=exposed)
    return TopicView(topic_id, f"main.t{number}", 1, TopicSettings(), {}, partitions, part)


TOPIC = topic_of(7)


def made(request: int) -> pb.Maker:
    return pb.Maker(broker_epoch=EPOCH, request=request)


class Broker:
    """A broker's requests, and what goes to the controllers."""

    def __init__(self, level: int = feature_levels.IGGY) -> None:
        self.view = ClusterView("cluster", 1, feature_level=level)
        self.clock = ManualClock()
        self.pending = PendingRequests(self.view, self.clock, lambda: 0)
        self.sent: list[pb.BrokerUp] = []
        self.pending.line_taken(self.sent.append)
        requests = ControllerRequests(self.view, self.pending)
        requests.broker_epoch = EPOCH
        self.requests = requests.iggy
        self.outcomes: list[IggyOutcome] = []

    @property
    def heard(self) -> "list[IggyOutcome]":
        return self.outcomes

    def sees(self, index: int) -> None:
        """The view gets what the controllers had at this index."""
        self.view.index = index
        self.pending.view_moved()

    @property
    def command(self) -> pb.Command:
        """The last one."""
        return self.sent[-1].proposal.command

    def answer(self, **said: int) -> None:
        """The controllers' answer to the last proposal."""
        outcome = pb.ProposalOutcome(request_id=self.sent[-1].proposal.request_id, **said)  # type: ignore[arg-type]
        self.pending.on_outcome(outcome)


def test_each_request_is_a_command() -> None:
    broker, done = Broker(), print
    ask = broker.requests
    ask.create_stream("a", done)
    assert broker.command.create_stream == pb.CreateStream(name="a", maker=made(1))
    ask.create_stream("a", done, number=0)
    assert broker.command.create_stream.HasField("number"), "0 is a number, too"
    ask.rename_stream(STREAM, "b", done)
    assert broker.command.rename_stream == pb.RenameStream(stream=2, born=17, name="b")
    ask.delete_stream(STREAM, done)
    assert broker.command.delete_stream == pb.DeleteStream(stream=2, born=17)
    ask.add_partitions(TOPIC, 3, done)
    assert broker.command.alter_topic == pb.AlterTopic(topic_id=7, partitions=7)
    ask.shrink_topic(TOPIC, 4, done)
    assert broker.command.shrink_topic == pb.ShrinkTopic(topic_id=7, partitions=0, seen_partitions=4)
    ask.purge_topic(TOPIC, done)
    assert broker.command.purge_topic == pb.PurgeTopic(topic_id=7)
    ask.delete_topic(TOPIC, done)
    assert broker.command.delete_topic == pb.DeleteTopic(topic_id=7)
    ask.create_group(TOPIC, "g", done, number=1)
    group = pb.CreateIggyGroup(topic_id=7, name="g", number=1, maker=made(3))
    assert broker.command.create_iggy_group == group
    ask.delete_group(GROUP, done)
    assert broker.command.delete_iggy_group == pb.DeleteIggyGroup(topic_id=7, number=3, born=23)
    ask.expose_topic(TOPIC, STREAM, "x", done)
    assert broker.command.expose_topic == pb.ExposeTopic(topic_id=7, stream=2, born=17, name="x")
    ask.hide_topic(TOPIC, done)
    assert broker.command.hide_topic == pb.HideTopic(topic_id=7)


def test_a_topic_is_created_and_changed_with_what_its_client_said() -> None:
    broker = Broker()
    option = IggyOptionView("durability", 2, b"persisted")
    new = NewIggyTopic(STREAM, "t", 0, None, 2, 5, 6, 2, (option,), True, LogFormat.TANK)
    broker.requests.create_topic(new, print)
    create = broker.command.create_iggy_topic
    assert (create.stream, create.born, create.name, create.partitions) == (2, 17, "t", 0)
    assert not create.HasField("number")
    assert [(each.key, each.value) for each in create.settings] == [("log.format", "tank")]
    values = create.values
    assert (values.expiry_us, values.max_bytes, values.per_partition, values.compression) == (5, 6, True, 2)
    assert values.options == [pb.IggyOption(key="durability", kind=2, value=b"persisted")]
    broker.requests.alter_topic(TOPIC, IggyTopicChange(expiry_us=0), print)
    alter = broker.command.alter_iggy_topic
    assert [field.name for field, _ in alter.ListFields()] == ["topic_id", "expiry_us"], "the rest stays"
    broker.requests.alter_topic(TOPIC, IggyTopicChange("n", options=()), print)
    assert broker.command.alter_iggy_topic.HasField("options"), "none from now on"


def test_the_answer_carries_the_number_and_comes_when_the_view_has_the_change() -> None:
    broker = Broker()
    broker.requests.create_stream("a", broker.outcomes.append)
    broker.answer(number=4, topic_id=9, index=30)
    assert not broker.heard, "the view is at an earlier entry"
    broker.sees(29)
    assert not broker.heard
    broker.sees(30)
    assert broker.heard == [IggyOutcome(ErrorCode.NONE, "", 4, 9)]
    broker.view.index = 40
    broker.requests.create_stream("b", broker.outcomes.append)
    broker.answer(number=5, index=40)
    assert broker.heard[-1].number == 5
    broker.requests.create_stream("c", broker.outcomes.append)
    broker.answer(error=ErrorCode.STREAM_EXISTS, index=50)
    assert broker.heard[-1].error is ErrorCode.STREAM_EXISTS


def test_a_client_is_not_kept_waiting_by_a_view_that_stands_still() -> None:
    broker = Broker()
    broker.requests.create_stream("a", broker.outcomes.append)
    broker.answer(number=4, index=30)
    broker.clock.pass_ms(PENDING_MS - 1)
    broker.pending.tick()
    assert not broker.heard
    broker.clock.pass_ms(1)
    broker.pending.tick()
    assert [each.number for each in broker.heard] == [4], "it is committed"


def test_a_repeat_is_known_by_its_maker_and_another_request_has_another() -> None:
    broker = Broker()
    broker.requests.create_stream("a", broker.outcomes.append)
    first = broker.command.create_stream
    broker.pending.line_ended()
    broker.pending.line_taken(broker.sent.append)
    assert len(broker.sent) == 2, "it is sent again"
    assert broker.command.create_stream == first
    broker.requests.create_stream("a", broker.outcomes.append)
    assert broker.command.create_stream.maker != first.maker
    broker.requests.create_topic(NewIggyTopic(STREAM, "t", 1, None, 2, 0, 0, 1), print)
    assert broker.command.create_iggy_topic.maker == made(3)


def test_what_the_broker_refuses_itself() -> None:
    old = Broker(feature_levels.NATIVE_GROUPS)
    old.requests.create_stream("a", old.outcomes.append)
    assert old.heard[0].error is ErrorCode.LEVEL_TOO_LOW
    broker = Broker()
    broker.requests.create_stream("\udcff", broker.outcomes.append)
    broker.requests.rename_stream(STREAM, "\udcff", broker.outcomes.append)
    broker.requests.create_group(TOPIC, "\udcff", broker.outcomes.append)
    broker.requests.expose_topic(TOPIC, STREAM, "\udcff", broker.outcomes.append)
    broker.requests.create_topic(NewIggyTopic(STREAM, "\udcff", 1), broker.outcomes.append)
    broker.requests.alter_topic(TOPIC, IggyTopicChange("\udcff"), broker.outcomes.append)
    assert [each.error for each in broker.heard] == [ErrorCode.INVALID_NAME] * 6
    broker.requests.shrink_topic(TOPIC, 5, broker.outcomes.append)
    assert broker.heard[-1].error is ErrorCode.INVALID_PARTITIONS
    assert not [*old.sent, *broker.sent]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC, ErrorCode.OVERLOADED])
def test_a_stream_is_purged_topic_by_topic_but_for_those_of_other_protocols(error: ErrorCode) -> None:
    broker = Broker()
    broker.view.iggy.apply(pb.Delta(streams=[pb.IggyStream(number=2, name="main", born=17)]))
    show(broker.view, topic_of(7), topic_of(8, number=1), topic_of(9, number=2, exposed=True))
    broker.requests.purge_stream(STREAM, broker.outcomes.append)
    purged = [broker.command.purge_topic.topic_id]
    broker.answer(error=error)
    if error is ErrorCode.OVERLOADED:
        assert broker.heard[0].error is error
        return
    purged.append(broker.command.purge_topic.topic_id)
    assert sorted(purged) == [7, 8]
    assert not broker.heard
    broker.answer()
    assert broker.heard == [IggyOutcome(ErrorCode.NONE, number=2)]


def test_a_change_that_no_controller_was_sent_is_known_not_to_be_made() -> None:
    """It may be repeated at once; of one that was sent, nobody knows."""
    clock, silence_ms = ManualClock(), 0
    view = ClusterView("cluster", 1, feature_level=feature_levels.IGGY)
    pending = PendingRequests(view, clock, lambda: silence_ms)
    requests, heard = ControllerRequests(view, pending).iggy, list[IggyOutcome]()
    requests.create_stream("waits", heard.append)
    silence_ms = 3_000
    requests.create_stream("refused at once", heard.append)
    pending.tick()
    assert [each.error for each in heard] == [ErrorCode.NO_LEADER] * 2
    silence_ms = 0
    pending.line_taken(print)
    requests.create_stream("sent", heard.append)
    clock.pass_ms(31_000)
    pending.tick()
    assert heard[-1].error is ErrorCode.TIMED_OUT
