"""A controller's process before it belongs to a cluster."""

import logging
from pathlib import Path

import pytest

from tank_controller.process import ControllerProcess
from tank_controller.raft.birth import Birth
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.rooms import ControllerConfig
from tank_protos.generated import control_pb2 as pb

OWN = NodeId(2, b"our disk")


def test_a_founding_document_that_cannot_be_read_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ControllerConfig(2, {1: "one:1", 2: "two:2"}, tmp_path, "two:2", "", 3000)
    process = ControllerProcess(config)
    birth = Birth(OWN, frozenset({1, 2}), lambda below: 9, lambda: "never")
    birth.ask()
    document = Configuration((NodeId(1, b"its disk"), OWN), ()).encode()
    for founding in (document[:-1], document + b"x", b"\xff"):
        answer = pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=1), nonce=birth.nonce, cluster_id="c", founding=founding
        )
        with caplog.at_level(logging.ERROR):
            process._hear(birth, answer)
        assert "controller 1 sent no founding document" in caplog.text
        caplog.clear()
    assert process.rooms is None
    assert list(tmp_path.iterdir()) == [], "nothing of it is kept"
