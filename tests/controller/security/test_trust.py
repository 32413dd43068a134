"""Whom a controller believes: with a secret and without, before it is demanded and from then on."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tank_controller.commands import commands
from tank_controller.leader.brokers.streams import Stream
from tank_controller.raft.messages import NodeId
from tank_controller.security.trust import Trust, open_secret
from tank_controller.state.state import ClusterState
from tank_protos.cluster_secret import PROOF_KEY, Party, PartyRole, Question, SecretRefusal, Secrets
from tank_protos.generated import control_pb2 as pb

LINE, OTHER = b"s" * 32, b"x" * 32
OWN, NEXT = NodeId(1, b"1" * 16), NodeId(2, b"2" * 16)
ADMIN, MESSAGES = "/tank.control.Admin/Change", "/tank.control.Controllers/Messages"
SESSION = "/tank.control.Brokers/Session"
KEY = b"k" * 16
Metadata = list[tuple[str, str | bytes]]


def trust(folder: Path, line: bytes | None = LINE, *, born: bool = True, demanded: bool = False) -> Trust:
    """A controller's, with this secret."""
    file = None
    if line is not None:
        (folder / "line").write_bytes(line)
        file = open_secret(folder / "line")
    made = Trust(OWN, folder, file)
    if born:
        made.look(ClusterState(demands_secret=demanded))
    return made


def proof(at: Trust, method: str, caller: Party, line: bytes = LINE) -> Metadata:
    question = Question(Secrets((line,)), caller, method, os.urandom(32))
    answer = at.verifier.answer(question.request, Secrets((line,)))
    return [("user-agent", "test"), (PROOF_KEY, question.proof(answer, demanded=True))]


def streams(*proved: bool) -> Mapping[int, Stream]:
    """Of brokers 1, 2, …, with epochs 11, 12, …"""
    made = {i: SimpleNamespace(epoch=10 + i, has_proved=each) for i, each in enumerate(proved, 1)}
    return cast(Mapping[int, Stream], made)


def state_of(brokers: int) -> ClusterState:
    state = ClusterState(peer_key=KEY)
    for number in range(1, brokers + 1):
        state.brokers[number] = cast("object", SimpleNamespace(epoch=10 + number))  # type: ignore[assignment]
    return state


def test_until_it_is_demanded_who_proves_nothing_is_taken_and_who_proves_another_is_not(
    tmp_path: Path,
) -> None:
    here = trust(tmp_path)
    assert here.judge(ADMIN, []) is None
    assert here.unproven == 1
    assert here.judge(ADMIN, proof(here, ADMIN, Party(PartyRole.ADMIN))) == Party(PartyRole.ADMIN)
    assert here.judge(ADMIN, proof(here, ADMIN, Party(PartyRole.ADMIN), OTHER)) is SecretRefusal.WRONG


def test_when_it_is_demanded_who_proves_nothing_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    here = trust(tmp_path, demanded=True)
    assert here.judge(ADMIN, []) is SecretRefusal.MISSING
    assert trust(tmp_path, born=False).judge(ADMIN, []) is SecretRefusal.MISSING
    again = trust(tmp_path, None, born=False)
    assert again.judge(ADMIN, []) is SecretRefusal.NONE_HERE, "it was started without"
    assert again.judge("/grpc.health.v1.Health/Check", []) is None
    assert again.judge("/tank.control.Trust/Challenge", []) is None


def test_before_its_birth_a_controller_with_a_secret_believes_nobody_without(tmp_path: Path) -> None:
    here = trust(tmp_path, born=False)
    assert here.judge(MESSAGES, []) is SecretRefusal.MISSING
    assert here.prover.demanded()
    here.look(ClusterState())
    assert here.judge(MESSAGES, []) is None
    here.founded()
    assert here.judge(MESSAGES, []) is SecretRefusal.MISSING


def test_a_controller_without_a_secret_believes_everybody_as_ever(tmp_path: Path) -> None:
    here = trust(tmp_path, None)
    assert here.judge(MESSAGES, []) is None
    assert here.judge(MESSAGES, [(PROOF_KEY, b"whatever")]) is None


@pytest.mark.parametrize(
    ("method", "role", "is_taken"), [(MESSAGES, PartyRole.CONTROLLER, True), (MESSAGES, PartyRole.BROKER,
    False), (MESSAGES, PartyRole.ADMIN, False),
     (SESSION, PartyRole.BROKER, True), (SESSION, PartyRole.CONTROLLER, False),
     (ADMIN, PartyRole.BROKER, True), (ADMIN, PartyRole.CONTROLLER, True),
     ("/tank.control.New/Service", PartyRole.ADMIN, False)],
)  # fmt: skip
def test_each_service_is_for_its_own(tmp_path: Path, method: str, role: PartyRole, is_taken: bool) -> None:
    here = trust(tmp_path, demanded=True)
    found = here.judge(method, proof(here, method, Party(role, 2, b"d")))
    assert found == (Party(role, 2, b"d") if is_taken else SecretRefusal.NOT_MEANT)


def test_it_is_demanded_when_all_members_and_all_brokers_have_proved_it(tmp_path: Path) -> None:
    here, state, members = trust(tmp_path), state_of(2), (OWN, NEXT)
    assert here.command(state, streams(True, True), members) is None, "the other controller hasn't"
    here.opened(NEXT)
    for lacking in (streams(True, False), streams(True)):
        assert here.command(state, lacking, members) is None
        answer = pb.OverviewAnswer()
        here.report(answer, state, lacking, members)
        assert (answer.secret, list(answer.brokers_unproven)) == (pb.OverviewAnswer.OFFERED, [2])
    here.opened(NEXT)
    here.closed(NEXT)
    command = here.command(state, streams(True, True), members)
    assert command is not None
    here.closed(NEXT)
    assert here.controllers_unproven(members) == [2], "its streams have ended"
    after = ClusterState(peer_key=KEY)
    assert commands.apply(after, 1, command).rejection is None
    assert (after.demands_secret, after.peer_key) == (True, KEY)
    assert ClusterState.load(after.snapshot()).demands_secret
    assert here.command(after, streams(), members) is None, "once is enough"
    assert trust(tmp_path, None).command(state, streams(True, True), (OWN,)) is None


def test_a_disk_that_takes_no_file_keeps_nobody_from_demanding_it(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet"
    (tmp_path / "line").write_bytes(LINE)
    here = Trust(OWN, folder, open_secret(tmp_path / "line"))
    here.look(ClusterState(demands_secret=True))
    assert here.judge(ADMIN, []) is SecretRefusal.MISSING
    folder.mkdir()
    assert not Trust(OWN, folder, None).demanded
    here.look(ClusterState(demands_secret=True))
    assert Trust(OWN, folder, None).demanded, "it was tried again"


def test_refusals_are_counted_and_told_of_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = trust(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            here.refuse(ADMIN, SecretRefusal.MISSING)
        here.refuse(SESSION, SecretRefusal.WRONG)
    assert (here.refused["missing"], here.refused["wrong"]) == (1000, 1)
    assert len(caplog.records) == 2
    assert "s" * 32 not in caplog.text
