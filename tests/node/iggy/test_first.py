from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.iggy import *
from tank_protos.iggy.eras import *
from tests.support.nodes.iggy_line import IggyLine, logged_in
from tests.support.nodes.iggy_node import IggyNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def test_b3(node):
    line = IggyLine(node, B3)
    assert line.raw(1) == b""
    assert line.login() == 0
    print(line.ask(GetClusterMetadataRequest(), GetClusterMetadataResponse))
    print(line.ask(CreateStreamRequest(name="s"), StreamDetails))
