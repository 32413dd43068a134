"""Groups that change their protocol, from the coordinator's requests down to the log (KIP-848)."""

from pathlib import Path

import pytest

from tank_node.coordinators.classic.subscription import assignment_bytes
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings, Migration
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.consumer_scene import subscription
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating

NONE = GroupError.NONE
METADATA = subscription(("orders",))
TEN = tuple(range(10))


class Group:
    """The group `billing` of a node, whose topic `orders` has ten partitions."""

    def __init__(self, at: Coordinating) -> None:
        self.at = at
        at.found()
        at.load()

    def begin_heartbeat(
        self, member_id: str, epoch: int = 0, owned: tuple[int, ...] | None = None, *, is_full: bool = False
    ) -> list[ConsumerHeartbeatAnswer]:
        answers: list[ConsumerHeartbeatAnswer] = []
        joins = epoch == 0
        heartbeat = ConsumerHeartbeat(
            GROUP,
            member_id,
            None,
            epoch,
            rebalance_ms=60_000 if joins or is_full else -1,
            topics=("orders",) if joins or is_full else None,
            owned={} if joins else None if owned is None else {"orders": owned},
        )
        self.at.node.broker.begin_tick()
        self.at.groups.consumer_heartbeat(heartbeat, answers.append)
        return answers

    def heartbeat(
        self, member_id: str, epoch: int = 0, owned: tuple[int, ...] | None = None, *, is_full: bool = False
    ) -> ConsumerHeartbeatAnswer:
        answers = self.begin_heartbeat(member_id, epoch, owned, is_full=is_full)
        self.at.settle()
        (answer,) = answers
        return answer

    def begin_join(self, member_id: str = "", owned: tuple[int, ...] | None = None) -> list[JoinAnswer]:
        answers: list[JoinAnswer] = []
        metadata = METADATA if owned is None else subscription(("orders",), {"orders": owned})
        request = JoinRequest(
            MemberName(GROUP, member_id),
            "old",
            "/10.0.0.8",
            10_000,
            60_000,
            "consumer",
            (("range", metadata),),
        )
        self.at.node.broker.begin_tick()
        self.at.groups.join(request, answers.append)
        self.at.settle()
        return answers

    def sync(self, member_id: str, generation: int, assigned: bytes | None = None) -> SyncAnswer:
        answers: list[SyncAnswer] = []
        given = {} if assigned is None else {member_id: assigned}
        request = SyncRequest(MemberName(GROUP, member_id), generation, given)
        self.at.node.broker.begin_tick()
        self.at.groups.sync(request, answers.append)
        self.at.settle()
        (answer,) = answers
        return answer

    def classic_member(self) -> JoinAnswer:
        """The one member of a stable classic group, which reads all partitions."""
        joined = self.begin_join()
        self.at.node.pass_ms(1)
        self.at.settle()
        (answer,) = joined
        assigned = assignment_bytes(METADATA, {"orders": TEN})
        assert self.sync(answer.member_id, answer.generation, assigned).error is NONE
        return answer

    def classic_member_of_both(self) -> JoinAnswer:
        """A member of the classic protocol in a group that has one of the consumer protocol."""
        (answer,) = self.begin_join()
        assert self.sync(answer.member_id, answer.generation).error is NONE
        return answer

    def classic_heartbeat(self, member_id: str, generation: int) -> GroupError:
        self.at.node.broker.begin_tick()
        error = self.at.groups.heartbeat(MemberName(GROUP, member_id), generation)
        self.at.settle()
        return error

    def listed(self) -> list[tuple[GroupState, bool]]:
        return [(each.state, each.is_classic) for each in self.at.groups.listed()[1]]

    def orders(self, answer: ConsumerHeartbeatAnswer) -> tuple[int, ...]:
        assert answer.error is NONE
        assert answer.assignment is not None
        return tuple(answer.assignment.get("orders", ()))


