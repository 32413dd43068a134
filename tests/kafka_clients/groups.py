"""Members of groups, each a stock library's program: they share a topic, join, leave, and start again."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self

from tank_client.sync import Client
from tests.kafka_clients.libraries import StockLibrary

PARTITIONS: Final = 8
"""The partitions of the shared topic: more than there are members in one group."""
SENT: Final = 3
"""The records that are sent to each partition at a time."""
STEPS, STATIC_STEPS = 4, 1
"""Of each library, and more of one with static members."""
WAIT_S: Final = 60.0
"""The longest that members may take to agree, or to read: a session of 10 s, and Java's start on a busy
machine."""
END_S: Final = 20.0
ALL: Final = list(range(PARTITIONS))
_LOOK_S: Final = 0.05


class Member:
    """A member of a group, in a process of its own. What it says is read by a thread."""

    def __init__(self, command: list[str]) -> None:
        self.assigned: list[int] = []
        """Its partitions."""
        self.changes = 0
        """How often it has said that they changed."""
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, as they came."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = ""
        self._threads = [Thread(target=each, daemon=True) for each in (self._listen, self._complaints)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: list[Any] = json.loads(line)
            if event[0] == "assigned":
                self.assigned = sorted(event[1])
                self.changes += 1
            else:
                self.read.append((event[1], event[2]))

    def _complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = (self._said + line)[-300:]

    def check(self) -> None:
        """Raises RuntimeError if the program has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"a member has ended with {self._process.returncode}: {self._said.strip()}")

    def leave(self) -> None:
        """Ends the program's input: it commits, and leaves the group. Raises RuntimeError."""
        self.check()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"a member has not left the group after {END_S:.0f} s") from None
        if code:
            raise RuntimeError(f"a member has left with {code}: {self._said.strip()}")
        for thread in self._threads:
            thread.join(END_S)

    def kill(self) -> None:
        """Ends the process at once, if it runs."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass(frozen=True, slots=True)
class GroupTests:
    """Where groups are tried: the topic has PARTITIONS partitions, and nothing else is sent to it."""

    folder: Path
    """Where the libraries are installed."""
    servers: str
    """Brokers as Kafka's clients know them."""
    tank_servers: str
    topic: str

    def member(self, library: StockLibrary, group: str, instance: str = "") -> Member:
        """Starts a member."""
        return Member([*library.command(self.folder), "share", self.servers, self.topic, group, instance])

    def send(self) -> list[tuple[int, int]]:
        """Sends records to each partition. Returns their places."""
        with Client(self.tank_servers) as client, client.producer() as producer:
            sent = [
                (partition, producer.send(self.topic, b"x" * 100, partition=partition))
                for partition in ALL
                for _ in range(SENT)
            ]
            producer.flush()
            firsts: dict[int, int] = {}
            for partition, stored in sent:
                first = stored.result(END_S).first
                firsts[partition] = min(first, firsts.get(partition, first))
        return [(partition, firsts[partition] - 1 + n) for partition in ALL for n in range(SENT)]

    def of_one_library(self, library: StockLibrary) -> Iterator[tuple[str, Callable[[], str]]]:
        """The steps of one library, in their order: what each is about, and what it does. It returns what is
        wrong; empty: nothing. Raises RuntimeError."""
        group = f"group-{library.name}"
        sent: list[tuple[int, int]] = []
        with ExitStack() as members:

            def joined(instance: str = "", group: str = group) -> Member:
                return members.enter_context(self.member(library, group, instance))

            running: list[Member] = []

            def alone() -> str:
                sent.extend(self.send())
                running.append(joined())
                until(running, lambda: running[0].assigned == ALL and set(running[0].read) >= set(sent))
                return ""

            def shares() -> str:
                running.append(joined())
                until(running, lambda: is_shared(running))
                return ""

            def leaves() -> str:
                running.pop().leave()
                until(running, lambda: running[0].assigned == ALL)
                return ""

            def begins_again() -> str:
                running.pop().leave()
                more = self.send()
                running.append(joined())
                until(running, lambda: len(running[0].read) >= len(more))
                found = sorted(running[0].read)
                running.pop().leave()
                return (
                    "" if found == more else f"read {found[:4]}..., where {more[:4]}... came after the commit"
                )

            yield "reads a topic as a group's only member", alone
            yield "shares it with a second member", shares
            yield "takes all when that leaves", leaves
            yield "goes on where it has committed", begins_again
            if library.has_static_members:
                yield "starts again as a static member", lambda: self._static(joined, f"{group}-static")

    def _static(self, joined: Callable[[str, str], Member], group: str) -> str:
        one, other = running = [joined("one", group), joined("other", group)]
        until(running, lambda: is_shared(running))
        kept, changes = one.assigned, other.changes
        one.kill()
        running[0] = joined("one", group)
        until(running, lambda: running[0].assigned == kept)
        sent = self.send()
        until(running, lambda: set(running[0].read) | set(other.read) >= set(sent))
        if other.changes != changes:
            return f"the other member's assignment changed {other.changes - changes} times"
        for member in running:
            member.leave()
        return ""

    def of_all_libraries(self, libraries: list[StockLibrary]) -> str:
        """Members of all these libraries in one group: each record is read by one of them. Returns what is
        wrong. Raises RuntimeError."""
        with ExitStack() as stack:
            members = [stack.enter_context(self.member(each, "group-of-all")) for each in libraries]
            until(members, lambda: is_shared(members))
            before = [len(member.read) for member in members]
            sent = self.send()

            def fresh() -> list[tuple[int, int]]:
                return sorted(
                    place
                    for member, n in zip(members, before, strict=True)
                    for place in member.read[n:]
                    if place in sent
                )

            until(members, lambda: set(fresh()) == set(sent))
            if fresh() != sent:
                return f"{len(fresh())} records were read, where {len(sent)} were sent"
            for member in members:
                member.leave()
        return ""


def able(libraries: list[StockLibrary]) -> list[StockLibrary]:
    """Those whose clients can be members of groups: all that speak Kafka's protocol."""
    return [library for library in libraries if not library.speaks_tank]


def agreeing(libraries: list[StockLibrary]) -> list[StockLibrary]:
    """Those whose members can share one group; none if there is but one."""
    found = [library for library in able(libraries) if library.assigns_by_range]
    return found if len(found) > 1 else []


def planned(libraries: list[StockLibrary]) -> int:
    """How many steps these libraries have."""
    own = sum(STEPS + STATIC_STEPS * library.has_static_members for library in able(libraries))
    return own + bool(agreeing(libraries))


def is_shared(members: list[Member]) -> bool:
    """Whether each partition belongs to one of these, and none is left without."""
    return sorted(each for member in members for each in member.assigned) == ALL and all(
        member.assigned for member in members
    )


def until(members: list[Member], true: Callable[[], bool]) -> None:
    """Waits for this. Raises RuntimeError when it takes too long, or a member ends."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        for member in members:
            member.check()
        if time.monotonic() > deadline:
            told = [(member.assigned, len(member.read)) for member in members]
            raise RuntimeError(f"after {WAIT_S:.0f} s the members have (partitions, records read) {told}")
        time.sleep(_LOOK_S)
