"""One run: a cluster from empty folders, its load, fault after fault, and the verdict."""

import contextlib
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from tank_cli.cluster.controller_calls import Controllers
from tank_cli.shell.exit_codes import CliError
from tank_client import ConsumerSettings, TankError
from tank_client.sync import Client
from tests.chaos.checker import Log, violations
from tests.chaos.copies import differing
from tests.chaos.faults import Fault, Scene, possible
from tests.chaos.iggy.clients import IggyProgramAccess
from tests.chaos.load import IGGY, TOPICS, topics_of
from tests.chaos.load_process import LoadProcess
from tests.chaos.members import Member, Members, StuckError, stop_together, tied_to_us, until
from tests.chaos.record import Fate, History, read
from tests.chaos.values import name_of

CONTROLLERS, BROKERS = 3, 3
SETTINGS = {
    "disk": {"flush": "disk"},
    "memory": {"flush": "replicated", "log.segment.bytes": "48k"},
    "raw": {"flush": "replicated"},
    "kafka": {"flush": "disk", "log.format": "kafka"},
}
"""By topic. Of small segments many are rolled in a run, and each write soon needs room on the disk: behind
64 KiB a file's room is allocated ahead."""
NAME_BYTES = 250
CHANGES = 20
"""How many changes of metadata, each with a name of so many bytes, are made at a time."""
_GENERATIONS = itertools.count(1)
HEAL_S = 90.0
"""From the end of a fault until every replica is in sync, and again until every client gets on."""
CALM_S = 1.0
"""Between healing and the next fault."""


