"""The frames of clients that are in no package registry, played to a broker in memory."""

from pathlib import Path

import pytest

from tank_protos.iggy.eras import B3, SEED, Era
from tests.iggy_clients.stock_client import SCRIPTS
from tests.support.iggy.iggy_line import IggyLine, IggyStatus
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.script import load


@pytest.mark.parametrize(("script", "era"), [("go_2023", SEED), ("node_0_8", B3)])
def test_each_frame_is_answered_as_the_client_expects(tmp_path: Path, script: str, era: Era) -> None:
    with IggyNode(tmp_path / "data") as node:
        line = IggyLine(node, era)
        for exchange in load(script, SCRIPTS):
            wanted = exchange.answer
            try:
                status, payload = 0, line.raw(exchange.request.code, exchange.request.payload)
            except IggyStatus as refused:
                status, payload = refused.code, b""
            assert status == wanted.code, exchange.request.place
            assert wanted.matches(payload), wanted.place
        assert line.session.era is era
