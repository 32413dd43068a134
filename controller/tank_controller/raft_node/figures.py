"""What is counted of one controller's Raft, for its metrics."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import NodeId

LATENCY_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RaftFigures:
    """Since the process started. Written by the driver; `timed` from the disk's thread, one at a time."""

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self.refused_messages: Counter[str] = Counter()
        """By the type of the error."""
        self.refused_proposals: Counter[str] = Counter()
        """Commands, changes of membership and reads, by the type of the error."""
        self.leader_changes = 0
        """How often another leader than before was known."""
        self.persist_counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        """Writes of the log with their fsync, by LATENCY_BOUNDS_S; the last bucket has no bound."""
        self.persist_s = 0.0
        self._clock_s = clock_s
        self._leader: NodeId | None = None

    def look(self, raft: Raft) -> None:
        """Who leads may have changed."""
        if raft.leader is not None and raft.leader != self._leader:
            self._leader = raft.leader
            self.leader_changes += 1

    def timed(self, persist: Callable[[], None]) -> None:
        """Writes to the log, and counts how long that took. Raises what it raises."""
        began_s = self._clock_s()
        try:
            persist()
        finally:
            took_s = self._clock_s() - began_s
            self.persist_counts[bisect_left(LATENCY_BOUNDS_S, took_s)] += 1
            self.persist_s += took_s
