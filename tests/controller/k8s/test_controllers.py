"""Controllers that are pods: where each is, and how one that is not wanted leaves the group."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tank_controller.k8s.controllers import Exit, leave_group, next_step, set_aside
from tank_controller.raft.errors import ChangeRefusedError
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node.pod_addresses import PodAddresses
from tank_protos.generated import control_pb2 as pb

NODES = [NodeId(ordinal, bytes([ordinal])) for ordinal in range(5)]
ALL = Configuration(tuple(NODES), ())
NAMED = {n: f"tank-controller-{n}.tank-controller.ns.svc:9090" for n in range(3)}


def test_every_pod_of_the_set_has_an_address_and_those_that_are_named_are_listed() -> None:
    found = PodAddresses(NAMED, 1)
    assert dict(found) == NAMED
    assert found[4] == "tank-controller-4.tank-controller.ns.svc:9090"
    assert found.get(5) is None
    assert 3 in found


def test_one_that_nobody_named_lists_itself() -> None:
    assert list(PodAddresses(NAMED, 3)) == [0, 1, 2, 3]
    assert PodAddresses(NAMED, 6)[6].startswith("tank-controller-6."), "the others refuse it, and say why"


@pytest.mark.parametrize(
    "named",
    [
        {},
        {0: "host:9090"},
        {0: "a-0.s:1", 1: "b-1.s:1"},
        {0: "a-0.s:1", 1: "a-1.s:2"},
        {0: "a-1.s:1"},
        {0: "127.0.0.1:9090"},
    ],
)
def test_addresses_that_are_no_stateful_sets_are_refused(named: dict[int, str]) -> None:
    with pytest.raises(ValueError, match="not those of one StatefulSet's pods"):
        PodAddresses(named, 0)


def test_who_leaves_asks_the_leader_and_a_leader_hands_over_to_one_that_stays() -> None:
    own = NODES[4]
    best_first = [NODES[3], NODES[1], NODES[0]]
    assert next_step(ALL, own, NODES[0], 3, []) == (Exit.ASK, None)
    assert next_step(ALL, own, NODES[3], 3, []) == (Exit.ASK, None), "it leaves, too, and hands over itself"
    assert next_step(ALL, own, own, 3, best_first) == (Exit.HAND_OVER, NODES[1])
    assert next_step(ALL, own, own, 3, [NODES[3]]) == (Exit.WAIT, None), "those that stay don't answer"
    assert next_step(ALL, own, None, 3, []) == (Exit.WAIT, None)
    assert next_step(Configuration(tuple(NODES[:4]), ()), own, NODES[0], 3, []) == (Exit.GONE, None)
    assert next_step(Configuration((own,), ()), own, own, 1, []) == (Exit.WAIT, None), "the last one stays"


class Group:
    """Controllers as one of them sees them, and a leader that takes out whom it can."""

    def __init__(self, own: NodeId, leader: NodeId | None, refusals: list[str]) -> None:
        self.configuration, self.own, self.leader, self.refusals = ALL, own, leader, refusals
        self.asked: list[str] = []
        self.there = NODES[:4]
        self.removed = False

    def member(self) -> Any:
        return SimpleNamespace(
            raft=self,
            driver=self,
            leader_address=lambda: f"c{self.leader.ordinal}:1" if self.leader else "",
            heirs=lambda: self.there,
        )

    def transfer_leadership(self, heir: NodeId) -> None:
        if self.refusals:
            raise ChangeRefusedError(self.refusals.pop())
        self.leader = heir

    def at(self, address: str) -> "Group":
        self.asked.append(address)
        return self

    async def is_removed(self) -> bool:
        return self.removed

    async def RemoveController(self, request: pb.RemoveControllerRequest) -> pb.ChangeAnswer:
        assert (request.ordinal, request.disk) == (self.own.ordinal, self.own.disk)
        why = self.refusals.pop() if self.refusals else ""
        if why == "dies":
            self.removed, self.leader = True, None  # nobody speaks to one that is no member
            raise TimeoutError
        if why == "not leader":
            return pb.ChangeAnswer(not_leader=pb.NotLeader())
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=1 if why else 0, message=why))


def leaves(group: Group, within_s: float = 10) -> str:
    return asyncio.run(leave_group(group.member(), 3, group.at, group.is_removed, within_s))


def test_it_asks_until_it_is_taken_out() -> None:
    group = Group(NODES[4], NODES[1], ["another change is under way: ask again", "not leader"])
    assert leaves(group) == ""
    assert group.asked == ["c1:1"] * 3


def test_a_removal_whose_answer_is_lost_is_believed_to_the_others() -> None:
    group = Group(NODES[4], NODES[1], ["dies"])
    assert leaves(group) == ""
    assert group.asked == ["c1:1"]


def test_a_leader_hands_over_first() -> None:
    group = Group(NODES[4], NODES[4], ["another change is under way"])
    assert leaves(group) == ""
    assert group.asked == ["c0:1"]


def test_a_leader_hands_over_to_none_that_is_away_and_says_so_when_nobody_that_stays_is_there() -> None:
    group = Group(NODES[4], NODES[4], [])
    group.there = [NODES[3], NODES[2], NODES[1]]
    assert leaves(group) == ""
    assert group.asked == ["c2:1"]
    group = Group(NODES[4], NODES[4], [])
    group.there = [NODES[3]]
    assert leaves(group, within_s=0.3) == "it leads, and no controller that stays takes over"
    assert group.leader == NODES[4]


def test_when_the_others_would_not_be_enough_it_says_why_and_stays_a_member() -> None:
    group = Group(NODES[4], NODES[1], ["only 1 of the new 4 voters answer"] * 100)
    assert leaves(group, within_s=0.5) == "only 1 of the new 4 voters answer"
    assert leaves(Group(NODES[4], None, []), within_s=0.3) == "no controller leads"


def test_what_a_removed_one_had_is_set_aside_once(tmp_path: Path) -> None:
    for content in ("first", "second"):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "log").write_text(content)
        set_aside(tmp_path / "data")
    assert [each.name for each in tmp_path.iterdir()] == ["data.removed"]
    assert (tmp_path / "data.removed" / "log").read_text() == "second"
