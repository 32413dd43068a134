"""What a controller tells the others: who it is, who may join and by which steps."""

from pathlib import Path

import pytest

from tank_controller.raft.errors import ChangeRefusedError
from tank_controller.raft.messages import NodeId
from tank_controller.raft_node.member import RaftMember
from tank_protos.generated import control_pb2 as pb
from tests.support.controllers.driven import Driven, Nowhere

TWO = NodeId(2, b"its disk")


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driven:
    monkeypatch.setattr(Nowhere, "send", lambda self, messages: None)
    driven = Driven(tmp_path).lead()
    driven.run_until(lambda: driven.driver.ready)
    return driven


def member(driven: Driven) -> RaftMember:
    return RaftMember(driven.driver, {1: "one:1", 2: "two:2"})


def asked_by(node: NodeId) -> pb.IdentifyRequest:
    return pb.IdentifyRequest(asker=pb.RaftNode(ordinal=node.ordinal, disk=node.disk), nonce=77)


def test_it_says_who_it_is_and_hands_the_founding_document_to_whom_it_names(driven: Driven) -> None:
    answer = member(driven).identify(asked_by(TWO))
    assert (answer.cluster_id, answer.nonce, answer.answerer.disk) == ("cluster", 77, driven.own.disk)
    assert (answer.asker_is_member, answer.founding, answer.leader) == (False, b"", "one:1")
    own = member(driven).identify(asked_by(driven.own))
    assert own.asker_is_member
    assert own.founding == driven.driver.raft.log.entries[0].data


def test_one_is_removed_when_the_latest_word_of_its_cluster_says_so(driven: Driven) -> None:
    commit = driven.driver.raft.log.commit

    def says(index: int, *, member: bool, cluster_id: str = "cluster") -> pb.IdentifyAnswer:
        return pb.IdentifyAnswer(cluster_id=cluster_id, asker_is_member=member, configuration_index=index)

    gone, stays = says(commit + 1, member=False), says(commit + 2, member=True)
    one = member(driven)
    assert one.is_removed([None, gone])
    assert one.is_removed([gone, says(commit, member=True)]), "that one is behind"
    assert not one.is_removed([stays, gone])
    assert not one.is_removed([None, says(commit, member=False)]), "of before it came"
    assert not one.is_removed([says(commit + 1, member=False, cluster_id="another"), None])
    assert not one.is_removed([])


def test_who_asks_is_added_as_a_learner_and_waits(driven: Driven) -> None:
    joins = member(driven).join(TWO)
    assert joins.kind == pb.JoinAnswer.WAIT
    driven.run_until(lambda: TWO in driven.driver.raft.configuration.learners)
    assert member(driven).is_missing(TWO)
    driven.run_until(lambda: driven.driver.idle)
    again = member(driven).join(TWO)
    assert (again.kind, again.message) == (pb.JoinAnswer.WAIT, f"{TWO} has not caught up: ask again")
    assert member(driven).identify(asked_by(TWO)).asker_is_member
    described = member(driven).describe("")
    assert [(m.node.ordinal, m.votes, m.address) for m in described.members] == [
        (1, True, "one:1"),
        (2, False, "two:2"),
    ]


def test_a_member_is_in_and_a_stranger_is_refused(driven: Driven) -> None:
    assert member(driven).join(driven.own).kind == pb.JoinAnswer.ADDED
    refused = member(driven).join(NodeId(9, b"disk"))
    assert refused.kind == pb.JoinAnswer.REFUSED
    assert "not among those" in refused.message


def test_another_disk_of_a_voters_ordinal_is_missing_until_the_old_one_is_gone(driven: Driven) -> None:
    assert member(driven).is_missing(NodeId(1, b"another disk"))
    assert not member(driven).is_missing(driven.own)
    assert member(driven).heirs() == [], "nobody else is there"


def test_who_does_not_lead_sends_to_the_leader(driven: Driven) -> None:
    raft = driven.driver.raft
    raft.become_follower(raft.term + 1, TWO)
    assert member(driven).join(NodeId(2, b"x")).not_leader.leader == "two:2"


def test_of_an_ordinal_with_two_disks_the_one_that_is_meant_has_to_be_named(driven: Driven) -> None:
    one = member(driven)
    assert one.meant(1, b"") == driven.own
    emptied = NodeId(1, b"another disk")
    one.join(emptied)
    driven.run_until(lambda: driven.driver.idle)
    with pytest.raises(ChangeRefusedError, match=f"{driven.own.disk.hex()} and {emptied.disk.hex()}"):
        one.meant(1, b"")
    assert one.meant(1, emptied.disk) == emptied
    assert one.meant(1, driven.own.disk) == driven.own
    with pytest.raises(ChangeRefusedError, match="no member"):
        one.meant(7, b"")
