"""Sessions that can't read what they are told."""

from pathlib import Path

from tank_node.session import Session
from tank_node.stored.telling import tell
from tank_protos.wire.errors import OutOfRange
from tests.support.iggy.iggy_node import IggyNode


def test_the_connection_that_asked_ends_and_no_other(tmp_path: Path) -> None:
    def fails(result: int) -> None:
        raise OutOfRange(f"{result}")

    with IggyNode(tmp_path / "data") as node:
        session, reasons = Session(), list[str]()
        session.hang_up = reasons.append
        tell(node.broker, session, fails, 1)
        assert reasons == ["unreadable_result"]
        assert node.metrics.refused["unreadable_result"] == 1
        session.close()
        tell(node.broker, session, fails, 1)
        assert node.metrics.refused["unreadable_result"] == 1
