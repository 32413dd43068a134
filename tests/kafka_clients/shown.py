"""What a run prints, and what it puts into the page on compatibility: its progress, a table of all that was
tried, and the page's two tables.

A row of the page is that of the last run that tried its client or program: a run of one library changes its
row alone.
"""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from tests.kafka_clients import probes, spark
from tests.kafka_clients.libraries import LIBRARIES, StockLibrary
from tests.kafka_clients.steps import (
    ADMIN_CALLS,
    BESIDE,
    CONNECT,
    FRANZ_GO_CALLS,
    GROUP_CALLS,
    GROUPS,
    KCAT,
    KILLS,
    REGISTRY,
    SPARK,
    Outcome,
    Step,
)

Results = Mapping[int, Sequence[Step]]
"""All steps, by the number of brokers that they ran against."""

CLIENTS, PROGRAMS = "clients", "programs"
HEADS: Final = {
    CLIENTS: (
        "Client",
        "Version",
        "Producer",
        "Assigned consumer",
        "One broker",
        "Three",
        "Day",
        "Again with",
    ),
    PROGRAMS: ("Program", "One broker", "Three", "Not yet", "Day"),
}
"""By table; the first column names the client or the program."""
ADMIN_TITLE: Final = (
    "Java's `Admin`, as [kafbat's kafka-ui](https://github.com/kafbat/kafka-ui) calls it, "
    "which Maven Central does not have"
)
GROUPS_TITLE: Final = (
    "members of groups: each library by its own first example, alone and with a second member, all in one "
    "group, and groups whose broker assigns the partitions"
)
GROUP_TITLES: Final = {
    "Java's `Admin`: all of its calls about groups": GROUP_CALLS,
    "franz-go: lists, descriptions and deletions of groups and offsets": FRANZ_GO_CALLS,
    "`kill -9` of a coordinator under members of librdkafka, franz-go and Java": KILLS,
    "Kafka Connect, two workers: a file through a topic into another, over `kill -9` of each broker and of a "
    "worker": CONNECT,
    "Apicurio's schema registry, two of them, over `kill -9` of each broker and of a registry": REGISTRY,
    "raw requests of groups and leader epochs, each version, beside Kafka 4.1": BESIDE,
}
"""Programs about groups, by their rows' titles."""
KCAT_TITLE, SPARK_TITLE = "kcat", "Spark's Kafka source and sink"
SHOWN_CHARACTERS: Final = 110
"""Of a step's name on the screen: a probe prints whole answers."""
SHOWN_NAMES: Final = 2
"""The most steps that the page names; of more it says how many."""
TITLES: Final = {
    CLIENTS: (*(library.title for library in LIBRARIES), KCAT_TITLE, SPARK_TITLE),
    PROGRAMS: (*(probe.title for probe in probes.ALL), ADMIN_TITLE, GROUPS_TITLE, *GROUP_TITLES),
}
"""The rows of each table, in their order."""


class Screen:
    """Prints each step as it ends."""

    def __init__(self, steps: int) -> None:
        """`steps`: how many there are to be."""
        self._steps = steps
        self._done = 0

    def tell(self, step: Step) -> None:
        """One more step has ended."""
        self._done += 1
        where = f"[{self._done:3d}/{max(self._steps, self._done)}]"
        print(
            f"{where} {step.outcome.value:8} {step.seconds:5.1f} s  {step.program}: {step.name}", flush=True
        )
        for line in filter(None, (step.note, step.problem)):
            print(f"          {line}", flush=True)


def summary(results: Results, began: float) -> str:
    """A table of all programs, and what failed; `began`: by `time.monotonic`."""
    every = [step for steps in results.values() for step in steps]
    programs = list(dict.fromkeys(step.program for step in every))
    width = max(map(len, programs), default=0)
    heads = [f"{'one broker' if count == 1 else f'{count} brokers':>12}" for count in results]
    lines = ["", f"{'':{width}}  {'  '.join(heads)}"]
    for program in programs:
        cells = [f"{_of(_by(steps, program)):>12}" for steps in results.values()]
        lines.append(f"{program:{width}}  {'  '.join(cells)}")
    failed = [
        f"FAILED, {count} brokers: {step.program}: {step.name}: {step.problem}"
        for count, steps in results.items()
        for step in steps
        if step.outcome is Outcome.FAILED
    ]
    counts = {outcome: sum(step.outcome is outcome for step in every) for outcome in Outcome}
    minutes = (time.monotonic() - began) / 60
    lines += ["", *failed] if failed else [""]
    lines.append(
        f"{counts[Outcome.OK]} steps went well, {counts[Outcome.FAILED]} failed, {counts[Outcome.NOT_YET]} "
        f"are not possible yet, {counts[Outcome.LEFT_OUT]} the library itself can't; "
        f"{minutes:.0f} minutes"
    )
    return "\n".join(lines)


