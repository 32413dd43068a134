"""The link of a node to a controller in its own process: names to ids and back, over a real log."""

import asyncio
import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from tank_cli.serve.local_controller import LocalController, LocalRegistrationError
from tank_controller.leader import raising
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.proposals import PRODUCER_USE_NOTED_MS
from tank_controller.state.state import ClusterState
from tank_node.cluster.link import (
    CommitOutcome,
    GroupsOutcome,
    NewTopic,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.cluster.registration import Registration
from tank_node.cluster.view import ChangeKind, TopicChange
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, GROUPS, OWN
from tank_protos.generated import control_pb2 as pb
from tests.support.manual_clock import ManualClock
from tests.support.patience import patient

T = TypeVar("T")
NOT_UTF8 = "\udcff"


class Controller:
    """A registered controller, and its link's calls as coroutines."""

    def __init__(self, folder: Path, broker_id: int = 1) -> None:
        loop = asyncio.get_running_loop()
        self.clock = ManualClock()
        self.registration = Registration(b"i" * 16, b"d" * 16, False, "127.0.0.1", 11011)
        self.registration.replicates = False
        self.controller = LocalController(
            folder, "c", broker_id, self.registration, self.clock, loop.call_soon_threadsafe
        )
        self.link = self.controller.link
        self.opened = self.controller.open(may_be_new=True)
        self.changes: list[TopicChange] = []
        self.link.on_change(self.changes.append)

    async def register(self, incarnation: bytes = b"i" * 16, port: int = 11011) -> "Controller":
        if not self.link.broker_epoch:
            await self.controller.lead()
        self.registration.incarnation, self.registration.port = incarnation, port
        await self.controller.register()
        return self

    @property
    def entries(self) -> int:
        """How many there are in the log."""
        return self.controller.driver.raft.log.last_index

    async def create(self, topic: NewTopic) -> TopicOutcome:
        return await asked(lambda done: self.link.requests.create_topic(topic, done))

    async def alter(self, change: TopicAlteration) -> TopicOutcome:
        return await asked(lambda done: self.link.requests.alter_topic(change, done))

    async def delete(self, name: str) -> TopicOutcome:
        return await asked(lambda done: self.link.requests.delete_topic(name, done))

    async def producer(self, name: str = "", generation: int = 0) -> ProducerOutcome:
        return await asked(lambda done: self.link.requests.init_producer(name, generation, done))

    async def commit(self, group: str, *positions: Position) -> CommitOutcome:
        return await asked(lambda done: self.link.requests.commit_positions(group, positions, done))

    async def positions(self, group: str, *topics: str) -> PositionsOutcome:
        return await asked(lambda done: self.link.requests.fetch_positions(group, topics, done))

    async def groups(self) -> list[str]:
        outcome: GroupsOutcome = await asked(self.link.requests.list_groups)
        return outcome.groups


@pytest.fixture
def _positions_at_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below feature level 4, which isn't raised."""
    command = raising.Raising.command

    def below(self: raising.Raising, state: ClusterState, streams: Mapping[int, Stream]) -> pb.Command | None:
        return None if state.feature_level >= GROUPS else command(self, state, streams)

    monkeypatch.setattr(raising.Raising, "command", below)


async def asked(ask: Callable[[Callable[[T], None]], None]) -> T:
    """The answer to a question of the link."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ask(answer.set_result)
    async with asyncio.timeout(patient(10)):
        return await answer


def test_a_topic_is_in_the_view_and_announced_before_its_answer(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        outcome = await controller.create(NewTopic("t", 2, settings={"flush": "replicated"}))
        view = controller.link.view.topic("t")
        assert view is not None
        assert (outcome.error, outcome.topic_id) == (ErrorCode.NONE, view.topic_id)
        assert [p.leader for p in view.partitions] == [1, 1]
        assert [(c.kind, c.topic) for c in controller.changes] == [(ChangeKind.CREATED, view)]
        await controller.alter(TopicAlteration("t", 3, {"flush": None, "log.retention.secs": "1d"}))
        altered = controller.link.view.topic("t")
        assert altered is not None
        assert (len(altered.partitions), altered.settings_text) == (3, {"log.retention.secs": "1d"})
        assert (await controller.delete("t")).error is ErrorCode.NONE
        assert controller.link.view.topic("t") is None
        assert [c.kind for c in controller.changes] == list(ChangeKind)
        await controller.controller.stop()

    asyncio.run(life())


def test_what_needs_the_highest_feature_level_can_be_done_at_once(tmp_path: Path) -> None:
    """A client may come as soon as the process listens, also to a folder of an older version."""

    async def life() -> None:
        controller = await Controller(tmp_path).register()
        assert controller.link.view.feature_level == OWN.highest
        outcome = await controller.create(NewTopic("orders.v1", 1, settings={"log.format": "kafka"}))
        assert outcome.error is ErrorCode.NONE
        await controller.controller.stop()

    asyncio.run(life())


def test_a_topic_that_holds_up_the_level_holds_up_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def life() -> None:
        with monkeypatch.context() as older:
            older.setattr(raising.Raising, "command", lambda self, state, streams: None)
            controller = await Controller(tmp_path).register()
            assert controller.link.view.feature_level == FIRST
            assert (await controller.create(NewTopic("__consumer_offsets", 1))).error is ErrorCode.NONE
            await controller.controller.stop()
        controller = await Controller(tmp_path).register()
        assert controller.link.view.feature_level == FIRST
        assert (await controller.delete("__consumer_offsets")).error is ErrorCode.NONE
        await controller.register(b"j" * 16)
        assert controller.link.view.feature_level == OWN.highest
        await controller.controller.stop()

    asyncio.run(life())


@pytest.mark.usefixtures("_positions_at_the_controller")
def test_everything_survives_a_restart_and_leaders_get_a_new_epoch(tmp_path: Path) -> None:
    ids: list[int] = []

    async def first() -> None:
        controller = await Controller(tmp_path).register(b"1" * 16)
        await controller.create(NewTopic("t", 1))
        await controller.commit("g", Position("t", 0, 7, "note"))
        ids.append((await controller.producer("p", 4)).producer_id)
        await controller.controller.stop()

    async def second() -> None:
        controller = Controller(tmp_path)
        await controller.register(b"2" * 16)
        view = controller.link.view.topic("t")
        assert view is not None
        assert view.partitions[0].leader_epoch == 2
        (position,) = (await controller.positions("g")).positions
        assert (position.topic, position.sequence_number, position.metadata) == ("t", 7, "note")
        assert [(await controller.producer("p", 4)).producer_id] == ids
        await controller.controller.stop()

    asyncio.run(first())
    asyncio.run(second())


def test_validate_only_says_what_would_happen_and_changes_nothing(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        assert (await controller.create(NewTopic("t", 1, validate_only=True))).error is ErrorCode.NONE
        bad = NewTopic("t", 1, settings={"flush": "x"}, validate_only=True)
        assert (await controller.create(bad)).error is ErrorCode.INVALID_SETTING
        assert controller.link.view.topic("t") is None
        await controller.create(NewTopic("t", 2))
        assert (await controller.alter(TopicAlteration("t", 1, validate_only=True))).message
        assert (await controller.alter(TopicAlteration("t", 9, validate_only=True))).message == ""
        assert len(controller.changes) == 1
        await controller.controller.stop()

    asyncio.run(life())


@pytest.mark.usefixtures("_positions_at_the_controller")
def test_unknown_names_are_told_at_once(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        assert (await controller.alter(TopicAlteration("t"))).error is ErrorCode.UNKNOWN_TOPIC
        assert (await controller.delete("t")).error is ErrorCode.UNKNOWN_TOPIC
        assert (await controller.positions("g")).error is ErrorCode.UNKNOWN_GROUP
        assert (await controller.commit("g", Position("t", 0, 1))).results == [ErrorCode.UNKNOWN_TOPIC]
        await controller.controller.stop()

    asyncio.run(life())


@pytest.mark.usefixtures("_positions_at_the_controller")
def test_bytes_that_are_not_text_are_refused_as_names_and_kept_as_notes(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        await controller.create(NewTopic("t", 1))
        assert (await controller.create(NewTopic(NOT_UTF8, 1))).error is not ErrorCode.NONE
        assert (await controller.create(NewTopic("u", 1, settings={"flush": NOT_UTF8}))).message
        assert (await controller.alter(TopicAlteration("t", 0, {NOT_UTF8: None}))).message
        assert (await controller.producer(NOT_UTF8)).error is ErrorCode.INVALID_NAME
        assert (await controller.commit(NOT_UTF8)).error is ErrorCode.INVALID_NAME
        await controller.commit("g", Position("t", 0, 1, NOT_UTF8 + "x"))
        assert (await controller.positions("g")).positions[0].metadata == NOT_UTF8 + "x"
        assert (await controller.positions(NOT_UTF8)).error is ErrorCode.UNKNOWN_GROUP
        await controller.controller.stop()

    asyncio.run(life())


@pytest.mark.usefixtures("_positions_at_the_controller")
def test_a_groups_positions_can_be_asked_for_by_topic(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        for name in ("b", "a"):
            await controller.create(NewTopic(name, 2))
        given = [Position("b", 1, 1), Position("b", 0, 2), Position("a", 0, 3)]
        assert (await controller.commit("g", *given)).results == [ErrorCode.NONE] * 3
        everything = (await controller.positions("g")).positions
        assert [(p.topic, p.partition) for p in everything] == [("a", 0), ("b", 0), ("b", 1)]
        assert [p.sequence_number for p in (await controller.positions("g", "a")).positions] == [3]
        assert (await controller.positions("g", "a", "zzz")).error is ErrorCode.UNKNOWN_TOPIC
        assert everything[0].committed_ms == controller.clock.now_ms()
        assert await controller.groups() == ["g"]
        await controller.delete("a")
        await controller.delete("b")
        assert await controller.groups() == []
        await controller.controller.stop()

    asyncio.run(life())


def test_asking_again_for_a_named_producer_writes_nothing(tmp_path: Path) -> None:
    async def life() -> None:
        controller = await Controller(tmp_path).register()
        producer_id = (await controller.producer("p", 1)).producer_id
        entries = controller.entries
        assert (await controller.producer("p", 1)).producer_id == producer_id
        assert controller.entries == entries
        controller.clock.pass_ms(PRODUCER_USE_NOTED_MS)
        assert (await controller.producer("p", 1)).producer_id == producer_id
        assert controller.entries == entries + 1, "that it is still in use is noted"
        assert (await controller.producer("p", 2)).producer_id != producer_id
        assert controller.link.view.producer_ended(producer_id)
        assert (await controller.producer("p", 1)).error is ErrorCode.STALE_PRODUCER_EPOCH
        await controller.controller.stop()

    asyncio.run(life())


def test_a_full_disk_is_a_trouble_as_long_as_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(file: object, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def trouble(controller: Controller) -> str:
        return controller.controller.trouble or ""

    async def life() -> None:
        controller = await Controller(tmp_path).register()
        assert not trouble(controller)
        with monkeypatch.context() as full:
            full.setattr("tank_controller.raft_node.files._OsAppendFile.write", no_room)
            assert (await controller.create(NewTopic("t", 1))).error is not ErrorCode.NONE
            assert "make room" in trouble(controller)
        while trouble(controller):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await controller.controller.stop()

    asyncio.run(life())


def test_a_broker_that_can_not_be_registered_is_told_why(tmp_path: Path) -> None:
    async def life() -> None:
        controller = Controller(tmp_path, broker_id=0)
        with pytest.raises(LocalRegistrationError, match="broker id"):
            await controller.register()
        await controller.controller.stop()

    asyncio.run(life())
