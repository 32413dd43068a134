"""The guarantee that one member at a time polls a partition of an Iggy group.

What a broker lets its members poll is looked at after each of its events. Two members had a partition at once
if the time in which one was seen with it reaches into that of the other. A broker that is fenced is not
judged until its word has run out, nor is one that has its word from a coordinator that was replaced and has
not heard of it: a message that is read twice is all that comes of it (docs/decisions/0096).
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tank_node.broker.broker import Broker
from tank_node.coordinators.iggy.iggy_members import SILENCE_MS
from tank_node.iggy.session import IggySession
from tank_node.peers.iggy.iggy_memberships import IggyMemberships
from tank_protos.error_codes import ErrorCode
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import MS, SECOND, World, must

_WORD_US = SILENCE_MS * MS + SECOND
"""So long a broker goes by what it was told last, and a little longer."""


@dataclass(slots=True)
class _Held:
    """One member's time with a partition."""

    machine: str
    since: int
    """The number of the world's event behind which it was seen first; as is the next one."""
    until: int
    at: int
    """When it was seen last."""
    look: int
    """And which look at its broker that was."""


@dataclass(slots=True)
class IggyHolders:
    """Of all groups of a story."""

    world: World
    _held: dict[tuple[int, int], dict[int, _Held]] = field(default_factory=lambda: defaultdict(dict))
    """By group's birth and partition, and by connection."""
    _looks: Counter[str] = field(default_factory=Counter)
    """By machine."""
    _excused_until: dict[str, int] = field(default_factory=dict)
    """Brokers, by the names of their machines, that may go by an old word until then."""
    _excused_groups: dict[tuple[str, int], int] = field(default_factory=dict)
    """The same for one group of a broker."""

    def excuse(self, machine: str) -> None:
        """The broker is fenced now: it may not have heard of it."""
        self._excused_until[machine] = self.world.now + _WORD_US

    def excuse_group(self, machine: str, born: int) -> None:
        """The broker hears of this group from a coordinator that was replaced."""
        self._excused_groups[machine, born] = self.world.now + _WORD_US

    def resized(self) -> None:
        """A topic has lost partitions: who has one of them may hear of it with the next word."""
        for machine in {each.machine for held in self._held.values() for each in held.values()}:
            self.excuse(machine)

    def holders(self, born: int, partition: int) -> int:
        """How many members have been seen with this partition in the last second."""
        since = self.world.now - SECOND
        return sum(each.at >= since for each in self._held[born, partition].values())

    def look(self, machine: BrokerMachine) -> None:
        """After an event of a broker."""
        broker, server = machine.broker, machine.server
        if broker is None or server is None:
            return
        memberships = broker.shared.get(IggyMemberships)
        if not isinstance(memberships, IggyMemberships):
            return
        self._looks[machine.name] += 1
        for line in server.lines.values():
            if isinstance(line.session, IggySession) and "memberships" in line.session.endings:
                self._look_at(machine.name, broker, memberships, line.session.serial)

    def _look_at(self, name: str, broker: Broker, memberships: IggyMemberships, connection: int) -> None:
        for born in memberships.groups_of(connection):
            found = memberships.assignment(born, connection)
            if not isinstance(found, ErrorCode):
                for number in found.partitions:
                    self._holds(name, born, number, connection)

    def _holds(self, machine: str, born: int, partition: int, connection: int) -> None:
        now, event, held = self.world.now, self.world.events, self._held[born, partition]
        mine = held.get(connection)
        look = self._looks[machine]
        if mine is None or mine.look < look - 1:  # it had lost it in between
            mine = held[connection] = _Held(machine, event, event, now, look)
            self.world.counts["partitions given to members of iggy groups"] += 1
        mine.until, mine.at, mine.look = event, now, look
        for other, theirs in held.items():
            if other == connection or theirs.until < mine.since:
                continue
            if self._is_excused(machine, born) or self._is_excused(theirs.machine, born):
                mine.since = event + 1
                continue
            must(False, "partition %s of the group of %s is polled at %s and at %s",
                 partition, born, machine, theirs.machine)  # fmt: skip

    def _is_excused(self, machine: str, born: int) -> bool:
        now = self.world.now
        return self._excused_until.get(machine, 0) > now or self._excused_groups.get((machine, born), 0) > now
