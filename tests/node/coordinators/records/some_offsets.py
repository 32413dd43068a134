"""Committed offsets of all kinds, for tests of their records."""

from tank_node.coordinators.machine.committed_offset import CommittedOffset

OFFSET = CommittedOffset(1_000, 5, "note", 1_700_000_000_000)
OFFSETS = [
    CommittedOffset(0),
    OFFSET,
    CommittedOffset(-1, -1, "", -1),
    CommittedOffset(2**63 - 1, 2**31 - 1, "\u00e9\udcff" * 50, 2**62),
    CommittedOffset(1, 5, "", 10, 20),
    None,
]