@dataclass(slots=True)
class Run:
    """One run, from empty folders to the verdict."""

    members: Members
    controllers: Controllers
    seed: int
    minutes: float
    rate: float
    old_clients: bool
    only: str
    """What the names of the faults have in them that are made."""
    iggy_python: str = ""
    """The interpreter that has Iggy's client; empty: it has no part."""
    calm: bool = False
    """No fault is made: what is fenced all the same was only slow."""
    counts: Counter[str] = field(default_factory=Counter)
    heal_s: list[float] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def topics(self) -> dict[str, int]:
        """With their partitions."""
        return topics_of(kafka=bool(self.members.kafka_servers), iggy=bool(self.iggy_python))

    def tell(self, text: str) -> None:
        """A line for whoever watches."""
        passed = time.monotonic() - self.began
        print(f"{int(passed // 60):3d}:{passed % 60:04.1f}  {text}", flush=True)

    def live(self, client: Client) -> list[str]:
        """Violations; StuckError."""
        members = self.members
        members.start_all()
        for topic, partitions in self.topics.items():
            if topic not in IGGY:
                client.admin.create_topic(topic, partitions, BROKERS, SETTINGS[topic])
        self.tell(f"{len(members.all)} processes are ready")
        python, folder = [*tied_to_us(), sys.executable], members.folder / "clients"
        iggy = IggyProgramAccess(members.iggy_servers, self.iggy_python) if self.iggy_python else None
        load = LoadProcess(
            python,
            folder,
            members.servers,
            self.rate,
            self.seed,
            self.old_clients,
            members.kafka_servers,
            iggy,
            iggy_root=members.iggy_root.read_text(),
        )
        try:
            load.await_all_get_on(HEAL_S)
            if self.calm:
                self._wait(load)
            else:
                self._strike(client, load)
            self.tell("no more faults: the producers wait for their answers")
            load.end()
        except StuckError as error:
            raise StuckError("\n".join([str(error), *load.progress.broken])) from None
        finally:
            load.close()
        self._await_in_sync()
        return self._verdict(client, load)

    def _wait(self, load: LoadProcess) -> None:
        before = self._fences()
        until_s = time.monotonic() + self.minutes * 60
        while time.monotonic() < until_s and not load.progress.broken:
            time.sleep(CALM_S)
        fences = self._fences() - before
        said = ", ".join(f"{reason} {count}" for reason, count in sorted(fences.items())) or "none"
        self.tell(f"  {load.progress.total():,} values stored; brokers fenced: {said}")

    def _fences(self) -> Counter[str]:
        return sum((member.fences() for member in self.members.controllers), Counter())

    def _strike(self, client: Client, load: LoadProcess) -> None:
        chance = random.Random(self.seed)
        leader_of, change = partial(self._leader, client, chance), partial(change_metadata, client)
        scene = Scene(self.members, chance, leader_of, self.tell, change)
        until_s = time.monotonic() + self.minutes * 60  # starting up takes none of it
        for fault in self._faults(chance):
            if time.monotonic() > until_s or load.progress.broken:
                break
            fault.strike(scene)
            self.counts[fault.name] += 1
            healing = time.monotonic()
            self._await_in_sync()
            self.heal_s.append(time.monotonic() - healing)
            load.await_all_get_on(HEAL_S)
            stored = load.progress.total()
            self.tell(f"  whole again after {self.heal_s[-1]:.1f} s; {stored:,} values stored")
            for ended in self.members.ended_by_themselves():
                raise StuckError(f"{ended.name} ended by itself")
            time.sleep(CALM_S)
        if not self.counts and not load.progress.broken:
            raise StuckError("no fault was made: nothing was shown")

    def _faults(self, chance: random.Random) -> Iterator[Fault]:
        can, cannot = possible(self.members, self.only)
        if cannot:
            self.tell(f"NOT MADE HERE: {', '.join(cannot)}")
        while can:
            yield from chance.sample(can, len(can))

    def _leader(self, client: Client, chance: random.Random) -> int:
        def leaders() -> list[int]:
            described = client.admin.describe_topics(list(self.topics))
            return [p.leader for topic in described for p in topic.partitions if p.leader is not None]

        return chance.choice(leaders())

    def _await_in_sync(self) -> None:
        until(lambda: is_whole(self.controllers), "not every replica is in sync", HEAL_S)

    def _verdict(self, client: Client, load: LoadProcess) -> list[str]:
        history = read(sorted(load.folder.glob("*.jsonl")))
        log = read_all(client, self.topics)
        found = load.progress.broken + violations(history, log)
        self._sum_up(history, log)
        if load.progress.healed:
            said = ", ".join(f"{error} {count:,}" for error, count in sorted(load.progress.healed.items()))
            self.tell(f"  Iggy's client did the same again after: {said}")
        if lossy := self.controllers.overview().lossy_elections:
            found.append(f"{lossy} elections took into account that messages are lost; none was due")
        found += self._others_serve(client, log)
        stop_together(self.members.brokers)
        found += differing({member.name: member.data for member in self.members.brokers})
        found += [
            f"NOT ROLLED: {m.name} has one segment of each partition" for m in unrolled(self.members.brokers)
        ]
        return found + [f"{m.name}: {line}" for m in self.members.all for line in m.bugs()]

    def _sum_up(self, history: History, log: Log) -> None:
        fates = Counter(sent.fate for sent in history.sent.values())
        self.tell(
            f"{fates[Fate.STORED]:,} values acknowledged, {fates[Fate.UNKNOWN]:,} unknown, "
            f"{fates[Fate.REFUSED]:,} refused; {sum(map(len, log.values())):,} in the log; consumers saw "
            f"{sum(len(m) for places in history.seen.values() for m in places.values()):,}"
        )
        for name, count in sorted(self.counts.items()):
            self.tell(f"  {count:4d} x {name}")
        can, _ = possible(self.members, self.only)
        if not self.calm and (missing := not_reached(can, self.counts)):
            self.tell(f"  NOT REACHED: {', '.join(missing)}")
        if self.heal_s:
            worst, middle = max(self.heal_s), sorted(self.heal_s)[len(self.heal_s) // 2]
            self.tell(f"  whole again: median {middle:.1f} s, at most {worst:.1f} s")

    def _others_serve(self, client: Client, log: Log) -> list[str]:
        """Each broker is stopped in turn, so that others lead: what can be read must be the same."""
        self.tell("each broker is stopped in turn, and what the others serve is compared")
        found = []
        for member in self.members.brokers:
            member.stop()
            until(lambda: self._leaders(client), "a partition has no leader", HEAL_S)
            others = read_all(client, self.topics)
            for topic, partition in sorted({*log, *others}):
                if others.get((topic, partition)) != log.get((topic, partition)):
                    found.append(f"DIFFERENT: without {member.name} {topic}/{partition} is something else")
            member.start()
            member.await_ready()
            self._await_in_sync()
        return found

    def _leaders(self, client: Client) -> bool:
        """Whether every partition has a leader whose process runs."""
        running = {member.number for member in self.members.brokers if member.runs}
        try:
            described = client.admin.describe_topics(list(self.topics))
        except TankError:
            return False
        return all(p.leader in running for topic in described for p in topic.partitions)


def is_whole(controllers: Controllers) -> bool:
    """Whether every replica is in sync where it is to be, by the leading controller's word: a broker that was
    cut off would tell of the time before. Without one that answers: no."""
    try:
        found = controllers.overview()
    except CliError:
        return False
    return not (found.under_replicated or found.leaderless or found.moving)


def change_metadata(client: Client) -> None:
    """Begins some generations of a producer with a long name: the controllers store each."""
    with contextlib.suppress(TankError):
        for generation in itertools.islice(_GENERATIONS, CHANGES):
            client.admin.init_producer("x" * NAME_BYTES, generation)


def not_reached(faults: Iterable[Fault], counts: Mapping[str, int]) -> list[str]:
    """Names of those that could have been made, and were not."""
    return [fault.name for fault in faults if not counts.get(fault.name)]


def unrolled(brokers: Iterable[Member]) -> list[Member]:
    """Those that have no partition of more than one segment."""
    return [
        member
        for member in brokers
        if not any(len(list(folder.glob("*.log"))) > 1 for folder in member.partition_folders())
    ]


def read_all(client: Client, topics: Iterable[str] = tuple(TOPICS)) -> Log:
    """Everything that can be read, by a fresh consumer."""
    log: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for topic in topics:
        settings = ConsumerSettings(max_wait_ms=100)
        consumer = client.consumer(topic, stop_at_end=True, settings=settings)
        for batch in consumer:
            messages = log.setdefault((batch.topic, batch.partition), [])
            messages += [(m.sequence_number, name_of(bytes(m.value or b""))) for m in batch.messages()]
        consumer.close()
    return log
