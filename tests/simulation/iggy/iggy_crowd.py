"""All of Iggy's clients in a random story: which there are, and how restless.

All is drawn by a chance of their own. So a story without them is what it was before there were any, and the
other parts of one with them are drawn as without them.
"""

from collections.abc import Iterator
from random import Random

from tank_node.iggy.settings import IggySettings
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_loners import IggyLoner
from tests.simulation.iggy.iggy_scanners import IggyScanner
from tests.simulation.iggy.iggy_senders import IggySender
from tests.simulation.iggy.iggy_sharers import IggySharer
from tests.simulation.iggy.iggy_tenant import IggyTenant, Tenancy
from tests.simulation.iggy.iggy_visitor import IggyVisitor
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.network import Network
from tests.simulation.world.serving import Addresses
from tests.simulation.world.world import MS, SECOND

_PAUSES_US = (100 * MS, 200 * MS, 300 * MS)
_BEGIN_US = 3 * SECOND
"""They come when the first brokers are there."""


class IggyCrowd:
    """Of one story."""

    def __init__(self, seed: int, ledger: IggyLedger) -> None:
        chance = Random(f"iggy of {seed}")
        waits = Random(f"polls of {seed}")
        self._settings = IggySettings(poll_wait_ms=waits.choice((0, 0, 1000)))
        self._answered: dict[str, int] = {}
        """By client: how many good answers it had when the last fault was over."""
        self.ledger = ledger
        self._world = ledger.world
        pause_us = chance.choice(_PAUSES_US)
        names = chance.choice((("orders",), ("orders",), ("orders", "bills")))
        topics = [Tenancy(name, chance.choice((1, 2, 3)), chance.choice((1, 2, 3, 3, 3))) for name in names]
        self.tenant = IggyTenant(
            ledger, 100 * MS, "tenant", topics, chance.choice((0.02, 0.1, 0.2)), Random(f"tenant of {seed}")
        )
        self.senders = [
            IggySender(ledger, pause_us, f"sender{n}", topics) for n in range(chance.choice((1, 1, 2)))
        ]
        self.scanners = [
            IggyScanner(ledger, pause_us, f"scanner-{topic.name}{n}", topic.name, n)
            for topic in topics
            for n in range(topic.partitions)
        ]
        self._loners = [
            IggyLoner(ledger, pause_us, f"loner-{topic.name}{n}", topic.name, n)
            for topic in topics
            for n in range(topic.partitions)
            if chance.random() < 0.6
        ]
        unrest = chance.choice((0.0, 0.02, 0.05))
        self._sharers = [
            IggySharer(ledger, pause_us, f"sharer-{topic.name}{n}", topic.name, unrest)
            for topic in topics
            for n in range(chance.choice((1, 2, 3)))
        ]

    def everybody(self) -> Iterator[IggyVisitor]:
        """All clients."""
        yield self.tenant
        yield from self.senders
        yield from self.scanners
        yield from self._loners
        yield from self._sharers

    def begin(self, network: Network, addresses: Addresses, brokers: dict[int, BrokerMachine]) -> None:
        """They come, a while after the story's beginning. Before that brokers begin to serve them."""
        self.ledger.watch(brokers)
        for machine in brokers.values():
            machine.iggy = self._settings

        def come() -> None:
            for client in self.everybody():
                client.open_line(network, addresses, brokers)
                client.act()

        self._world.after(_BEGIN_US, None, come)

    # --- the end ---

    def come_to_rest(self) -> None:
        """No faults, and no unrest, from now on."""
        for client in self.everybody():
            client.is_settled = True
        self._answered = {client.name: client.answered for client in self.everybody()}

    @property
    def waits(self) -> str:
        """Who is not served since the last fault; empty: all are."""
        if not self.tenant.has_all:
            return "the tenant's steps are not done"
        waiting = [
            client.name
            for client in self.everybody()
            if client is not self.tenant
            and not client.has_nothing
            and client.answered < self._answered.get(client.name, 0) + client.shows_health
        ]
        return ", ".join(waiting)

    def write(self, *, active: bool) -> None:
        """Those that write do so, or write no more. What only readers do goes on."""
        for client in self.senders:
            client.active = active

    def read_again(self) -> None:
        """All is read once more, from the first message on."""
        for scanner in self.scanners:
            scanner.read_again()

    @property
    def complaint(self) -> str:
        """What is not read, or by none of a group; empty: all is well."""
        for scanner in self.scanners:
            if scanner.complaint:
                return scanner.complaint
        for topic in self.tenant.topics:
            for member in [each for each in self._sharers if each.topic == topic.name]:
                meant = member.meant
                have = [self.ledger.holders.holders(meant.born, n) for n in range(meant.partitions)]
                if set(have) != {1}:
                    return f"so many members have the partitions of {topic.name}: {have}"
        return ""
