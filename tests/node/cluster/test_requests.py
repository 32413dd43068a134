"""What a broker asks of the controllers: the commands that it sends, and what it refuses itself."""

import pytest

from tank_node.cluster.link import NewTopic, TopicAlteration, TopicOutcome
from tank_node.cluster.pending import LEADERLESS_MS, PendingRequests
from tank_node.cluster.requests import ControllerRequests
from tank_node.cluster.view import ClusterView, TopicView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import TopicSettings
from tests.support.controllers.shown_topics import show
from tests.support.manual_clock import ManualClock


class Broker:
    """A broker's requests, and what goes to the controllers."""

    def __init__(self, level: int) -> None:
        view = ClusterView("cluster", 1, feature_level=level)
        show(view, TopicView(7, "t", 1, TopicSettings(), {}, []))
        self.view = view
        self.pending = PendingRequests(view, ManualClock(), lambda: self.silence_ms)
        self.silence_ms = 0
        self._sent: list[pb.BrokerUp] = []
        self.pending.line_taken(self._sent.append)
        self.requests = ControllerRequests(view, self.pending)
        self.outcomes: list[TopicOutcome] = []

    @property
    def commands(self) -> list[pb.Command]:
        return [message.proposal.command for message in self._sent]

    def is_at(self, index: int, *, error: ErrorCode = ErrorCode.NONE) -> None:
        """The controllers' answer to the last query: they are at this index."""
        request_id = self._sent[-1].query.request_id
        self.pending.on_answer(pb.QueryAnswer(request_id=request_id, index=index, error=error))

    def sees(self, index: int) -> None:
        """The view gets what they had at this index."""
        self.view.index = index
        self.pending.view_moved()


def chosen(assignments: list[pb.Assignment]) -> list[list[int]]:
    return [list(each.replicas) for each in assignments]


def test_brokers_that_a_client_chose_go_to_the_controllers() -> None:
    broker = Broker(feature_levels.KAFKA)
    broker.requests.create_topic(NewTopic("new", 2, 2, assignments=[[1, 2], [2, 3]]), broker.outcomes.append)
    broker.requests.alter_topic(TopicAlteration("t", 2, assignments=[[3, 1]]), broker.outcomes.append)
    create, alter = broker.commands
    assert chosen(list(create.create_topic.assignments)) == [[1, 2], [2, 3]]
    assert chosen(list(alter.alter_topic.assignments)) == [[3, 1]]
    assert not broker.outcomes


def test_before_the_level_such_a_choice_is_refused_here_because_older_controllers_ignore_it() -> None:
    broker = Broker(feature_levels.FIRST)
    broker.requests.create_topic(NewTopic("new", 1, 1, assignments=[[1]]), broker.outcomes.append)
    broker.requests.alter_topic(TopicAlteration("t", 2, assignments=[[1]]), broker.outcomes.append)
    assert [each.error for each in broker.outcomes] == [ErrorCode.INELIGIBLE_REPLICA] * 2
    assert "level 2" in broker.outcomes[0].message
    assert not broker.commands


@pytest.mark.parametrize("level", [feature_levels.NATIVE_GROUPS, feature_levels.IGGY])
def test_a_topic_that_the_configuration_names_is_created_for_iggys_clients_too(level: int) -> None:
    broker = Broker(level)
    broker.requests.exposures = {"orders": ("main", "bills")}
    for name in ("orders", "others"):
        broker.requests.create_topic(NewTopic(name, 1), broker.outcomes.append)
    named, other = (command.create_topic for command in broker.commands)
    assert named.HasField("expose") is (level >= feature_levels.IGGY), "older controllers ignore it"
    if level >= feature_levels.IGGY:
        assert named.expose == pb.Exposure(stream="main", name="bills")
    assert not other.HasField("expose")


@pytest.mark.parametrize("level", [feature_levels.FIRST, feature_levels.KAFKA])
def test_without_a_choice_the_controllers_choose_at_every_level(level: int) -> None:
    broker = Broker(level)
    broker.requests.create_topic(NewTopic("new", 1), broker.outcomes.append)
    (create,) = broker.commands
    assert not create.create_topic.assignments


def test_the_view_is_awaited_until_it_has_what_was_committed() -> None:
    """While it is sent the whole state, the answer to the question comes before that state."""
    broker = Broker(feature_levels.IGGY)
    told: list[bool] = []
    broker.requests.await_view(told.append)
    broker.is_at(30)
    broker.sees(29)
    assert not told
    broker.sees(31)
    assert told == [True]
    broker.requests.await_view(told.append)
    broker.is_at(31)
    assert told == [True, True]
    broker.requests.await_view(told.append)
    broker.is_at(0, error=ErrorCode.INVALID_REQUEST)
    assert told == [True, True, False], "a controller of an older version"


def test_a_client_learns_at_once_that_no_controller_can_say_what_was_committed() -> None:
    broker = Broker(feature_levels.IGGY)
    told: list[bool] = []
    broker.pending.line_ended()
    broker.silence_ms = LEADERLESS_MS + 1
    broker.requests.await_view(told.append)
    assert not told
    broker.requests.await_view(told.append, of_client=True)
    assert told == [False]
