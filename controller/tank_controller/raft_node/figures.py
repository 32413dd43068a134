"""Counters of one controller's Raft, for its metrics."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import NodeId

LATENCY_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RaftFigures:
    """Counters since the process started. The driver writes them; `timed` runs on the disk's thread, one call
    at a time.
    """

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self.refused_messages: Counter[str] = Counter()
        """Refused messages, by the type of the error."""
        self.refused_proposals: Counter[str] = Counter()
        """Refused commands, membership changes and reads, by the type of the error."""
        self.leader_changes = 0
        """How often the known leader changed."""
        self.persist_counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        """The durations of the log's writes with their fsync, by LATENCY_BOUNDS_S; the last bucket has no
        bound.
        """
        self.persist_s = 0.0
        self._clock_s = clock_s
        self._leader: NodeId | None = None

    def look(self, raft: Raft) -> None:
        """Counts a change of leader since the last call."""
        if raft.leader is not None and raft.leader != self._leader:
            self._leader = raft.leader
            self.leader_changes += 1

    def timed(self, persist: Callable[[], None]) -> None:
        """Calls `persist`, and counts its time. Raises the errors of `persist`."""
        began_s = self._clock_s()
        try:
            persist()
        finally:
            took_s = self._clock_s() - began_s
            self.persist_counts[bisect_left(LATENCY_BOUNDS_S, took_s)] += 1
            self.persist_s += took_s
