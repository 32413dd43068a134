"""`make chaos`: a cluster of real processes under load and faults, and everything read back at the end.

Three controllers and three brokers, in network namespaces where they can be made, and clients of every kind.
Each fault is followed by the time that the cluster needs until all replicas are in sync again; then comes
the next, in an order drawn from the seed, every kind once before any comes again. At the end all that clients
were told is held against the log. Exit code 1, and the processes' last words, when anything acknowledged is
lost, repeated or out of order, when a consumer saw what is no more, when something doesn't heal in time, or
a process ended by itself.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tank_client import ConsumerSettings, TankError
from tank_client.sync import Client
from tests.chaos import network
from tests.chaos.checker import Log, violations
from tests.chaos.faults import Fault, Scene, possible
from tests.chaos.load import SETTLE_S, TOPICS
from tests.chaos.members import Members, StuckError, until
from tests.chaos.record import Fate, read
from tests.chaos.values import name_of

CONTROLLERS, BROKERS = 3, 3
HEAL_S = 90.0
"""From the end of a fault until every replica is in sync and clients' writes are stored."""
CALM_S = 1.0
"""Between healing and the next fault."""
GOES_ON = 100
"""Values that must be stored after a fault before the next one."""


@dataclass(slots=True)
class Progress:
    """What the load says of itself, once a second."""

    stored: int = 0
    seen: int = 0
    failures: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Errors of clients that no fault explains."""


class LoadProcess:
    """`tests.chaos.load`."""

    def __init__(self, folder: Path, servers: str, rate: float, seed: int, old_clients: bool) -> None:
        self.folder = folder
        self.progress = Progress()
        folder.mkdir()
        command = [sys.executable, "-m", "tests.chaos.load", "--servers", servers, "--folder", str(folder)]
        command += ["--rate", str(rate), "--seed", str(seed), *(["--old-clients"] if old_clients else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.progress = Progress(**json.loads(line))

    def end(self) -> None:
        """Returns when all its producers have their answers. StuckError."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(2 * SETTLE_S)
        except subprocess.TimeoutExpired:
            raise StuckError("the clients don't come to an end") from None
        if code:
            raise StuckError(f"the clients ended with exit code {code}")
        self._hearing.join(5)

    def close(self) -> None:
        """When the run ends early."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Run:
    """One run, from empty folders to the verdict."""

    members: Members
    seed: int
    minutes: float
    rate: float
    old_clients: bool
    counts: Counter[str] = field(default_factory=Counter)
    heal_s: list[float] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def tell(self, text: str) -> None:
        """A line for whoever watches."""
        passed = time.monotonic() - self.began
        print(f"{int(passed // 60):3d}:{passed % 60:04.1f}  {text}", flush=True)

    def live(self, client: Client) -> list[str]:
        """Violations; StuckError."""
        members = self.members
        members.start_all()
        for topic, partitions in TOPICS.items():
            flush = "disk" if topic == "disk" else "replicated"
            client.admin.create_topic(topic, partitions, BROKERS, {"flush": flush})
        self.tell(f"{len(members.all)} processes are ready")
        load = LoadProcess(
            members.folder / "clients", members.servers, self.rate, self.seed, self.old_clients
        )
        try:
            self._go_on(load, 0)
            self._strike(client, load)
            self.tell("no more faults: the producers wait for their answers")
            load.end()
        finally:
            load.close()
        self._await_in_sync(client)
        return self._verdict(client, load)

    def _strike(self, client: Client, load: LoadProcess) -> None:
        chance = random.Random(self.seed)
        scene = Scene(self.members, chance, lambda: self._leader(client, chance), self.tell)
        for fault in self._faults(chance):
            if time.monotonic() - self.began > self.minutes * 60:
                return
            stored = load.progress.stored
            fault.strike(scene)
            self.counts[fault.name] += 1
            healing = time.monotonic()
            self._await_in_sync(client)
            self._go_on(load, stored)
            self.heal_s.append(time.monotonic() - healing)
            self.tell(f"  whole again after {self.heal_s[-1]:.1f} s; {load.progress.stored:,} values stored")
            for ended in self.members.ended_by_themselves():
                raise StuckError(f"{ended.name} ended by itself")
            time.sleep(CALM_S)

    def _faults(self, chance: random.Random) -> Iterator[Fault]:
        can, cannot = possible(self.members)
        if cannot:
            self.tell(f"NOT MADE HERE: {', '.join(cannot)}")
        while True:
            yield from chance.sample(can, len(can))

    def _leader(self, client: Client, chance: random.Random) -> int:
        def leaders() -> list[int]:
            described = client.admin.describe_topics(list(TOPICS))
            return [p.leader for topic in described for p in topic.partitions if p.leader is not None]

        return chance.choice(leaders())

    def _await_in_sync(self, client: Client) -> None:
        def whole() -> bool:
            try:
                described = client.admin.describe_topics(list(TOPICS))
            except TankError:
                return False
            return all(
                p.leader is not None and len(p.in_sync) == BROKERS
                for topic in described
                for p in topic.partitions
            )

        until(whole, "not every replica is in sync", HEAL_S)

    def _go_on(self, load: LoadProcess, stored: int) -> None:
        goal = max(stored, load.progress.stored) + GOES_ON
        until(lambda: load.progress.stored >= goal, "nothing is stored any more", HEAL_S)

    def _verdict(self, client: Client, load: LoadProcess) -> list[str]:
        history = read(sorted(load.folder.glob("*.jsonl")))
        log = read_all(client)
        found = load.progress.broken + violations(history, log) + self._copies(client, log)
        fates = Counter(sent.fate for sent in history.sent.values())
        self.tell(
            f"{fates[Fate.STORED]:,} values acknowledged, {fates[Fate.UNKNOWN]:,} unknown, "
            f"{fates[Fate.REFUSED]:,} refused; {sum(map(len, log.values())):,} in the log; consumers saw "
            f"{sum(len(m) for places in history.seen.values() for m in places.values()):,}"
        )
        for name, count in sorted(self.counts.items()):
            self.tell(f"  {count:4d} x {name}")
        if self.heal_s:
            worst, middle = max(self.heal_s), sorted(self.heal_s)[len(self.heal_s) // 2]
            self.tell(f"  whole again: median {middle:.1f} s, at most {worst:.1f} s")
        return found

    def _copies(self, client: Client, log: Log) -> list[str]:
        """Each broker is stopped in turn, so that others lead: what can be read must be the same."""
        found = []
        for member in self.members.brokers:
            member.stop()
            until(lambda: self._leaders(client), "a partition has no leader", HEAL_S)
            for place, messages in read_all(client).items():
                if messages != log[place]:
                    found.append(f"without {member.name} {place[0]}/{place[1]} holds something else")
            member.start()
            until(member.is_ready, f"{member.name} is not ready again", HEAL_S)
            self._await_in_sync(client)
        return found

    def _leaders(self, client: Client) -> bool:
        """Whether every partition has a leader whose process runs."""
        running = {member.number for member in self.members.brokers if member.runs}
        try:
            described = client.admin.describe_topics(list(TOPICS))
        except TankError:
            return False
        return all(p.leader in running for topic in described for p in topic.partitions)


def read_all(client: Client) -> Log:
    """Everything that can be read, by a fresh consumer."""
    log: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for topic in TOPICS:
        settings = ConsumerSettings(max_wait_ms=100)
        consumer = client.consumer(topic, stop_at_end=True, settings=settings)
        for batch in consumer:
            messages = log.setdefault((batch.topic, batch.partition), [])
            messages += [(m.sequence_number, name_of(bytes(m.value or b""))) for m in batch.messages()]
        consumer.close()
    return log


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults are made; default 5")
    parser.add_argument("--seed", type=int, default=None, help="the order of faults; default: by chance")
    parser.add_argument(
        "--rate", type=float, default=100.0, help="messages a second of each idempotent producer"
    )
    parser.add_argument("--loopback", action="store_true", help="no network namespaces")
    parser.add_argument("--no-old-clients", action="store_true", help="without clients of the old document")
    parser.add_argument("--keep", type=Path, help="a new folder for data, logs and records, which stays")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if chosen.seed is None else chosen.seed
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="tank-chaos-"))
    if chosen.keep is not None:
        if folder.exists():
            parser.error(f"--keep: {folder} is there already")
        folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was made is removed
    links, why = network.make(CONTROLLERS + BROKERS, namespaces=False if chosen.loopback else None)
    print(f"seed {seed}, on {links.name}{f' ({why}): LINKS ARE NOT CUT' if why else ''}", flush=True)
    members = Members(folder, links)
    found: list[str] = []
    try:
        members.plan(CONTROLLERS, BROKERS)
        run = Run(members, seed, chosen.minutes, chosen.rate, not chosen.no_old_clients)
        with Client(members.servers) as client:
            found = run.live(client)
    except (StuckError, TankError) as error:
        found = [str(error)]
    finally:
        members.close()
        links.close()
    if found:
        print("\n".join(["", "VIOLATIONS:", *found]))
        for member in members.all:
            print(f"\n{member.name} said at last:\n{member.last_words()}")
        print(f"\nagain: python -m tests.chaos --minutes {chosen.minutes:g} --seed {seed} --keep DIR")
        return 1
    if chosen.keep is None:
        shutil.rmtree(folder)
    print("nothing acknowledged was lost, repeated or out of order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
