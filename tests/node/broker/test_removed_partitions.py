"""What a broker does with replicas whose partitions, or whose topics' messages, the cluster has removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tank_node.app.readiness import CatchingUp
from tank_node.broker.maintenance import Maintenance
from tank_node.cluster.iggy.link import IggyOutcome, NewIggyTopic
from tank_node.cluster.iggy.parts import IggyOptionView
from tank_node.cluster.view import TopicView
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.topic_settings import LogFormat
from tests.support.clients.produce import batch_of, produce
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.bench_node import BenchNode

DONE = b"\0"


class Given:
    """A data folder, and a controller that goes on while the broker is away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.controller = InstantController()
        self.controller.view.feature_level = IGGY
        self.iggy = self.controller.iggy
        self.iggy.create_stream("main", self.heard)
        stream = self.controller.view.iggy.stream_by_name("main")
        assert stream is not None
        at_once = (IggyOptionView("durability", 2, b"replicated"),)
        new = NewIggyTopic(stream, "t", 3, options=at_once, log_format=LogFormat.TANK)
        self.iggy.create_topic(new, self.heard)

    @property
    def topic(self) -> TopicView:
        topic = self.controller.view.topic("main.t")
        assert topic is not None
        return topic

    @contextmanager
    def broker(self) -> Iterator[BenchNode]:
        """A process of the broker."""
        with BenchNode(self.folder, controller=self.controller) as node:
            yield node
        self.controller.part()

    def heard(self, outcome: IggyOutcome) -> None:
        assert outcome.error is ErrorCode.NONE, outcome

    def shrink(self, count: int) -> None:
        self.iggy.shrink_topic(self.topic, count, self.heard)

    def grow(self, count: int) -> None:
        self.iggy.add_partitions(self.topic, count, self.heard)

    def write(self, node: BenchNode) -> None:
        """One message in each partition."""
        for number in range(len(self.topic.partitions)):
            client = node.client()
            assert produce(client, batch_of(b"x"), topic="main.t", partition=number) == DONE

    def lengths(self, node: BenchNode) -> dict[int, int]:
        """The last number of each partition of the broker."""
        topic = node.broker.topics["main.t"]
        assert topic.view is self.topic
        return {number: each.log.written for number, each in sorted(topic.partitions.items())}

    def stored(self) -> list[str]:
        """The folders of partitions on the disk, as `topic id/number`."""
        found = (self.folder / "topics").glob("[0-9]*/[0-9]*")
        return sorted(f"{each.parent.name}/{each.name}" for each in found)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path / "data")


def test_a_purged_topic_is_empty_at_once_and_takes_messages_again(given: Given) -> None:
    with given.broker() as node:
        given.write(node)
        before = given.topic.topic_id
        given.iggy.purge_topic(given.topic, given.heard)
        assert given.lengths(node) == {0: 0, 1: 0, 2: 0}
        assert not [each for each in given.stored() if each.startswith(f"{before}/")]
        given.write(node)
        assert given.lengths(node) == {0: 1, 1: 1, 2: 1}


def test_a_broker_that_was_away_deletes_what_was_purged_and_sets_nothing_aside(given: Given) -> None:
    with given.broker() as node:
        given.write(node)
    for _ in range(2):
        given.iggy.purge_topic(given.topic, given.heard)
    with given.broker() as node:
        assert given.lengths(node) == {0: 0, 1: 0, 2: 0}
        assert given.stored() == [], "a folder is made by the first message"
        assert not list((given.folder / "topics").glob(".stray-*"))


def test_the_highest_partitions_go_with_their_data(given: Given) -> None:
    with given.broker() as node:
        given.write(node)
        given.shrink(2)
        assert given.lengths(node) == {0: 1}
        assert given.stored() == [f"{given.topic.topic_id}/0"]
        given.grow(1)
        assert given.lengths(node) == {0: 1, 1: 0}, "the new one has nothing of the old one"
        given.write(node)
        assert given.lengths(node) == {0: 2, 1: 1}
    with given.broker() as node:
        assert given.lengths(node) == {0: 2, 1: 1}, "what is its own it keeps"


@pytest.mark.parametrize("grown", [0, 2])
def test_so_they_do_at_a_broker_that_was_away(given: Given, grown: int) -> None:
    with given.broker() as node:
        given.write(node)
    given.shrink(2)
    if grown:
        given.grow(grown)
    with given.broker() as node:
        assert given.lengths(node) == {0: 1} | dict.fromkeys(range(1, 1 + grown), 0)
        assert given.stored() == [f"{given.topic.topic_id}/0"]


def test_a_log_whose_first_epoch_is_unknown_is_judged_by_its_last(given: Given) -> None:
    with given.broker() as node:
        given.shrink(2)
        given.grow(1)
        given.write(node)
        log = node.broker.topics["main.t"].partitions[1].log
        ((epoch, _),) = log.epochs
        log.segments.epochs = [(0, 1), (epoch, 1)]
        node.broker.take_in(given.topic)
        assert given.lengths(node) == {0: 1, 1: 1}


def test_what_a_new_leader_pushed_before_the_removal_was_heard_stays(given: Given) -> None:
    with given.broker() as node:
        given.write(node)
        log = node.broker.topics["main.t"].partitions[2].log
        log.segments.epochs = [(given.topic.partitions[2].leader_epoch + 1, 1)]
        given.shrink(2)
        assert given.lengths(node) == {0: 1, 2: 1}
        Maintenance(node.broker).run()
        assert CatchingUp(60_000, 0).problem(1, node.broker.topics.values(), 1) is None
        given.grow(2)
        assert given.lengths(node) == {0: 1, 1: 0, 2: 1}


def test_what_can_not_be_deleted_is_not_opened_and_goes_later(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, name: str) -> None:
        raise OSError(5, "broken")

    with given.broker() as node:
        given.write(node)
        topic = node.broker.topics["main.t"]
        with monkeypatch.context() as patch:
            patch.setattr(node.broker.data_folder.removal, "remove", fail)
            given.shrink(2)
            Maintenance(node.broker).run()
            assert (given.lengths(node), set(topic.broken)) == ({0: 1}, {1, 2})
            given.grow(1)
            assert (given.lengths(node), set(topic.broken)) == ({0: 1}, {1, 2})
        node.broker.take_in(given.topic, tuple(topic.broken))
        assert (given.lengths(node), topic.broken) == ({0: 1, 1: 0}, {})
        assert given.stored() == [f"{given.topic.topic_id}/0"]
