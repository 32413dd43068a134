"""Replicas that are spoiled, and taken out."""

from collections.abc import Callable
from pathlib import Path

from tests.support.nodes.broker_cell import BrokerCell, CellNode
from tests.support.nodes.leading import members


def files(cell: BrokerCell, broker_id: int, suffix: str) -> list[Path]:
    return sorted((cell.folder / f"broker-{broker_id}" / "topics").glob(f"*/0/*{suffix}"))


def take_out_failed(cell: BrokerCell, reports: list[tuple[int, int]]) -> Callable[[CellNode], None]:
    """As the controller does: who says that it failed is out, at once; then it judges proposals."""

    def judge(node: CellNode) -> None:
        if node.controller.failed:
            reports.extend(node.controller.failed)
            node.controller.failed = []
            cell.change(in_sync=tuple(member for member in members(cell) if member != node.broker_id))
        cell.accept(node)

    return judge


def spoil(cell: BrokerCell, broker_id: int) -> None:
    """Its oldest segment went bad, and it finds that out."""
    oldest = files(cell, broker_id, ".log")[0]
    oldest.write_bytes(b"\x55" * oldest.stat().st_size)
    node = cell.nodes[broker_id]
    assert node.log().scrub(1 << 20).bad
    node.partition().note_state()
    node.broker.roles.failed(node.partition())