def _by(steps: Sequence[Step], program: str) -> list[Step]:
    return [step for step in steps if step.program == program]


def _of(steps: Sequence[Step]) -> str:
    """How many of these went well, of those that are to."""
    judged = [step for step in steps if step.outcome in (Outcome.OK, Outcome.FAILED)]
    return f"{sum(step.outcome is Outcome.OK for step in judged)} of {len(judged)}" if judged else "-"


def rows(results: Results, day: date) -> dict[str, dict[str, tuple[str, ...]]]:
    """The rows of each table for what was run against one broker and three, by their first cells."""
    one, three = results[1], results[3]
    shown = f"{day.day} {day:%b %Y}"

    def counted(program: str) -> tuple[str, str]:
        return _of(_by(one, program)), _of(_by(three, program))

    clients: dict[str, tuple[str, ...]] = {}
    for library in LIBRARIES:
        steps = [*_by(one, library.name), *_by(three, library.name)]
        if steps:
            again = f"`make kafka KAFKA='--library {library.name.lower()}'`"
            cells = (library.version, _codecs(library, steps), _consumer(library, steps))
            clients[library.title] = (*cells, *counted(library.name), shown, again)
    if _by(one, KCAT):
        cells = (_kcat_version(), "`-P`", "`-C`, `-G`, `-L`, `-Q`")
        clients[KCAT_TITLE] = (*cells, *counted(KCAT), shown, "`make kafka`, where kcat is installed")
    if _by(one, SPARK):
        cells = (
            f"{spark.VERSION} (kafka-clients {spark.KAFKA_CLIENTS})",
            "the sink, in batches and in a stream",
            "the source, by `subscribe` and by `assign`",
        )
        clients[SPARK_TITLE] = (*cells, *counted(SPARK), shown, "`make kafka KAFKA='--library spark'`")
    programs: dict[str, tuple[str, ...]] = {}
    files = {probe.title: probe.file for probe in probes.ALL}
    files |= {ADMIN_TITLE: ADMIN_CALLS, GROUPS_TITLE: GROUPS, **GROUP_TITLES}
    for title, program in files.items():
        steps = _by(one, program) or _by(three, program)
        if steps:
            programs[title] = (*counted(program), _not_yet(steps), shown)
    return {CLIENTS: clients, PROGRAMS: programs}


def _codecs(library: StockLibrary, steps: Sequence[Step]) -> str:
    bad = {step.codec for step in steps if step.outcome is not Outcome.OK}
    good = [codec for codec in library.codecs if codec not in bad]
    return f"{', '.join(good)}; idempotent" if good else "no"


def _consumer(library: StockLibrary, steps: Sequence[Step]) -> str:
    if library.no_consumer:
        return f"none: {library.no_consumer}"
    return "yes" if all(step.outcome is Outcome.OK for step in steps if not step.codec) else "no"


def _not_yet(steps: Sequence[Step]) -> str:
    names = [step.name for step in steps if step.outcome is Outcome.NOT_YET]
    if not names:
        return ""
    return ", ".join(f"`{name}`" for name in names) if len(names) <= SHOWN_NAMES else str(len(names))


def _kcat_version() -> str:
    """kcat's own words of its version and of librdkafka's."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False)
    found = re.search(r"Version (\S+).*librdkafka (\S+)", said.stdout + said.stderr, re.DOTALL)
    return f"{found[1]} (librdkafka {found[2]})" if found else ""


def marks(table: str) -> tuple[str, str]:
    """The lines of a page between which a table lies."""
    return f"<!-- make kafka, {table}: begin -->\n", f"<!-- make kafka, {table}: end -->\n"


def put_into(page: str, found: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """The page with these rows in its tables: each takes the place of the one with the same first cell.
    Raises ValueError when the page has no place for a table."""
    for table, new in found.items():
        begin, end = marks(table)
        before, opened, rest = page.partition(begin)
        old, closed, after = rest.partition(end)
        if not opened or not closed:
            raise ValueError(f"the page has no place for the table of {table}: {begin.strip()}")
        lines = {title: line for line in old.splitlines() for title in TITLES[table] if _is_row(line, title)}
        lines |= {title: _line(title, *cells) for title, cells in new.items()}
        heads = [_line(*HEADS[table]), "|" + "---|" * len(HEADS[table])]
        body = [lines[title] for title in TITLES[table] if title in lines]
        page = f"{before}{begin}\n" + "\n".join([*heads, *body]) + f"\n\n{end}{after}"
    return page


def _is_row(line: str, title: str) -> bool:
    return line.startswith(f"| {title} |")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
