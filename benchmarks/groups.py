"""Consumer groups beside Kafka's: commits, joins, a coordinator's death, a member's death, idle groups, and
how soon a coordinator has read a million positions.

python -m benchmarks.groups [--rounds N] [--seconds S] [--kernel pure|compiled|both] [--cases REGEX]
                               [--quick] [--markdown] [--rows]

The members are franz-go's, by a program of ours in Go. Kafka runs in turn where `../shared/yardstick` has it.
Processor time is that of all brokers and controllers.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from benchmarks.harness.command_line import Often, how_often, options, tell
from benchmarks.harness.display import Display
from benchmarks.harness.franz import build_franz, has_kafka, why_absent
from benchmarks.harness.group_nodes import MIB, Nodes, build_members, kafka_nodes, our_nodes
from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.local_cluster import ClusterFailed
from benchmarks.harness.paired import Pair, Turns, least
from benchmarks.harness.servers import Kernel, kernels
from benchmarks.harness.table import Reached, Row

OFTEN = Often(rounds=5, seconds=10, quick_rounds=1, quick_seconds=3)
BROKERS: Final = 3
GROUPS: Final = 100
"""Of the commits, and of the joins."""
RATE: Final = 10_000
COMMIT_US: Final = 20.0
COMMIT_P99_MS: Final = {"replicated": 10.0, "disk": 40.0}
SUSTAINED: Final = 0.99
"""The share of the rate that counts as sustained."""
MEMBERS: Final = 10
"""Of a group that joins, that is idle, or whose coordinator dies."""
JOIN_S: Final = 5.0
FAILOVER_S: Final = 2.0
IDLE_GROUPS: Final = 20
"""So many that what they take is more than the cluster's own work, which differs from minute to minute."""
IDLE_PERCENT: Final = 0.1
SESSION_S: Final = 6
"""The shortest that Kafka takes by its defaults."""
SHORT_SESSION: Final = {"session": f"{SESSION_S}s", "heartbeat": "500ms"}
LARGE_GROUP: Final = 100
WATCHED_S: Final = SESSION_S + 2
"""How long a group is watched after its coordinator died: members whose heartbeats came to nothing would be
out."""
POSITIONS_A_GROUP: Final = 1_000
POSITIONS: Final = 1_000_000
QUICK_POSITIONS: Final = 100_000
LOAD_S: Final = 3.0
POSITION_BYTES: Final = 300
SETTLE_S: Final = 3.0

Systems = Turns[Nodes]


