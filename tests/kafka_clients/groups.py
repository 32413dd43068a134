"""Groups of stock libraries' programs: members share a topic, join, leave, and start again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tank_client.sync import Client
from tests.kafka_clients.libraries import StockLibrary
from tests.kafka_clients.matrix import printed_by
from tests.kafka_clients.member import END_S, Member, until

PARTITIONS: Final = 8
"""The partitions of the shared topic: more than there are members in one group."""
SENT: Final = 3
"""The records that are sent to each partition at a time."""
STEPS, STATIC_STEPS = 4, 1
"""Of each library, and more of one with static members."""
INTRODUCTION_STEPS: Final = 1
MIXED_STEPS: Final = 2
ALL: Final = list(range(PARTITIONS))
CLASSIC, CONSUMER = "classic", "consumer"
"""Who assigns the partitions: a member, or the broker (KIP-848)."""


@dataclass(frozen=True, slots=True)
class GroupTests:
    """Where groups are tried: the topic has PARTITIONS partitions, and nothing else is sent to it."""

    folder: Path
    """Where the libraries are installed."""
    servers: str
    """Brokers as Kafka's clients know them."""
    tank_servers: str
    topic: str

    def member(
        self, library: StockLibrary, group: str, instance: str = "", protocol: str = CLASSIC
    ) -> Member:
        """Starts a member."""
        command = [*library.command(self.folder), "share", self.servers, self.topic, group, instance]
        return Member([*command, protocol])

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

    def of_one_library(
        self, library: StockLibrary, protocol: str = CLASSIC
    ) -> Iterator[tuple[str, Callable[[], str]]]:
        """The steps of one library, in their order: what each is about, and what it does. It returns what is
        wrong; empty: nothing. Raises RuntimeError."""
        group = f"group-{library.name}-{protocol}"
        sent: list[tuple[int, int]] = []
        with ExitStack() as members:

            def joined(instance: str = "", group: str = group) -> Member:
                return members.enter_context(self.member(library, group, instance, protocol))

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
                static = f"{group}-static"
                yield "starts again as a static member", lambda: self._static(joined, static, protocol)

    def _static(self, joined: Callable[[str, str], Member], group: str, protocol: str) -> str:
        """By the broker's protocol a name is free when its process says so, or its session is over: there the
        process ends in order."""
        one, other = running = [joined("one", group), joined("other", group)]
        until(running, lambda: is_shared(running))
        kept, changes = one.assigned, other.changes
        if protocol == CLASSIC:
            one.kill()
        else:
            one.leave()
        running[0] = joined("one", group)
        until(running, lambda: running[0].assigned == kept)
        sent = self.send()
        until(running, lambda: set(running[0].read) | set(other.read) >= set(sent))
        if other.changes != changes:
            return f"the other member's assignment changed {other.changes - changes} times"
        for member in running:
            member.leave()
        return ""

    def introduction(self, library: StockLibrary) -> str:
        """The library's own first example of a group, with all its usual settings: it reads the topic to its
        end, and, started again, what has come since, and nothing twice. Returns what is wrong."""
        group = f"introduction-{library.name}"
        sent = self.send()
        ends = {partition: offset + 1 for partition, offset in sent}  # nothing is ever deleted
        count = sum(ends.values())
        first = self._introduced(library, group, count)
        if not set(sent) <= set(first) or len(set(first)) != len(first):
            return f"read {len(first)} records, {len(set(first))} of them once, where {count} are"
        more = self.send()
        second = self._introduced(library, group, len(more))
        return "" if second == more else f"read {second[:4]}..., where {more[:4]}... came after the commit"

    def _introduced(self, library: StockLibrary, group: str, count: int) -> list[tuple[int, int]]:
        command = [*library.command(self.folder), "introduce", self.servers, self.topic, group, str(count)]
        places = []
        for line in printed_by(command):
            partition, _, offset = line.strip("[]").partition(",")
            places.append((int(partition), int(offset)))
        return sorted(places)

    def of_all_libraries(self, libraries: list[StockLibrary]) -> str:
        """Members of all these libraries in one group: each record is read by one of them. Returns what is
        wrong. Raises RuntimeError."""
        with ExitStack() as stack:
            members = [stack.enter_context(self.member(each, "group-of-all")) for each in libraries]
            until(members, lambda: is_shared(members))
            problem = self._each_is_read_once(members)
            for member in members:
                member.leave()
        return problem

    def _each_is_read_once(self, members: list[Member]) -> str:
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
        return "" if fresh() == sent else f"{len(fresh())} records were read, where {len(sent)} were sent"

    def changes_its_kind(self, one: StockLibrary, other: StockLibrary, kinds: tuple[str, str]) -> str:
        """A group's members start again, one after the other, with another protocol: while they are of both
        kinds, and after it, they share the topic, and read each record once. Returns what is wrong."""
        before, after = kinds
        group = f"group-{before}-{after}"
        with ExitStack() as stack:

            def joined(library: StockLibrary, protocol: str) -> Member:
                return stack.enter_context(self.member(library, group, "", protocol))

            members = [joined(one, before), joined(other, before)]
            until(members, lambda: is_shared(members))
            for place, library in enumerate((one, other)):
                members[place].leave()
                members[place] = joined(library, after)
                until(members, lambda: is_shared(members))
                problem = self._each_is_read_once(members)
                if problem:
                    return f"{library.name} has changed: {problem}"
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


def assigned_by_broker(libraries: list[StockLibrary]) -> list[StockLibrary]:
    """Those whose members can leave the assignment to the broker."""
    return [library for library in able(libraries) if library.has_consumer_protocol]


def mixed(libraries: list[StockLibrary]) -> list[StockLibrary]:
    """The two whose members change their protocol in one group; none if there are not two."""
    found = assigned_by_broker(libraries)
    return found[:2] if len(found) > 1 else []


def planned(libraries: list[StockLibrary], *, with_consumer_protocol: bool) -> int:
    """How many steps these libraries have."""

    def own(of: list[StockLibrary]) -> int:
        return sum(STEPS + STATIC_STEPS * library.has_static_members for library in of)

    count = own(able(libraries)) + INTRODUCTION_STEPS * len(able(libraries)) + bool(agreeing(libraries))
    if with_consumer_protocol:
        count += own(assigned_by_broker(libraries)) + MIXED_STEPS * bool(mixed(libraries))
    return count


def is_shared(members: list[Member]) -> bool:
    """Whether each partition belongs to one of these, and none is left without."""
    return sorted(each for member in members for each in member.assigned) == ALL and all(
        member.assigned for member in members
    )
