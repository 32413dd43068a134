"""What brokers say about the members of Iggy's groups whose connections they have, and what the coordinator
tells them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tank_node.coordinators.machine.group_error import GroupError


class IggyMemberName(NamedTuple):
    """A member, as its broker names it."""

    connection: int
    """The serial number of the connection in its broker's process."""
    client_id: int
    """The number under which Iggy's clients see the connection."""
    is_sticky: bool
    """Whether its era keeps what it has at a change: from B3 on. Groups of others alone are shared out anew
    by the partitions' numbers."""


class Release(NamedTuple):
    """A member gave a partition up."""

    connection: int
    partition: int


@dataclass(slots=True, frozen=True)
class BrokerSaid:
    """All members of one group that are connected to one broker."""

    broker: int
    epoch: int
    """The broker's epoch: another process of it has other connections."""
    sequence: int
    """Rises with each message of the process. What comes behind a later one changes nothing."""
    members: Sequence[IggyMemberName]
    """All of them: who isn't named has left."""
    generation: int = 0
    """The last one that the broker heard of."""
    released: Sequence[Release] = ()
    """Given up as of this generation: what became pending later isn't meant."""


class IggyTold(NamedTuple):
    """What one member has."""

    connection: int
    partitions: tuple[int, ...]
    """What it may poll."""
    draining: tuple[int, ...] = ()
    """What it has to give up: it polls no more of it, and stores how far it came."""


@dataclass(slots=True, frozen=True)
class IggyAnswer:
    """The members of one broker as they are stored, or a refusal."""

    error: GroupError
    generation: int = 0
    members: tuple[IggyTold, ...] = ()
    """Those that are members; others have to be named again."""


class IggyKnown:
    """What a coordinator's machines know of the cluster: the view, seen through a keyhole."""

    __slots__ = ()

    def place_of(self, group_id: str) -> "tuple[str, int] | None":
        """The topic of an Iggy group, and how many partitions it has; None: there is no such group."""
        raise NotImplementedError

    @property
    def is_in_force(self) -> bool:
        """Whether the cluster has groups of Iggy's clients at all. Before, their names are names as others:
        a group of Kafka's clients may have one."""
        raise NotImplementedError

    def was_deleted(self, group_id: str) -> bool:
        """Whether a group was there once and is gone for ever."""
        raise NotImplementedError

    def is_alive(self, broker: int, epoch: int) -> bool:
        """Whether this process of a broker is the one that is registered, and is not fenced. One that
        registered after all that the view shows counts as alive."""
        raise NotImplementedError
