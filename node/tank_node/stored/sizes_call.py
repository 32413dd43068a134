"""Asking all leaders for the sizes of partitions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.cluster.view import NO_LEADER, PartitionView
from tank_node.limits import SIZED_PARTITIONS
from tank_node.session import Session
from tank_node.stored.answers import read_sizes
from tank_node.stored.forwarded import ForwardedStored
from tank_node.stored.leader.measuring import extent_of
from tank_node.stored.places import placed
from tank_node.stored.results import PartitionExtent, Place
from tank_node.stored.telling import tell
from tank_protos.feature_levels import IGGY
from tank_protos.generated.tank import PartitionSizesRequest, SizedPartition


class SizesCall:
    """One question. Each leader is asked once; whoever can't answer is left out."""

    __slots__ = ("_broker", "_done", "_found", "_missing", "_sender")

    def __init__(
        self, broker: Broker, sender: Session, done: Callable[[Mapping[Place, PartitionExtent]], None]
    ) -> None:
        """done: called once; not after `sender` was closed."""
        self._broker = broker
        self._sender = sender
        self._done = done
        self._found: dict[Place, PartitionExtent] = {}
        self._missing = 1
        """The number of requests without an answer, plus 1 until all were sent."""

    def begin(self, places: Iterable[Place]) -> None:
        """Measures the partitions that are led here, and asks for the others."""
        view = self._broker.link.view
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            seen = placed(self._broker, place)
            if not isinstance(seen, PartitionView) or seen.leader == NO_LEADER:
                continue
            if seen.leader != view.broker_id:
                by_leader.setdefault(seen.leader, []).append(place)
                continue
            extent = extent_of(self._broker, place)
            if isinstance(extent, PartitionExtent):
                self._found[place] = extent
        if view.feature_level >= IGGY:
            for leader, wanted in by_leader.items():
                for at in range(0, len(wanted), SIZED_PARTITIONS):
                    self._send(leader, wanted[at : at + SIZED_PARTITIONS])
        self._one_less()

    def _send(self, leader: int, places: Sequence[Place]) -> None:
        broker = self._broker
        request = PartitionSizesRequest(partitions=[SizedPartition(*place) for place in places])
        forwarded = ForwardedStored(
            request,
            broker.tick.monotonic_ms + broker.limits.stored_sizes_wait_ms,
            partial(read_sizes, count=len(places)),
            partial(self._told, places),
            lambda sent: self._one_less(),
            lambda: True,
        )
        self._missing += 1
        if not broker.forwarding.send(leader, forwarded, self._sender):
            self._one_less()

    def _told(self, places: Sequence[Place], extents: Sequence[PartitionExtent | None]) -> None:
        for place, extent in zip(places, extents, strict=True):
            if extent is not None:
                self._found[place] = extent
        self._one_less()

    def _one_less(self) -> None:
        self._missing -= 1
        if not self._missing:
            tell(self._broker, self._sender, self._done, self._found)