class GroupBench:
    """The cases, on one kernel."""

    def __init__(
        self, kernel: Kernel, rounds: int, seconds: float, positions: int, chosen: str, display: Display
    ) -> None:
        self.kernel, self.rounds, self.seconds = kernel, rounds, seconds
        self.positions, self.display = positions, display
        self._chosen = re.compile(chosen)

    def rows(self) -> Iterator[Row]:
        """All rows of the chosen cases; a failed case gets a row that says so."""
        yield from self._on(
            BROKERS,
            "replicated",
            (
                (f"{RATE:,} commits a second, flush=replicated", partial(self._commits, "replicated")),
                (f"{GROUPS * MEMBERS:,} members join", self._joins),
                ("coordinator killed", self._coordinator_killed),
                ("member dies", self._member_dies),
                ("idle group", self._idle),
            ),
        )
        disk = (f"{RATE:,} commits a second, flush=disk", partial(self._commits, "disk"))
        yield from self._on(BROKERS, "disk", (disk,), is_alone=True)
        name = f"{self.positions:,} positions"
        if self._chosen.search(name):
            yield from self._case(name, self._load)

    def _on(
        self,
        nodes: int,
        flush: str,
        cases: tuple[tuple[str, Callable[[Systems], Iterator[Row]]], ...],
        *,
        is_alone: bool = False,
    ) -> Iterator[Row]:
        """Runs the chosen cases on a cluster of ours and, unless `is_alone`, in turn on Kafka, which answers
        before the disk has what is committed."""
        cases = tuple(case for case in cases if self._chosen.search(case[0]))
        if not cases:
            return
        with ExitStack() as stack:
            try:
                both = self._systems(stack, nodes, flush, is_alone=is_alone)
            except (ClusterFailed, LoadFailed) as failure:
                self.display.say(f"FAILED {failure}")
                yield Row(f"{nodes} nodes", "failed", reached=Reached.NO, kernel=self.kernel)
                return
            for name, case in cases:
                yield from self._case(name, partial(case, both))

    def _systems(self, stack: ExitStack, nodes: int, flush: str, *, is_alone: bool = False) -> Systems:
        """A cluster of ours, and one of Kafka's unless `is_alone`. They end with the stack."""
        both = Systems(stack.enter_context(our_nodes(self.kernel, nodes, flush)))
        if has_kafka() and why_absent() is None and not is_alone:
            both.other = stack.enter_context(kafka_nodes(nodes))
        return both

    def _case(self, name: str, case: Callable[[], Iterator[Row]]) -> Iterator[Row]:
        """The rows of a case, or the one that says that it failed."""
        self.display.begin(name)
        try:
            for row in case():
                self.display.say(f"{row.name}: {row.figure}  {row.beside} {row.ratio}")
                yield row
        except (ClusterFailed, LoadFailed) as failure:
            self.display.say(f"FAILED {name}: {failure}")
            yield Row(name, "failed", reached=Reached.NO, kernel=self.kernel)

    def _pairs(self, both: Systems, run: Callable[[Nodes], dict[str, Any]]) -> list[Pair]:
        found = []
        for _ in range(self.rounds):
            found.append(both.each(run))
            self.display.ran()
        return found

    def _least(
        self, name: str, pairs: list[Pair], figure: str, most: float | None, unit: str, digits: int
    ) -> Row:
        return least(name, self.kernel, pairs, figure, most, unit, digits)

    # --- three brokers ------------------------------------------------------------------------------

    def _commits(self, flush: str, both: Systems) -> Iterator[Row]:
        """Commits of one position each, by groups of one member, at a steady rate. Times are those of the
        acknowledged ones."""

        def run(nodes: Nodes) -> dict[str, Any]:
            topic = nodes.topic(MEMBERS)
            return nodes.run(
                "commits", topic=topic, partitions=MEMBERS, group=nodes.fresh("commits"), groups=GROUPS,
                rate=RATE, seconds=self.seconds,
            )  # fmt: skip

        pairs = self._pairs(both, run)
        name = f"{RATE:,} commits a second, {GROUPS} groups, flush={flush}"
        yield self._least(f"{name}: CPU a commit", pairs, "server_us", COMMIT_US, "µs", 1)
        yield self._least(f"{name}: p50", pairs, "p50_ms", None, "ms", 2)
        yield self._least(f"{name}: p99", pairs, "p99_ms", COMMIT_P99_MS[flush], "ms", 2)
        yield self._least(f"{name}: refused", pairs, "refused", 0, "", 0)
        rate = self._least(f"{name}: acknowledged a second", pairs, "rate", None, "", 0)
        reached = Reached.of(value >= SUSTAINED * RATE for value in rate.values)
        yield Row(
            rate.name, rate.figure, f"≥ {SUSTAINED * RATE:,.0f}", reached, rate.kernel,
            rate.beside, values=rate.values,
        )  # fmt: skip

    def _joins(self, both: Systems) -> Iterator[Row]:
        """Members that start at once, until each holds its partition."""

        def run(nodes: Nodes) -> dict[str, Any]:
            return nodes.run(
                "join", topic=nodes.topic(MEMBERS), partitions=MEMBERS, group=nodes.fresh("join"),
                groups=GROUPS, members=MEMBERS, seconds=0,
            )  # fmt: skip

        pairs = self._pairs(both, run)
        name = f"{GROUPS * MEMBERS:,} members in {GROUPS} groups join"
        yield self._least(f"{name}: until all hold partitions", pairs, "shared_s", JOIN_S, "s", 2)
        yield self._least(f"{name}: CPU a member", pairs, "join_us", None, "µs", 0)

    def _coordinator_killed(self, both: Systems) -> Iterator[Row]:
        """The coordinator's broker dies by `kill -9`, and is started again behind each run."""

        def run(nodes: Nodes) -> dict[str, Any]:
            with nodes.begun(
                "kill", topic=nodes.topic(MEMBERS), partitions=MEMBERS, group=nodes.fresh("kill"),
                members=MEMBERS, seconds=WATCHED_S, **SHORT_SESSION,
            ) as members:  # fmt: skip
                node = members.told()["coordinator"]
                nodes.kill(node)
                members.tell("killed")
                try:
                    found = members.told()
                finally:
                    nodes.start_again(node)
                    time.sleep(SETTLE_S)
            if found["commit_errors"] or found["heartbeat_errors"]:
                self.display.say(
                    f"{nodes.name}: commits {found['commit_errors']}, heartbeats {found['heartbeat_errors']}"
                )
            return found

        pairs = self._pairs(both, run)
        name = f"coordinator killed, {MEMBERS} members"
        for figure, what in (("commits_s", "commits"), ("heartbeats_s", "heartbeats")):
            yield self._least(f"{name}: until {what} of all go on", pairs, figure, FAILOVER_S, "s", 2)
        yield self._least(f"{name}: rebalances seen", pairs, "rebalances", 0, "", 0)
        yield self._least(f"{name}: members whose acknowledged commit was lost", pairs, "lost", 0, "", 0)

    def _member_dies(self, both: Systems) -> Iterator[Row]:
        """One of many cooperative members is cut off."""

        def run(nodes: Nodes) -> dict[str, Any]:
            return nodes.run(
                "die", topic=nodes.topic(LARGE_GROUP), partitions=LARGE_GROUP, group=nodes.fresh("die"),
                members=LARGE_GROUP, **SHORT_SESSION,
            )  # fmt: skip

        pairs = self._pairs(both, run)
        name = f"one of {LARGE_GROUP} members dies, session of {SESSION_S} s"
        yield self._least(
            f"{name}: until others hold its partition", pairs, "shared_s", SESSION_S + 1, "s", 2
        )
        yield self._least(f"{name}: partitions that others gave up", pairs, "gave_up", 0, "", 0)

    def _idle(self, both: Systems) -> Iterator[Row]:
        """Groups that have nothing to read, beside the same brokers just before."""

        def run(nodes: Nodes) -> dict[str, Any]:
            found = nodes.run(
                "join", topic=nodes.topic(MEMBERS), partitions=MEMBERS, group=nodes.fresh("idle"),
                groups=IDLE_GROUPS, members=MEMBERS, seconds=2 * self.seconds,
            )  # fmt: skip
            of_groups = max(found["server_percent"] - found["before_percent"], 0.0)
            return {**found, "of_a_group": of_groups / IDLE_GROUPS}

        pairs = self._pairs(both, run)
        name = f"idle group of {MEMBERS} members: share of a processor"
        yield self._least(name, pairs, "of_a_group", IDLE_PERCENT, "%", 3)
        name = "three brokers and three controllers without groups: share of a processor"
        yield self._least(name, pairs, "before_percent", None, "%", 1)

    # --- one broker ---------------------------------------------------------------------------------

    def _load(self) -> Iterator[Row]:
        """A broker that is killed and started again reads all positions; its memory, beside that with one
        group's. Each round has a broker of its own: one holds two million of them at most, and reads what an
        earlier round wrote."""
        shape = {"partitions": POSITIONS_A_GROUP, "groups": self.positions // POSITIONS_A_GROUP}

        def started_again(nodes: Nodes, **of: object) -> dict[str, Any]:
            (node,) = nodes.pids()
            nodes.kill(node)
            with nodes.begun("load", **of) as members:
                nodes.start_again(node)
                return members.told()

        def run(nodes: Nodes) -> dict[str, Any]:
            of = {"topic": nodes.topic(POSITIONS_A_GROUP), "group": nodes.fresh("positions"), **shape}
            nodes.run("write", **{**of, "groups": 1})
            started_again(nodes, **{**of, "groups": 1})
            before_mib = nodes.resident_mib()
            written = nodes.run("write", **of)
            found = started_again(nodes, **of)
            grown = (nodes.resident_mib() - before_mib) * MIB
            return {**found, "write_us": written["server_us"], "bytes": grown / self.positions}

        pairs: list[Pair] = []
        for _ in range(self.rounds):
            with ExitStack() as stack:
                pairs.append(self._systems(stack, 1, "replicated").each(run))
            self.display.ran()
        name = f"{self.positions:,} positions of {shape['groups']:,} groups, one broker"
        yield self._least(f"{name}: load, from the first answer", pairs, "load_s", LOAD_S, "s", 2)
        yield self._least(f"{name}: from the start of the process", pairs, "whole_s", None, "s", 2)
        yield self._least(f"{name}: CPU of a position committed", pairs, "write_us", None, "µs", 2)
        alone: list[Pair] = [(mine, None) for mine, _ in pairs]  # Java takes its memory ahead
        yield self._least(f"{name}: memory of one", alone, "bytes", POSITION_BYTES, "B", 0)


def main() -> None:
    """The command line."""
    parser = options("groups", __doc__, OFTEN, "how long each load runs", "bench-groups")
    parser.add_argument("--cases", default="", help="only cases whose name has this regular expression")
    parser.add_argument(
        "--positions", type=int, help=f"how many are loaded ({POSITIONS:,}; quick: {QUICK_POSITIONS:,})"
    )
    given = parser.parse_args()
    rounds, seconds = how_often(given, OFTEN)
    positions = given.positions or (QUICK_POSITIONS if given.quick else POSITIONS)
    build_members()
    if why_absent() is None and has_kafka():
        build_franz()
    else:
        print("Kafka is not set up: our figures stand alone (../shared/yardstick/setup).", file=sys.stderr)
    rows: list[Row] = []
    for kernel in kernels(given.kernel):
        with ExitStack() as stack:
            display = Display(rounds * 7, stack)
            rows += GroupBench(kernel, rounds, seconds, positions, given.cases, display).rows()
    how = f"franz-go, {seconds:g} s a run, {rounds} rounds, in turn with Kafka where there is a figure beside"
    tell(given, "Consumer groups", how, rows)


if __name__ == "__main__":
    main()