def test_a_group_of_the_consumer_protocol_is_kept_in_the_log(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        assert group.orders(group.heartbeat("a")) == TEN
        assert group.listed() == [(GroupState.STABLE, False)]
        described = at.groups.describe_consumer(GROUP)
    with coordinating(tmp_path, controller=at.node.controller) as at:
        group = Group(at)
        assert at.groups.describe_consumer(GROUP) == described
        assert group.heartbeat("a", 1, TEN).error is NONE


def test_a_member_hears_of_an_epoch_when_it_is_on_disk(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        answers = group.begin_heartbeat("a")
        at.node.tick()
        assert not answers
        at.settle()
        assert len(answers) == 1


def test_an_empty_classic_group_is_taken_over_and_its_generations_go_on(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        at.groups.leave(GROUP, [(old.member_id, None)], lambda *_: None)
        at.settle()
        assert group.listed() == [(GroupState.EMPTY, True)]
        answer = group.heartbeat("a")
        assert answer.member_epoch > old.generation
        assert group.listed() == [(GroupState.STABLE, False)]
    with coordinating(tmp_path, controller=at.node.controller) as at:
        assert Group(at).listed() == [(GroupState.STABLE, False)]


def test_an_empty_group_of_the_consumer_protocol_is_taken_over_and_its_epochs_go_on(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        epoch = group.heartbeat("a").member_epoch
        group.heartbeat("a", -1)
        old = group.classic_member()
        assert old.generation > epoch
        assert group.listed() == [(GroupState.STABLE, True)]
    with coordinating(tmp_path, controller=at.node.controller) as at:
        assert Group(at).listed() == [(GroupState.STABLE, True)]


def test_a_classic_group_is_upgraded_when_a_member_of_the_consumer_protocol_joins(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        assert group.orders(group.heartbeat("a")) == (), "the classic member has all"
        assert group.listed() == [(GroupState.RECONCILING, False)]
        assert group.classic_heartbeat(old.member_id, old.generation) is GroupError.REBALANCING
        (told,) = group.begin_join(old.member_id, TEN)
        assert told.generation == old.generation, "it gives up first"
        assert group.sync(old.member_id, told.generation).error is NONE
        (again,) = group.begin_join(old.member_id, (0, 1, 2, 3, 4))
        assert group.orders(group.heartbeat("a", again.generation)) == (5, 6, 7, 8, 9)
        assert group.listed() == [(GroupState.STABLE, False)]


def test_an_upgraded_group_is_one_to_another_coordinator(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        group.classic_member()
        group.heartbeat("a")
        described = at.groups.describe_consumer(GROUP)
        assert len(described.members) == 2
    with coordinating(tmp_path, controller=at.node.controller) as at:
        group = Group(at)
        assert at.groups.describe_consumer(GROUP) == described
        assert group.listed() == [(GroupState.RECONCILING, False)]


def test_those_who_wait_in_a_classic_group_are_sent_to_join_again(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        waiting = group.begin_join()
        assert not waiting
        assert group.classic_heartbeat(old.member_id, old.generation) is GroupError.REBALANCING
        group.heartbeat("a")
        assert [each.error for each in waiting] == [GroupError.REBALANCING]


def test_the_group_is_classic_again_when_only_classic_members_are_left(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        group.heartbeat("a")
        assert group.heartbeat("a", -1).error is NONE
        assert group.listed() == [(GroupState.PREPARING_REBALANCE, True)]
        (answer,) = group.begin_join(old.member_id)
        assert answer.generation > old.generation + 1
        assert answer.leader_id == old.member_id
    with coordinating(tmp_path, controller=at.node.controller) as at:
        assert Group(at).listed() == [(GroupState.COMPLETING_REBALANCE, True)]


def test_a_classic_member_of_the_last_epoch_is_asked_to_join_again_when_the_group_is_classic(
    tmp_path: Path,
) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        group.heartbeat("a")
        found = group.classic_member_of_both()
        group.heartbeat("a", -1)
        assert group.listed() == [(GroupState.PREPARING_REBALANCE, True)]
        assert group.classic_heartbeat(found.member_id, found.generation) is GroupError.REBALANCING
        (answer,) = group.begin_join(found.member_id)
        assert answer.generation == found.generation + 1


def test_a_downgraded_group_is_classic_to_another_coordinator(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        group.heartbeat("a")
        group.heartbeat("a", -1)
    with coordinating(tmp_path, controller=at.node.controller) as at:
        group = Group(at)
        assert group.listed() == [(GroupState.PREPARING_REBALANCE, True)]
        assert at.groups.describe(GROUP).members[0].member_id == old.member_id
        (answer,) = group.begin_join(old.member_id)
        assert answer.error is NONE


def test_a_downgraded_group_rebalances_at_another_coordinator_too(tmp_path: Path) -> None:
    """What the last other member had would be nobody's else."""
    with coordinating(tmp_path) as at:
        group = Group(at)
        group.heartbeat("a")
        found = group.classic_member_of_both()
        group.heartbeat("a", -1)
    with coordinating(tmp_path, controller=at.node.controller) as at:
        heard = Group(at).classic_heartbeat(found.member_id, found.generation)
        assert heard is GroupError.REBALANCING


def test_the_group_is_classic_again_when_the_last_other_member_is_silent(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        group.heartbeat("a")
        for _ in range(10):
            at.node.pass_ms(4_990)
            at.settle()
            group.classic_heartbeat(old.member_id, old.generation)
        assert group.listed() == [(GroupState.PREPARING_REBALANCE, True)]


@pytest.mark.parametrize("policy", [Migration.DOWNGRADE, Migration.DISABLED])
def test_without_upgrades_a_classic_group_with_members_stays(tmp_path: Path, policy: Migration) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=0, consumer_migration=policy)
    with coordinating(tmp_path, settings=settings) as at:
        group = Group(at)
        group.classic_member()
        answer = group.heartbeat("a")
        assert answer.error is GroupError.UNKNOWN_GROUP
        assert answer.message
        assert group.listed() == [(GroupState.STABLE, True)]


def test_without_downgrades_classic_members_stay_in_the_group(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=0, consumer_migration=Migration.UPGRADE)
    with coordinating(tmp_path, settings=settings) as at:
        group = Group(at)
        group.classic_member()
        group.heartbeat("a")
        group.heartbeat("a", -1)
        ((_, is_classic),) = group.listed()
        assert not is_classic


def test_a_classic_group_of_something_else_than_consumers_stays(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        answers: list[JoinAnswer] = []
        request = JoinRequest(
            MemberName(GROUP, ""), "w", "/10.0.0.8", 10_000, 60_000, "connect", (("default", b"x"),)
        )
        at.node.broker.begin_tick()
        at.groups.join(request, answers.append)
        at.settle()
        assert group.heartbeat("a").error is GroupError.UNKNOWN_GROUP


def test_offsets_stay_when_a_group_changes_its_protocol(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        old = group.classic_member()
        assert at.commit(7, member_id=old.member_id, generation=old.generation) == [NONE]
        group.heartbeat("a")
        assert at.commit(8, member_id="a", generation=2) == [NONE]
        assert at.commit(9, member_id="a", generation=1) == [GroupError.STALE_MEMBER_EPOCH]
        assert at.offsets() == {("orders", 0): 8}


def test_a_group_of_the_consumer_protocol_is_deleted_when_it_is_empty(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        group.heartbeat("a")
        results: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP], lambda each: results.append(dict(each)))
        at.settle()
        assert results.pop() == {GROUP: GroupError.NOT_EMPTY}
        group.heartbeat("a", -1)
        at.groups.delete([GROUP], lambda each: results.append(dict(each)))
        at.settle()
        assert results == [{GROUP: NONE}]
        assert at.groups.describe_consumer(GROUP).error is GroupError.UNKNOWN_GROUP
        assert not group.listed()
    with coordinating(tmp_path, controller=at.node.controller) as at:
        assert not Group(at).listed()


def test_new_partitions_of_a_topic_are_shared_with_the_next_heartbeat(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        group = Group(at)
        group.heartbeat("a")
        at.node.controller.add("bills", 3)
        assert group.heartbeat("a", 1).assignment is None
        heartbeat = ConsumerHeartbeat(GROUP, "a", None, 1, topics=("orders", "bills"))
        answers: list[ConsumerHeartbeatAnswer] = []
        at.node.broker.begin_tick()
        at.groups.consumer_heartbeat(heartbeat, answers.append)
        at.settle()
        assert answers[0].assignment == {"orders": TEN, "bills": (0, 1, 2)}
